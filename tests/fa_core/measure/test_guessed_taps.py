"""Taps where none are given: the whole stream, as modules give or read it; said, or refused."""

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.errors import TapError
from fa_core.measure.isolate import eval_mode
from fa_core.measure.taps import guess_taps
from tests.fa_core.measure.nets import OUTSIDE, Block, Hookable, Residual, Stack, batches


def guess(model, x):
    with eval_mode(model) as net:
        return guess_taps(net.model, x)


def tanh(width=6):
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


def block(width=6):
    return Block(width, tanh(width))


class Dropped(nn.Sequential):
    """An embedding of two modules."""

    def __init__(self):
        super().__init__(nn.Linear(5, 6), nn.Dropout())


def stack(*blocks):
    return Stack(Dropped(), blocks, nn.Linear(6, 4))


def branches(kind):
    """Its blocks give f(h) alone, and the network adds it."""
    return kind(nn.Linear(5, 6), [tanh() for _ in range(3)], nn.Linear(6, 4), adds=True)


def test_a_guess_measures_what_the_same_taps_measure_and_is_said():
    net = Hookable(Residual())
    report = diagnose(net, batches(8))
    given = diagnose(net, batches(8), taps="embed, blocks.*")
    assert report.tap_names == given.tap_names == ["embed", "blocks.0", "blocks.1", "blocks.2"]
    assert report.bp_grad_norms == given.bp_grad_norms
    assert report.provenance["guessed_taps"] == ["embed", "blocks.*"]
    guessed = "taps guessed: 'embed,blocks.*'"
    assert (report.notes, given.notes) == (f"{guessed}; {OUTSIDE}", OUTSIDE)
    assert not any(module._forward_hooks for module in net.modules())


@torch.library.custom_op("fa_tests::product", mutates_args=())
def product(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return h @ weight


class Operator(nn.Linear):
    def forward(self, h):
        return product(h, self.weight)


TIED = block()
GUESSED = {
    "a tied block": (stack(TIED, TIED, TIED), ["embed", "blocks.*"]),
    "blocks of blocks": (
        stack(*(Block(6, nn.Sequential(block(), block())) for _ in range(3))),
        ["embed", "blocks.*"],
    ),
    "an embedding that is a block among blocks": (
        nn.Sequential(nn.Linear(5, 6), block(), block(), nn.Linear(6, 4)),
        ["0", "1", "2"],
    ),
    "a norm between blocks, and what it reads": (
        nn.Sequential(nn.Linear(5, 6), block(), nn.LayerNorm(6), block(), nn.Linear(6, 4)),
        ["0", "1", "2", "3"],
    ),
    "an operator of torch.library": (
        stack(*(Block(6, nn.Sequential(Operator(6, 6), nn.Tanh())) for _ in range(3))),
        ["embed", "blocks.*"],
    ),
    "the input feeds the first block": (
        nn.Sequential(block(5), block(5), nn.Linear(5, 4)),
        ["*:in"],
    ),
}


@pytest.mark.parametrize("case", GUESSED)
def test_blocks_and_what_feeds_them_are_found(case):
    net, expected = GUESSED[case]
    assert guess(net, torch.randn(2, 5)) == expected


class Notebook(nn.Module):
    """Its layers and branches are attributes."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3, self.res1, self.res2 = (tanh(5) for _ in range(5))
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        h = self.conv2(self.conv1(x))
        h = self.conv3(h + self.res1(h))
        return self.head(h + self.res2(h))


class Activated(Notebook):
    """Plain layers behind the block, and the last state behind an activation."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.fc4 = (nn.Linear(5, 5) for _ in range(4))

    def forward(self, x):
        h = self.fc1(x).relu()
        h = self.fc3(h + self.fc2(h).relu()).relu()
        return self.head(self.fc4(h).relu())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Notebook, ["conv1", "res*:in", "conv3:in", "head:in"]),
        (Activated, ["fc2:in", "fc3:in", "fc4:in", "head:in"]),
    ],
)
def test_what_a_guess_leaves_out_is_added(kind, expected):
    assert guess(kind(), torch.randn(2, 5)) == expected


class Recurrent(nn.Module):
    def __init__(self, read):
        super().__init__()
        self.embed, self.rnn = nn.Linear(5, 6), nn.LSTM(6, 6, batch_first=True)
        self.hidden, self.head, self.read = nn.Linear(6, 6), nn.Linear(6, 4), read

    def forward(self, x):
        out, (last, _) = self.rnn(self.embed(x))
        return self.head(self.hidden(self.read(out, last)).relu())


def test_the_last_step_of_an_lstm_is_a_state_and_its_h_n_is_none():
    x = torch.randn(2, 3, 5)
    assert guess(Recurrent(lambda out, last: out[:, -1]), x) == ["rnn:in", "hidden:in", "head:in"]
    with pytest.raises(TapError, match=r"h_1 \(hidden:in\) is, .* read out\[:, -1\]"):
        guess(Recurrent(lambda out, last: last[-1]), x)


def test_the_taps_of_a_refusal_work_when_copied():
    x, y = torch.randn(8, 3, 5), torch.randint(4, (8,))
    net = Recurrent(lambda out, last: out.relu().mean(1))
    with pytest.raises(TapError, match="would leave out head:in") as caught:
        guess(net, x)
    report = diagnose(net, [(x, y)], taps=caught.value.hint.split("'")[1])
    assert (report.tap_names, report.partial_stream) == (["embed", "rnn"], "head:in")
    # a kernel that writes into its own room changes nothing of the network's
    assert "gamma" not in report.unmeasured


class Twice(Stack):
    def states(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + 0.5 * block(h) + 0.5 * block(h)
        return h, []


class Parallel(Stack):
    def states(self, x):
        h = self.embed(x)
        return sum(block(h) for block in self.blocks), []


def test_a_state_that_is_read_twice_is_one_layer():
    report = diagnose(branches(Twice), batches(8), taps="embed, blocks.*:in, head:in")
    assert report.tap_names == ["embed", "blocks.1:in", "blocks.2:in", "head:in"]


PAST = (
    r"past h_1 \(blocks.0\), h_2 \(blocks.1\) depends on h_0 \(embed\); "
    r".* 'blocks.\*:in,head:in'"
)


@pytest.mark.parametrize(
    ("kind", "taps", "said"),
    [
        (Stack, "embed, blocks.*", PAST),
        (Stack, "embed, blocks.*.0", r"blocks.2.0.* does not depend|no stream"),
        (Parallel, "embed, blocks.*", r"h_2 \(blocks.1\) does not depend on h_1 \(blocks.0\)"),
    ],
)
def test_outputs_of_branches_and_blocks_side_by_side_are_no_stream(kind, taps, said):
    with pytest.raises(TapError, match=said):
        diagnose(branches(kind), batches(1), taps=taps)


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("mobilenetv2_050", {}, ["bn1", "blocks.*.*"]),
        (
            "swin_tiny_patch4_window7_224",
            {"img_size": 32, "window_size": 2, "embed_dim": 12, "depths": (2, 2)},
            ["layers.*.downsample", "layers.*.blocks.*"],
        ),
    ],
)
def test_networks_of_timm(name, sizes, expected):
    timm = pytest.importorskip("timm")
    net = timm.create_model(name, num_classes=4, **sizes)
    assert guess(net, torch.randn(2, 3, 32, 32)) == expected


def test_a_network_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_embd=8, n_head=2, vocab_size=11, pad_token_id=0, num_labels=4
    )
    net = transformers.GPT2ForSequenceClassification(config)
    assert guess(net, torch.randint(1, 11, (2, 5))) == ["transformer.drop", "transformer.h.*"]
