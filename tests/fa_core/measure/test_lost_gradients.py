"""Forward passes whose derivative autograd does not give: the gradient is the true one, or not judged."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fa_core import diagnose
from tests.fa_core.measure.nets import Streaming

WIDTH, TAPS = 4, ["embed", "blocks.*"]


class Block(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.branch = branch

    def forward(self, h):
        return 0.5 * h + self.branch(self, h)


def net_of(branch, depth=2):
    torch.manual_seed(0)
    blocks = [Block(branch) for _ in range(depth)]
    return Streaming(nn.Linear(3, WIDTH), blocks, nn.Linear(WIDTH, 3)).double()


def finite_differences(net, x, y):
    """The median of ‖∂CE/∂h_l‖ over samples, one entry of h_l moved at a time."""
    net = copy.deepcopy(net)

    @torch.no_grad()
    def losses(layer, step):
        h = net.embed(x) + (step if layer == 0 else 0)
        for l, block in enumerate(net.blocks, start=1):
            h = block(h) + (step if layer == l else 0)
        return F.cross_entropy(net.head(h), y, reduction="none") / len(y)

    norms = []
    for layer in range(3):
        steps = 1e-6 * torch.eye(WIDTH, dtype=torch.float64)
        columns = [losses(layer, step) - losses(layer, -step) for step in steps]
        rows = torch.stack(columns, dim=1) / 2e-6
        norms.append(sorted(row.norm().item() for row in rows)[(len(y) - 1) // 2])
    return norms


def data(size=9):
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(size) % 3
    return [(torch.randn(size, 3, generator=generator, dtype=torch.float64), y) for _ in range(8)]


def measured(branch, taps=TAPS):
    net, batches = net_of(branch), data()
    return diagnose(net, batches, taps=taps), finite_differences(net, *batches[0])


def without_gradients(block, h):
    with torch.no_grad():
        return block.f(h)


def in_inference_mode(block, h):
    with torch.inference_mode():
        return block.f(h)


def scaled_in_place(block, h):
    u = block.f(h)
    with torch.no_grad():
        u.mul_(h.abs())
    return u


def written_through_data(block, h):
    u = block.f(h)
    u.data.mul_(h.data.abs())
    return u


def on_a_branch(block, h):
    if bool((h.detach() > 1e9).any()):
        return h
    return block.f(h).detach()


def overwritten(block, h):
    u = block.f(h)
    u.data.mul_(2 if float(h.detach().max()) > -1e9 else 1)
    return u


def node_hook(block, h):
    u = block.f(h)
    if u.grad_fn is not None:
        u.grad_fn.register_prehook(lambda g: (-g[0],))
    return u


def normed(block, h):
    with torch.no_grad():
        scale = h.square().mean(1, keepdim=True).rsqrt()
    return block.f(h * scale)


def unpacked_otherwise(block, h):
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: -kept):
        return block.f(h)


def masked(block, h):
    """A mask is no step."""
    u = block.f(h)
    return u * (u > 0).to(u) + (u - u.detach())


TRACED = {
    "torch.no_grad()": [
        without_gradients,
        in_inference_mode,
        scaled_in_place,
        normed,
    ],
    ".detach()": [
        lambda block, h: torch.detach(block.f(h)),
        lambda block, h: block.f(h).detach_(),
        lambda block, h: torch.where(h > 0, block.f(h), block.f(h).detach()),
        written_through_data,
        overwritten,
        on_a_branch,
        lambda block, h: h.new_tensor(block.f(h)),
        masked,
    ],
    "node hook": [node_hook],
    "saved tensors hook": [unpacked_otherwise],
}
CASES = [(name, branch) for name, branches in TRACED.items() for branch in branches]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(("name", "branch"), CASES)
def test_the_gradient_is_the_derivative_of_the_forward(name, branch):
    report, expected = measured(branch)
    assert report.bp_grad_norms == pytest.approx(expected, rel=1e-6)
    assert name in report.provenance["custom_backward"]
    assert report.provenance["gradient_by"] == "trace of the forward"


def test_many_in_place_blocks_have_the_gradient_of_plain_ones():
    """A tensor saved for the backward pass may get the address of a freed one."""
    for depth in (5, 20):
        taken, plain = (
            diagnose(net_of(branch, depth), data(33), taps=TAPS)
            for branch in (scaled_in_place, lambda block, h: block.f(h) * h.abs())
        )
        assert taken.bp_grad_norms == pytest.approx(plain.bp_grad_norms, rel=1e-9)


def test_weights_written_through_data_and_put_back_have_the_gradient_of_the_forward():
    def quantised(block, h):
        weight, full = block.f[0].weight, block.f[0].weight.data.clone()
        weight.data.copy_(full.sign())
        u = block.f(h)
        weight.data.copy_(full)
        return u

    report, expected = measured(quantised)
    assert report.bp_grad_norms == pytest.approx(expected, rel=1e-6)
    assert "through .data" in report.unmeasured["gamma"]


def logged(block, h):
    """Statistics that reach nothing, and a branch that depends on a batch."""
    with torch.no_grad():
        block.last = (h.norm(dim=1), h.norm().item())
    if bool((h.detach() > 1e9).any()):
        return 2 * block.f(h)
    return block.f(h)


def table(block, h):
    with torch.no_grad():
        positions = torch.arange(WIDTH).to(h).sin().expand_as(torch.zeros_like(h))
    return block.f(h + positions)


@pytest.mark.parametrize("branch", [logged, table])
def test_what_reaches_no_logit_is_not_spoken_of(branch):
    report, expected = measured(branch)
    assert report.bp_grad_norms == pytest.approx(expected, rel=1e-6)
    assert "custom_backward" not in report.provenance and report.coverage == "abc"


def through_numpy(block, h):
    return torch.from_numpy(block.f(h).detach().numpy())


def through_a_number(block, h):
    return block.f(h) * h.new_tensor([row.norm().item() for row in h])[:, None]


def rounded(block, h):
    return block.f(h + ((8 * h).round() / 8 - h).detach())


def quantised(block, h):
    return block.f(torch.fake_quantize_per_tensor_affine(h, 0.1, 0, -128, 127))


def cast(block, h):
    return block.f(h + ((8 * h).int().to(h) / 8 - h).detach())


def compared(block, h):
    return block.f(h + (2 * (h > 0).to(h) - 1 - h).detach())


def nearest_code(block, h):
    codes = torch.eye(WIDTH).to(h)
    return block.f(h + (codes[torch.cdist(h, codes).argmin(dim=1)] - h).detach())


NOT_JUDGED = [
    (through_numpy, "does not stay in torch"),
    (through_a_number, "does not stay in torch"),
    (rounded, "0 almost everywhere (round)"),
    (cast, "0 almost everywhere (integer cast)"),
    (compared, "0 almost everywhere (gt)"),
    (nearest_code, "0 almost everywhere (argmin)"),
    (quantised, "0 almost everywhere (fake_quantize"),
]


@pytest.mark.parametrize(("branch", "why"), NOT_JUDGED)
def test_where_the_gradient_is_not_known_nothing_is_judged_by_it(branch, why):
    report = diagnose(net_of(branch), data(), taps=TAPS)
    assert report.coverage == "a"
    assert report.bp_grad_norms == [] and report.cross_batch_stability is None
    assert "gamma" not in report.credit
    assert why in report.unmeasured["b"] and why in report.unmeasured["c"]


def test_quantised_weights_leave_the_gradient_as_it_is():
    def branch(block, h):
        weight = torch.fake_quantize_per_tensor_affine(block.f[0].weight, 0.1, 0, -128, 127)
        return torch.tanh(F.linear(h, weight))

    for taps in (TAPS, None):
        report, expected = measured(branch, taps)
        assert report.bp_grad_norms == pytest.approx(expected, rel=1e-6)
        assert "custom_backward" not in report.provenance
