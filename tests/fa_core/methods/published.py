"""Weight updates of rules on a `resmlp` from formulas of their own: as this protocol has them, and as first published.

No credit and no loss of `fa_core.methods` is used; what is taken from a rule are the matrices that it drew.
A *layer*, as published, is a linear map with its nonlinearity. A block has two: w1 with a GELU, and w2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods import Method
from fa_core.models import StreamNet

Updates = dict[str, Tensor]
"""Name of a weight → the gradient that the published rule descends, summed over the batch."""


@dataclass
class Pass:
    """What a pass of the network leaves behind; lists by block."""

    x: Tensor
    h: list[Tensor]
    normed: list[Tensor]
    inner: list[Tensor]
    activated: list[Tensor]
    read: Tensor
    error: Tensor


def weights_of(net: StreamNet) -> dict[str, Tensor]:
    return {name: tensor.detach().double() for name, tensor in net.named_parameters()}


def run(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Pass:
    """The forward pass, and e = softmax(logits) − onehot(y)."""
    stream = [x @ w["embed.weight"].T + w["embed.bias"]]
    normed, inner, activated = [], [], []
    for l in range(depth(w)):
        normed.append(layer_norm(stream[-1], w, f"blocks.{l}.ln"))
        inner.append(normed[-1] @ w[f"blocks.{l}.w1.weight"].T + w[f"blocks.{l}.w1.bias"])
        activated.append(inner[-1] * normal_cdf(inner[-1]))
        added = activated[-1] @ w[f"blocks.{l}.w2.weight"].T + w[f"blocks.{l}.w2.bias"]
        stream.append(stream[-1] + added)
    read = layer_norm(stream[-1], w, "out_ln")
    logits = read @ w["out_head.weight"].T + w["out_head.bias"]
    error = logits.softmax(1) - F.one_hot(y, logits.shape[1])
    return Pass(x, stream, normed, inner, activated, read, error)


def depth(w: dict[str, Tensor]) -> int:
    return sum(name.endswith("w1.weight") for name in w)


def layer_norm(h: Tensor, w: dict[str, Tensor], name: str) -> Tensor:
    centred = h - h.mean(1, keepdim=True)
    unit = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    return unit * w[f"{name}.weight"] + w[f"{name}.bias"]


def normal_cdf(z: Tensor) -> Tensor:
    return (1 + torch.erf(z / math.sqrt(2))) / 2


def gelu_slope(z: Tensor) -> Tensor:
    return normal_cdf(z) + z * torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)


def pepita(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """Every layer: (its output − its output in the second pass)ᵀ · its input in the second pass."""
    first = run(w, x, y)
    second = run(w, x + first.error @ rule.state_dict()["F"].double(), y)
    found = {"embed": (first.h[0] - second.h[0]).T @ second.x, "head": first.error.T @ second.read}
    for l in range(depth(w)):
        found[f"w1.{l}"] = (first.activated[l] - second.activated[l]).T @ second.normed[l]
        found[f"w2.{l}"] = (first.h[l + 1] - second.h[l + 1]).T @ second.activated[l]
    return found


def forward_forward(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """Every layer raises its own goodness, the mean square of its output, for the right label."""
    C = len(w["out_head.bias"])
    wrong = (y + torch.randint(1, C, y.shape)) % C
    found: Updates = {"head": run(w, x, y).error.T @ run(w, x, y).read}
    for sign, labels in ((1, y), (-1, wrong)):
        labelled = x + F.one_hot(labels, C).double() @ rule.state_dict()["F"].double()
        seen = run(w, labelled, y)
        layers = {"embed": (seen.h[0], seen.x, None)}
        for l in range(depth(w)):
            layers[f"w1.{l}"] = (seen.activated[l], seen.normed[l], seen.inner[l])
            layers[f"w2.{l}"] = (seen.h[l + 1] - seen.h[l], seen.activated[l], None)
        for name, (output, given, inner) in layers.items():
            goodness = output.square().mean(1, keepdim=True)
            push = -sign * torch.sigmoid(sign * (1.0 - goodness)) * 2 * output / output.shape[1]
            push = push if inner is None else push * gelu_slope(inner)
            found[name] = found.get(name, 0) + push.T @ given
    return found


PUBLISHED: dict[str, Callable[[Method, dict[str, Tensor], Tensor, Tensor], Updates]] = {
    "pepita": pepita,
    "ff": forward_forward,
}


def named(tensors: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    """Weights by kind and block."""
    found = []
    for name, tensor in tensors.items():
        parts = name.split(".")
        if name in ("embed.weight", "out_head.weight"):
            found.append((parts[0].removeprefix("out_"), tensor))
        elif name.endswith(("w1.weight", "w2.weight")):
            found.append((f"{parts[2]}.{parts[1]}", tensor))
    return found


def compared(
    name: str, net: StreamNet, rule: Method, x: Tensor, y: Tensor
) -> dict[str, tuple[float, float]]:
    """Kind of weight → cosine of this project's update with the published one, and their ratio in length."""
    net, rule, x = net.double(), rule.double(), x.double()
    torch.manual_seed(3)
    loss, _ = rule.loss(net, x, y)
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    ours = dict(named(dict(zip(dict(net.named_parameters()), slopes, strict=True))))
    torch.manual_seed(3)
    theirs = PUBLISHED[name](rule, weights_of(net), x, y)
    found = {}
    for kind in ("embed", "w1", "w2", "head"):
        keys = [key for key in theirs if key.partition(".")[0] == kind]
        a, b = (torch.cat([side[key].flatten() for key in keys]) for side in (ours, theirs))
        found[kind] = float(a @ b / (a.norm() * b.norm())), float(len(y) * a.norm() / b.norm())
    return found


def local_gradients(rule: Method, net: StreamNet, x: Tensor, y: Tensor, lam: float) -> Updates:
    """∂loss/∂parameter of FA, DFA and DRTP by this protocol: every block's own loss, with penalty λ."""
    w, size = weights_of(net), len(y)
    seen, B = run(w, x, y), [matrix.double() for matrix in rule.state_dict().values()]
    found: Updates = {}

    def layer(name: str, back: Tensor, given: Tensor) -> Tensor:
        found[f"{name}.weight"], found[f"{name}.bias"] = back.T @ given, back.sum(0)
        return back @ w[f"{name}.weight"]

    def norm(name: str, back: Tensor, output: Tensor) -> None:
        unit = (output - w[f"{name}.bias"]) / w[f"{name}.weight"]
        found[f"{name}.weight"], found[f"{name}.bias"] = (back * unit).sum(0), back.sum(0)

    if rule.name != "fa":
        signal = seen.error if rule.name == "dfa" else -F.one_hot(y, seen.error.shape[1]).double()
        credit = [signal @ matrix for matrix in B]
    else:
        credit = [seen.error @ w["out_head.weight"]]
        for matrix in reversed(B):
            credit.insert(0, credit[0] @ matrix)
    norm("out_ln", layer("out_head", seen.error / size, seen.read), seen.read)
    layer("embed", credit[0] / size, x)
    for l, a in enumerate(credit[1:]):
        branch = seen.h[l + 1] - seen.h[l]
        inner = layer(f"blocks.{l}.w2", (a + 2 * lam * branch) / size, seen.activated[l])
        normed = layer(f"blocks.{l}.w1", inner * gelu_slope(seen.inner[l]), seen.normed[l])
        norm(f"blocks.{l}.ln", normed, seen.normed[l])
    return found
