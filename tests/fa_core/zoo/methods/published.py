"""Weight updates of rules on a `resmlp` from formulas of their own: as this protocol has them, and as first published.

No credit and no loss of `fa_core.zoo.methods` is used; what is taken from a rule are the matrices that it drew.
A *layer*, as published, is a linear map with its nonlinearity. A block has two: w1 with a GELU, and w2.
"""

import math
from types import SimpleNamespace

import torch
from torch.nn import functional as F


def weights_of(net):
    return {name: tensor.detach().double() for name, tensor in net.named_parameters()}


def run(w, x, y):
    """What a forward pass leaves behind, lists by block; the error is softmax(logits) − onehot(y)."""
    h = [linear(x, w, "embed")]
    normed, inner, activated = [], [], []
    while f"blocks.{len(inner)}.ln.weight" in w:
        block = f"blocks.{len(inner)}"
        normed.append(layer_norm(h[-1], w, f"{block}.ln"))
        inner.append(linear(normed[-1], w, f"{block}.w1"))
        activated.append(inner[-1] * normal_cdf(inner[-1]))
        h.append(h[-1] + linear(activated[-1], w, f"{block}.w2"))
    read = layer_norm(h[-1], w, "out_ln")
    error = linear(read, w, "out_head").softmax(1) - F.one_hot(y, len(w["out_head.bias"]))
    return SimpleNamespace(
        x=x, h=h, normed=normed, inner=inner, activated=activated, read=read, error=error
    )


def linear(given, w, name):
    return given @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(h, w, name):
    centred = h - h.mean(1, keepdim=True)
    unit = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    return unit * w[f"{name}.weight"] + w[f"{name}.bias"]


def normal_cdf(z):
    return (1 + torch.erf(z / math.sqrt(2))) / 2


def gelu_slope(z):
    return normal_cdf(z) + z * torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)


def pepita(rule, w, x, y):
    """Every layer: (its output − its output in the second pass)ᵀ · its input in the second pass."""
    first = run(w, x, y)
    second = run(w, x + first.error @ rule.state_dict()["F"].double(), y)
    outputs = [(a - b).T for a, b in zip(first.h, second.h, strict=True)]
    found = {"embed": outputs[0] @ second.x, "out_head": first.error.T @ second.read}
    for l, (normed, activated) in enumerate(zip(second.normed, second.activated, strict=True)):
        found[f"blocks.{l}.w1"] = (first.activated[l] - activated).T @ normed
        found[f"blocks.{l}.w2"] = outputs[l + 1] @ activated
    return found


def forward_forward(rule, w, x, y):
    """Every layer raises its own goodness, the mean square of its output, for the right label."""
    C = len(w["out_head.bias"])
    wrong = (y + torch.randint(1, C, y.shape)) % C
    found = {"out_head": run(w, x, y).error.T @ run(w, x, y).read}
    for sign, labels in ((1, y), (-1, wrong)):
        seen = run(w, x + F.one_hot(labels, C).double() @ rule.state_dict()["F"].double(), y)
        layers = {"embed": (seen.h[0], seen.x, 1)}
        for l, inner in enumerate(seen.inner):
            layers[f"blocks.{l}.w1"] = (seen.activated[l], seen.normed[l], gelu_slope(inner))
            layers[f"blocks.{l}.w2"] = (seen.h[l + 1] - seen.h[l], seen.activated[l], 1)
        for name, (output, given, slope) in layers.items():
            goodness = output.square().mean(1, keepdim=True)
            push = -sign * torch.sigmoid(sign * (1.0 - goodness)) * 2 * output / output.shape[1]
            found[name] = found.get(name, 0) + (push * slope).T @ given
    return found


PUBLISHED = {"pepita": pepita, "ff": forward_forward}


def compared(net, rule, x, y):
    """Kind of weight → cosine of this project's update with the published one, and their ratio in length."""
    net, rule, x = net.double(), rule.double(), x.double()
    torch.manual_seed(3)
    loss, _ = rule.loss(net, x, y)
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    ours = dict(zip(weights_of(net), slopes, strict=True))
    torch.manual_seed(3)
    theirs = PUBLISHED[rule.name](rule, weights_of(net), x, y)
    found = {}
    for kind in ("embed", "w1", "w2", "out_head"):
        names = [name for name in theirs if name.endswith(kind)]
        a = torch.cat([ours[f"{name}.weight"].flatten() for name in names])
        b = torch.cat([theirs[name].flatten() for name in names])
        found[kind] = float(a @ b / (a.norm() * b.norm())), float(len(y) * a.norm() / b.norm())
    return found


def local_gradients(rule, net, x, y, lam):
    """∂loss/∂parameter of FA, DFA and DRTP by this protocol: every block's own loss, with penalty λ."""
    w, size = weights_of(net), len(y)
    seen, B = run(w, x, y), [matrix.double() for matrix in rule.state_dict().values()]
    found = {}

    def layer(name, back, given):
        found[f"{name}.weight"], found[f"{name}.bias"] = back.T @ given, back.sum(0)
        return back @ w[f"{name}.weight"]

    def norm(name, back, output):
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
