import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from fa_core import diagnose
from fa_core.errors import TapError
from tests.fa_core.measure.nets import Hookable, Residual, batches, encoder

NUMBERS = ("residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc")


def same_numbers(one, other):
    return all(
        getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6) for name in NUMBERS
    )


def test_a_callable_gives_the_stream():
    net = Residual()
    report = diagnose(Hookable(net), batches(8), taps=lambda model, x: net(x, return_hidden=True))
    assert same_numbers(report, diagnose(net, batches(8)))
    assert report.tap_names == ["h_0", "h_1", "h_2", "h_3"]


def test_other_logits_of_a_function_are_said():
    net = Residual()

    def scaled(by, plus=0.0):
        def taps(model, x):
            logits, hidden = net(x, return_hidden=True)
            return by * logits + plus, hidden

        return taps

    said = "logits of the function differ from model(x)'s by {} of the largest"
    assert said.format(0.33) in diagnose(net, batches(1), taps=scaled(1.5)).notes
    assert "logits of" not in diagnose(net, batches(1), taps=scaled(1)).notes
    net.head.weight.data.zero_()
    assert said.format(1) in diagnose(net, batches(1), taps=scaled(1, plus=2.0)).notes
    # its own forward takes more than x
    assert "logits of" not in diagnose(nn.Bilinear(2, 2, 2), batches(1), taps=scaled(2)).notes


@pytest.mark.parametrize(
    "show",
    [
        Tensor.clone,
        lambda h: h.view(len(h), 2, 3),
        lambda h: h.reshape(len(h), -1).clone().float(),
        lambda h: h.unsqueeze(1).squeeze(1),
        lambda h: h.t().t(),
    ],
    ids=["clone", "view", "reshape-clone", "squeeze", "transpose"],
)
def test_a_returned_copy_of_a_state_is_measured_at_the_state(show):
    net = Residual(kind="gelu", out_ln=True)
    expected = diagnose(net, batches(8))
    net.show = show
    assert same_numbers(diagnose(net, batches(8)), expected)


def test_returned_cls_tokens_agree_with_the_whole_stream():
    net = encoder(nn.Linear(8, 4))
    data = [(torch.randint(11, (8, 3)), torch.randint(4, (8,)))]
    whole = diagnose(net, data)

    def cls_only(model, x):
        logits, hidden = model(x, return_hidden=True)
        return logits, [h[:, 0] for h in hidden]

    report = diagnose(net, data, taps=cls_only)
    assert same_numbers(report, whole)
    assert (report.flatten, whole.flatten) == ("as is", "cls token")


@pytest.mark.parametrize("show", [lambda h: h, lambda h: h[:, :3], Tensor.detach])
def test_an_in_place_residual_that_overwrites_its_own_states_is_refused(show):
    net = Residual(inplace=True)
    net.show = show
    with pytest.raises(TapError):
        diagnose(net, batches(1))


def test_a_frozen_feature_extractor_under_no_grad_can_be_tapped():
    inner = Residual()
    net = Hookable(inner)
    net.embed.forward = torch.no_grad()(net.embed.forward)
    found = diagnose(net, batches(8), taps="embed, blocks.*")
    del net.embed.forward
    assert same_numbers(found, diagnose(inner, batches(8)))


NAMES_NOTHING = r"is named .*its modules: .*'blocks\.\*'"


@pytest.mark.parametrize(
    ("taps", "said"),
    [
        ("layers.*", NAMES_NOTHING),
        (["embed", "block"], NAMES_NOTHING),
        ("blocks.*.*.*.*", NAMES_NOTHING),
        ("", "no taps given"),
        ([], "no taps given"),
        ("spare", r"does not call: spare; .*block\.forward\(h\) runs no hooks, or give"),
    ],
)
def test_taps_that_give_nothing_are_refused(taps, said):
    net = Hookable(Residual())
    net.spare = nn.Linear(2, 2)
    with pytest.raises(TapError, match=said):
        diagnose(net, batches(1), taps=taps)


@pytest.mark.parametrize(
    ("show", "said"),
    [
        (Tensor.detach, r"h_0 .*carries no gradient"),
        (lambda h: h * 2, r"do not depend on tap 0 \(h_0\)"),
        (lambda h: h.t(), r"tap h_0 has shape \(6, 16\) for a batch of 16"),
    ],
)
def test_what_is_no_state_of_the_stream_is_refused_with_the_reason(show, said):
    net = Residual()
    net.show = show
    with pytest.raises(TapError, match=said):
        diagnose(net, batches(1))


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda logits, h: logits, r"a float32 tensor of shape \(16, 4\); it must return"),
        (lambda logits, h: (logits, []), "a list of 0"),
        (lambda logits, h: (logits, h, 3), "a tuple of 3"),
        (lambda logits, h: (logits, ["h"]), "is a str; return float tensors"),
        (lambda logits, h: (logits, torch.stack(h)), r"a float32 tensor of shape \(4, 16, 6\)"),
    ],
)
def test_a_callable_of_another_form_is_refused(returned, said):
    def taps(model, x):
        return returned(*model(x, return_hidden=True))

    with pytest.raises(TapError, match=said):
        diagnose(Residual(), batches(1), taps=taps)


@pytest.mark.parametrize("norm_batches", [1, 2])
@pytest.mark.parametrize(
    "counts, said",
    [((3, 4), "4 states, 3 in the first batch"), ((4, 1), "1 states, h_. in the first batch")],
)
def test_a_number_of_states_that_changes_between_batches_is_refused(counts, said, norm_batches):
    data = batches(2)

    def changing(model, x):
        logits, hidden = model(x, return_hidden=True)
        later = torch.equal(x.detach(), data[1][0])
        return logits, hidden[: counts[later]]

    with pytest.raises(TapError, match=f"eval batch 1: {said}"):
        diagnose(Residual(), data, taps=changing, norm_batches=norm_batches)
