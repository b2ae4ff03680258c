"""Networks whose backward pass is their own: the gradient is the forward's derivative, Γ that of their own vector."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fa_core import diagnose
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.norms import gamma
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from tests.fa_core.measure.nets import Streaming, encoder

TAPS = ["embed", "blocks.*"]


class LinearGrad(torch.autograd.Function):
    """x·Wᵀ + b forward, the feedback matrix backward, as BioTorch writes it."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.save_for_backward(feedback, x)
        return x.mm(weight.t()) + bias.unsqueeze(0).expand(len(x), -1)

    @staticmethod
    def backward(ctx, g):
        feedback, x = ctx.saved_tensors
        return g.mm(feedback), g.t().mm(x), g.sum(0), None


class Feedback(nn.Module):
    """A linear layer, trained by a rule of its own."""

    def __init__(self, inputs, outputs, rule):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))
        self.register_buffer("feedback", torch.randn(outputs, inputs) / inputs**0.5)
        self.rule = rule

    def plain(self, x):
        return F.linear(x, self.weight, self.bias)

    def forward(self, x):
        if self.rule == "plain":
            return self.plain(x)
        if self.rule == "detach":
            other = F.linear(x, self.feedback)
            return self.plain(x.detach()) + other - other.detach()
        return LinearGrad.apply(x, self.weight, self.bias, self.feedback)


class Block(nn.Module):
    def __init__(self, width, rule):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner, self.drop = Feedback(width, width, rule), nn.Dropout(0.5)

    def forward(self, h):
        return h + self.drop(torch.tanh(self.inner(self.norm(h))))


class Net(Streaming):
    def __init__(self, rule):
        blocks = [Block(6, rule) for _ in range(3)]
        super().__init__(Feedback(3, 6, rule), blocks, nn.Linear(6, 4))


def plain(net):
    """The same network without a backward pass of its own."""
    twin = copy.deepcopy(net)
    for module in twin.modules():
        if isinstance(module, Feedback):
            module.rule = "plain"
    return twin


def batches(k=8, size=16):
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for _ in range(k)]


NAMED = {"fa": "LinearGrad", "detach": ".detach()"}


@pytest.mark.parametrize(("rule", "taps"), [*((rule, TAPS) for rule in NAMED), ("fa", None)])
def test_b_and_c_are_by_the_derivative_and_the_vector_gives_gamma(rule, taps):
    net, data = Net(rule), batches()
    report = diagnose(net, data, taps=taps, dtype="float64")
    expected = diagnose(plain(net), data, taps=taps, dtype="float64")
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-12)
    assert report.cross_batch_stability == pytest.approx(expected.cross_batch_stability, abs=1e-12)
    assert report.residual_norms == pytest.approx(expected.residual_norms, rel=1e-14)
    assert report.headline_acc == expected.headline_acc
    assert NAMED[rule] in report.provenance["custom_backward"][0]
    assert expected.credit is None and "custom_backward" not in expected.provenance

    vectors = []
    for each in (net.double().eval(), plain(net).double().eval()):
        logits, hidden = each(data[0][0].double().requires_grad_(), return_hidden=True)
        vectors.append(torch.autograd.grad(F.cross_entropy(logits, data[0][1]), hidden))
    gammas = [gamma(a, g) for a, g in zip(*vectors, strict=True)]
    assert report.credit["gamma"] == pytest.approx(gammas, abs=1e-12)
    # the head is plain: nothing of the rule's lies behind h_L
    assert 3 in report.credit["free_layers"]
    assert report.credit["gamma_L"] == pytest.approx(1, abs=1e-12)
    assert abs(report.credit["deep_gamma"]) < 0.99
    assert "Γ of the credit" in str(report)


