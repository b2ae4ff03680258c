"""The stream, proven: guessed and named taps against states kept by hand, and what is refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from fa_core import diagnose
from fa_core.errors import FaError, TapError
from fa_core.measure.blocks import left_out
from fa_core.measure.flow import ROOT, Flow
from fa_core.measure.stream import prove
from fa_core.measure.taps import resolve_taps
from tests.fa_core.measure import foreign
from tests.fa_core.measure.foreign import CLASSES, D
from tests.field import reference
from tests.field.layer_nets import Alternates, ReadsOneRow
from tests.field.residual_nets import (
    GPT,
    CopiesFirst,
    Directions,
    Distances,
    DropsTokens,
    NoStem,
    NoStemAdds,
    NumberedStem,
    ReadsTwoStates,
    Residual,
    RowDistances,
    SkipsWhereShapesAgree,
    ViTRegisters,
)


def batch_of(net):
    x = foreign.inputs(type(net))
    return x.double() if x.is_floating_point() else x, torch.randint(CLASSES, (16,))


@pytest.mark.parametrize("kind", foreign.GUESSED)
def test_a_guess_is_the_stream_kept_by_hand_to_the_bit(kind):
    torch.manual_seed(1)
    net = kind().double().eval()
    batch = batch_of(net)
    report = diagnose(net, [batch])
    net.kept = states = []
    net(batch[0])
    token = {"cls token": 0, "last token": -1}.get(report.flatten)
    rows = [h if token is None else h[:, token] for h in states]
    assert report.residual_norms == [float(h.flatten(1).norm(dim=1).median()) for h in rows]
    again = diagnose(net, [batch], taps=report.provenance["guessed_taps"])
    assert again.bp_grad_norms == report.bp_grad_norms and not again.partial_stream


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_state_that_returns_after_some_calls_is_no_dependence_of_samples(every, count):
    net = Alternates().double()
    net.every = every
    with pytest.raises(FaError, match="keeps state between calls"):
        diagnose(net, reference.batches(net.x, count), taps="net.2, net.5, net.8")


@pytest.mark.parametrize(
    ("kind", "taps", "left"),
    [
        (
            foreign.EncMapDec,
            "mid, dec.*",
            "enc.0, enc.1, enc.2, enc.3",
        ),
        (
            foreign.EncMapDec,
            "emb, enc.0, enc.1, enc.2, mid, dec.*",
            "enc.3",
        ),
        (Residual, "embed, blocks.2:in, norm:in", "blocks.1:in"),
        (GPT, "wte, h.*", "h.0:in"),
        (SkipsWhereShapesAgree, "blocks.*", "blocks.0"),
        (Distances, "embed, blocks.0, blocks.1", "blocks.2"),
        (ReadsTwoStates, "embed, blocks.0, blocks.1, blocks.2, blocks.3, blocks.4", "blocks.5"),
        (NumberedStem, "fc2, blocks.*", "embed"),
        (RowDistances, "embed, blocks.0, blocks.1", "blocks.2"),
        (NoStem, "blocks.*", "blocks.0"),
        (ViTRegisters, "blocks.*:in, norm:in", "blocks.2 in part (h_2 is [5, 6], h_3 [3, 6])"),
        (DropsTokens, "blocks.*:in, blocks.2", "blocks.0 in part (h_0 is [5, 6], h_1 [2, 6])"),
        (DropsTokens, "blocks.0:in, blocks.*", "blocks.0 in part (h_1 is [5, 6], h_2 [2, 6])"),
        (
            ReadsOneRow,
            "blocks.*:in, head:in",
            "a state without a name in part (h_1 is [6, 3, 3], h_2 [18])",
        ),
        (Directions, "embed, blocks.0, blocks.1, act", "blocks.2"),
        (Directions, "embed, blocks.*:in, normed", "what the final norm reads"),
        (NoStemAdds, "blocks.1:in, blocks.2:in, norm:in", "blocks.0"),
        (
            SkipsWhereShapesAgree,
            "embed, blocks.0, blocks.1, blocks.2, blocks.4",
            "blocks.3, blocks.5",
        ),
    ],
)
def test_what_named_taps_leave_out_is_said(kind, taps, left):
    net = kind().double()
    report = diagnose(net, reference.batches(net.x, 1), taps=taps)
    assert report.partial_stream == left
    assert {report.states[letter] for letter in "ab"}.isdisjoint({"passes"})


def test_what_is_said_to_be_left_out_has_its_module():
    net = ViTRegisters().double()
    ((x, _),) = reference.batches(net.x, 1)
    with Flow(net, x) as flow:
        stream = resolve_taps(net, "blocks.*:in, norm:in").forward(net, x)
    left = left_out(flow, prove(flow, stream), stream.hidden)
    assert left == {"blocks.2 in part (h_2 is [5, 6], h_3 [3, 6])": "blocks.2"}


class Between(CopiesFirst):
    """Something lies behind the blocks of some places; behind the stem that of place 0."""

    x = (16, 6, 5)

    def __init__(self, act, *places):
        super().__init__()
        self.act, self.places = act, places

    def stream(self, x):
        hidden = []
        for place, step in enumerate((self.embed, *self.blocks)):
            given = step(hidden[-1] if hidden else x)
            hidden.append(self.act(given) if place in self.places else given)
        return hidden

    def readout(self, h):
        return self.norm(h).mean(1)


def left_between(act, *places, taps):
    net = Between(act, *places).double().eval()
    return diagnose(net, reference.batches(net.x, 1), taps=taps).partial_stream


@pytest.mark.parametrize(
    "act",
    [
        lambda h: h * torch.arange(6).lt(4).to(h)[:, None],
        lambda h: functional.pad(h, (0, 0, 0, -1)),
        torch.relu,
        lambda h: h.clamp(-0.1, 0.1),
        lambda h: 0.1 * h,
        lambda h: h.cumsum(1),
    ],
    ids=["mask", "crop", "activation", "clamp", "factor", "sum"],
)
def test_what_acts_between_two_blocks_makes_two_states_of_one(act):
    gives, reads = "embed, blocks.*", "blocks.*:in, norm:in"
    assert left_between(act, 1, taps=gives) == "blocks.1:in"
    assert left_between(act, 1, taps=reads) == "blocks.0"
    assert left_between(act, 1, taps=f"{gives}, blocks.1:in") == ""
    # behind every block it is a part of all
    assert [left_between(act, 1, 2, 3, taps=taps) for taps in (gives, reads)] == ["", ""]
    assert left_between(act, 0, taps=gives) == "blocks.0:in"


@pytest.mark.parametrize(
    "act",
    [
        lambda h: h.roll(1, 1),
        lambda h: h.flip(1),
        torch.clone,
        lambda h: functional.dropout(h, 0.5, False),
    ],
    ids=["shift", "turn", "copy", "dropout"],
)
@pytest.mark.parametrize("taps", ["embed, blocks.*", "blocks.*:in, norm:in", None])
def test_what_moves_a_state_as_it_is_leaves_none_out(act, taps):
    for place in (0, 1, 3):
        assert left_between(act, place, taps=taps) == ""


def test_states_in_one_tensor_are_refused_with_what_to_do():
    class Stacks(CopiesFirst):
        def states(self, x):
            hidden = self.stream(x)
            return self.head(torch.stack(hidden)[-1]), hidden

    net = Stacks().double()
    with pytest.raises(TapError, match=r"of states in one tensor \(stack\), a part counts as all"):
        diagnose(net, reference.batches(net.x, 1), taps="start, blocks.*")


def test_a_view_of_a_state_that_is_read_in_another_form_is_refused():
    class Reshaped(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Linear(8, D), nn.Linear(D, CLASSES)
            self.blocks = nn.ModuleList(nn.Conv1d(3, 3, 1) for _ in range(2))

        def forward(self, x):
            h = self.embed(x)
            for block in self.blocks:
                h = h + block(h.view(len(h), 3, 4)).flatten(1)
            return self.head(h)

    data = [(torch.randn(16, 8), torch.randint(CLASSES, (16,)))]
    # the guess does without such a view or is not made
    for taps in ("blocks.*:in, head:in", None):
        with pytest.raises(TapError, match="is a view, and the network also reads"):
            diagnose(Reshaped(), data, taps=taps)


def test_the_recorder_follows_writes_and_views():
    x = torch.randn(4, 6)
    with Flow(nn.Identity(), x) as flow:
        rows = torch.zeros(2, 4, 6)
        rows[0] = x.exp()
        first = rows[0].sin()
        rows[1] = x.cos()
        both = rows.sum()
        unread = torch.ones(3) + 1
    operations = {one.name: one for one in flow.operations}
    writes = [node for node, one in enumerate(flow.operations) if one.name == "copy_"]
    assert operations["sin"].reads == (writes[0],) and operations["sum"].reads == (writes[1],)
    assert flow.made(first) != ROOT and flow.made(both) == len(flow.operations) - 1
    assert flow.made(unread) == ROOT