class Squared(torch.autograd.Function):
    """Its backward is the derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def test_a_true_backward_and_a_watching_hook_make_an_ordinary_network():
    net = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 4))
    net[1].register_forward_hook(lambda module, args, output: Squared.apply(output))
    net[2].register_full_backward_hook(lambda module, given, got: None)
    report = diagnose(net, batches(), taps="0,1")
    assert report.credit is None and "custom_backward" not in report.provenance
    assert report.coverage == "abc"


def test_what_cannot_be_traced_leaves_b_and_c_unmeasured_and_says_why():
    class Odd(Net):
        def states(self, x):
            return super().states(x * x.new_tensor([float(row.norm()) for row in x])[:, None])

    net, data = Odd("fa"), batches()
    report = run_diagnosis(net, data, PassOptions(taps=TAPS)).report()
    assert report.coverage == "a" and report.verdict == "trustworthy"
    assert report.bp_grad_norms == [] and report.cross_batch_stability is None
    assert set(report.intervals) == {"acc"}
    reasons = [report.unmeasured["b"], report.unmeasured["c"], report.credit["missing"]["gamma"]]
    for reason in reasons:
        assert reason.startswith("its backward pass is its own (LinearGrad)")
        assert "does not stay in torch" in reason
    assert report.from_dict(report.to_dict()).to_dict() == report.to_dict()
    with pytest.raises(Exception, match="cannot be traced"):
        reference_precision(net, data[0], PassOptions(TAPS))


def test_parts_in_place_updates_checkpointing_and_compiled_parts_change_nothing():
    class Odd(Net):
        def states(self, x):
            h = self.embed(x)
            for block in self.blocks:
                h += torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
            return h, []

    net, data = Odd("fa"), batches()
    read = "blocks.*:in, head:in"
    expected = diagnose(plain(net), data, taps=read)
    for report in (diagnose(net, data, taps=read), diagnose(net, data, taps=read, largest_pass=5)):
        assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-5)
        assert "LinearGrad" in report.provenance["custom_backward"]
    net = Net("fa")
    expected = diagnose(plain(net), data, taps=TAPS)
    net.blocks[1].inner = torch.compile(net.blocks[1].inner, backend="eager")
    report = diagnose(net, data, taps=TAPS)
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-5)
    assert report.credit["gamma"][0] < 0.99


def test_a_network_that_draws_is_compared_with_itself_at_the_same_draw():
    class Noisy(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            return out + torch.randn_like(out) * out.detach()

    net = nn.Sequential(nn.Linear(3, 6), Noisy(6, 6), nn.Linear(6, 4))
    report = diagnose(net, batches(), taps="0,1")
    # autograd gives the gradient at h_1, but trains the noisy layer by another one
    assert report.credit["gamma"][1] is None and "h_1" in report.unmeasured["gamma"]
    assert -1 <= report.credit["gamma"][0] < 0.999


def test_token_ids_and_attention_are_traced_too():
    net = encoder(Feedback(8, 4, "fa"))
    data = [(torch.randint(11, (9, 5)), torch.randint(4, (9,))) for _ in range(8)]
    for taps in (TAPS, None):
        report, expected = diagnose(net, data, taps=taps), diagnose(plain(net), data, taps=taps)
        assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-5)
        assert report.flatten == expected.flatten == "cls token"
        assert report.credit["gamma_L"] < 0.99


class Baked(nn.Linear):
    """Feedback alignment that reads a number of the batch outside of torch."""

    def forward(self, h):
        scale = 1.0 if float(np.asarray(h.detach()[:, -1]).mean()) > 0 else -1.0
        own = LinearGrad.apply(h, self.weight, self.bias, -self.weight)
        return h + own * scale


def test_a_number_that_is_read_outside_of_torch_is_noticed_at_the_batch_where_it_differs():
    """Its sum is the same in any order, so that one batch alone does not show it."""
    data = []
    for index in range(8):
        x = torch.randn(16, 6).double()
        data.append((x.abs() if index < 3 else -x.abs(), torch.arange(16) % 4))
    net = nn.Sequential(nn.Identity(), Baked(6, 6), nn.Linear(6, 4)).double()
    report = diagnose(net, data, taps="0,1")
    assert report.cross_batch_stability is None
    assert "does not stay in torch" in report.unmeasured["c"]
    right = [net(x).argmax(1) == y for x, y in data]
    assert report.headline_acc == float(torch.cat(right).double().mean())


def test_an_operator_with_a_derivative_of_its_own_is_no_reference():
    @torch.library.custom_op("fa_tests::feedback", mutates_args=())
    def feedback(x: Tensor, weight: Tensor, back: Tensor) -> Tensor:
        return x @ weight.T

    def backward(ctx, g):
        x, _, back = ctx.saved_tensors
        return g @ back, g.T @ x, None

    feedback.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )

    class Layer(nn.Linear):
        def forward(self, x):
            return feedback(x, self.weight, torch.ones_like(self.weight))

    net = nn.Sequential(nn.Linear(6, 8), Layer(8, 8), nn.Linear(8, 4))
    data = [(torch.randn(16, 6), torch.arange(16) % 4) for _ in range(8)]
    report = diagnose(net, data, taps="0,1")
    assert report.coverage == "a"
    assert report.provenance["custom_backward"] == ["fa_tests_feedback_default"]
    assert "fa_tests::feedback may have a derivative of its own" in report.unmeasured["b"]
