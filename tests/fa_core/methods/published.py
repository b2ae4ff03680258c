"""Weight updates of rules as first published, on a `resmlp`, from formulas of their own.

``python -m tests.fa_core.methods.published`` prints the cosines of the updates that this project makes
with these, per kind of weight: the table of docs/protocol.md §5. No credit and no loss of
`fa_core.methods` is used; what is taken from a rule are the matrices that it drew.

A *layer*, as published, is a linear map with its nonlinearity. A block has two: w1 with a GELU, and w2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.data import DataSet, load_data
from fa_core.methods import Method, make_method
from fa_core.models import StreamNet, build

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


def direct(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """DFA and DRTP: every layer has a fixed random projection of the error, or of the label, of its own."""
    seen = run(w, x, y)
    signal = seen.error
    if rule.name == "drtp":
        signal = -F.one_hot(y, signal.shape[1]).double()
    B = [matrix.double() for matrix in rule.state_dict().values()]
    own = torch.Generator().manual_seed(1)
    found = {"embed": (signal @ B[0]).T @ x, "head": seen.error.T @ seen.read}
    for l in range(depth(w)):
        inside = torch.randn(B[0].shape, generator=own, dtype=torch.float64) / math.sqrt(len(B[0]))
        found[f"w1.{l}"] = (signal @ inside * gelu_slope(seen.inner[l])).T @ seen.normed[l]
        found[f"w2.{l}"] = (signal @ B[l + 1]).T @ seen.activated[l]
    return found


def direct_at_every_layer(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """DFA of the inner layers, by the projections that the rule drew for what w2 is given."""
    seen = run(w, x, y)
    B = [matrix.double() for matrix in rule.state_dict().values()]
    found = {}
    for l in range(depth(w)):
        credit = seen.error @ B[2 * l + 1]
        found[f"w1.{l}"] = (credit * gelu_slope(seen.inner[l])).T @ seen.normed[l]
    return found


def with_skip(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """FA through the network as it is: a_l = a_{l+1} + (a_{l+1}·B_l), the skip path beside the feedback."""
    seen = run(w, x, y)
    B = [matrix.double() for matrix in rule.state_dict().values()]
    own = torch.Generator().manual_seed(1)
    a = seen.error @ w["out_head.weight"]
    found = {"head": seen.error.T @ seen.read}
    for l in reversed(range(depth(w))):
        inside = torch.randn(B[l].shape, generator=own, dtype=torch.float64) / math.sqrt(len(B[l]))
        found[f"w1.{l}"] = (a @ inside * gelu_slope(seen.inner[l])).T @ seen.normed[l]
        found[f"w2.{l}"] = a.T @ seen.activated[l]
        a = a + a @ B[l]
    found["embed"] = a.T @ x
    return found


def predictive_coding(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """Every weight, the head's too, descends the energy where the states have settled."""
    return settled(w, x, y, 1.0, 5 * (depth(w) + 1))


def equilibrium(rule: Method, w: dict[str, Tensor], x: Tensor, y: Tensor) -> Updates:
    """Every weight descends the energy of the nudged phase, which is 0 in the free one."""
    return settled(w, x, y, 0.1, 5)


def settled(w: dict[str, Tensor], x: Tensor, y: Tensor, beta: float, steps: int) -> Updates:
    """Slopes of the energy after some descent steps of 0.1 on all states at once."""
    states = [h.requires_grad_() for h in run(w, x, y).h]
    for _ in range(steps):
        slopes = torch.autograd.grad(energy(w, states, x, y, beta), states)
        states = [
            (h - 0.1 * g).detach().requires_grad_() for h, g in zip(states, slopes, strict=True)
        ]
    learned = {name: tensor.clone().requires_grad_() for name, tensor in w.items()}
    slopes = torch.autograd.grad(energy(learned, states, x, y, beta), list(learned.values()))
    return dict(named({name: slope / beta for name, slope in zip(learned, slopes, strict=True)}))


def energy(w: dict[str, Tensor], states: list[Tensor], x: Tensor, y: Tensor, beta: float) -> Tensor:
    """½‖h_0 − embed(x)‖² + Σ_l ½‖h_{l+1} − h_l − f_l(h_l)‖² + β·CE, summed over the batch."""
    total = (states[0] - x @ w["embed.weight"].T - w["embed.bias"]).square().sum() / 2
    for l, (h, after) in enumerate(pairwise(states)):
        inner = (
            layer_norm(h, w, f"blocks.{l}.ln") @ w[f"blocks.{l}.w1.weight"].T
            + w[f"blocks.{l}.w1.bias"]
        )
        activated = inner * normal_cdf(inner)
        added = activated @ w[f"blocks.{l}.w2.weight"].T + w[f"blocks.{l}.w2.bias"]
        total = total + (after - h - added).square().sum() / 2
    logits = layer_norm(states[-1], w, "out_ln") @ w["out_head.weight"].T + w["out_head.bias"]
    return total + beta * F.cross_entropy(logits, y, reduction="sum")


PUBLISHED: dict[str, Callable[[Method, dict[str, Tensor], Tensor, Tensor], Updates]] = {
    "fa": with_skip,
    "dfa": direct,
    "drtp": direct,
    "dfa_layers": direct_at_every_layer,
    "pepita": pepita,
    "ff": forward_forward,
    "pc": predictive_coding,
    "ep": equilibrium,
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


def cosines(name: str, net: StreamNet, rule: Method, x: Tensor, y: Tensor) -> dict[str, float]:
    """Kind of weight → cosine of this project's update with the published one, over all blocks."""
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
        if not keys:
            continue
        a, b = (torch.cat([side[key].flatten() for key in keys]) for side in (ours, theirs))
        found[kind] = float(a @ b / (a.norm() * b.norm()))
    return found


def trained(
    name: str, data: DataSet, steps: int, seed: int, *, as_published: bool = False
) -> tuple[StreamNet, Method]:
    """A ResMLP after some steps by the rule: AdamW at 3e-3, 64 samples.

    With `as_published` the weights take the published update; biases and norms keep the rule's.
    """
    torch.manual_seed(seed)
    net = build("resmlp", input_dim=16, d=32, L=3, seed=seed)
    rule = make_method(name, net, seed)
    optimizer = torch.optim.AdamW(rule.trained_parameters(net), lr=3e-3)
    weights = dict(named(dict(net.named_parameters())))
    for step in range(steps):
        rows = torch.arange(64) + 64 * (step % 50)
        x, y = data.train_x[rows], data.train_y[rows]
        loss, info = rule.loss(net, x, y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if as_published:
            for key, update in PUBLISHED[name](rule, weights_of(net), x.double(), y).items():
                weights[key].grad = (update / len(y)).float()
        optimizer.step()
        rule.extra_step(net, info)
    return net, rule


def reached(net: StreamNet, data: DataSet) -> str:
    """Accuracy, and the median length of h_L."""
    with torch.no_grad():
        logits, stream = net.eval()(data.test_x, return_hidden=True)
    accuracy = float((logits.argmax(1) == data.test_y).float().mean())
    return f"accuracy {accuracy:.3f}, |h_L| {float(stream[-1].norm(dim=1).median()):.3g}"


def read_token_alone(seed: int, only: bool, steps: int = 500) -> str:
    """DFA on a small ViT, its credit at every token or at the one that the head reads."""
    data = load_data("synthetic:input=16,ambient=64,channels=1,train=6400,test=2000")
    torch.manual_seed(seed)
    net = build("vit_mini", image=8, channels=1, patch=2, d=32, L=3, seed=seed)
    rule = make_method("dfa", net, seed)
    everywhere = net.place

    def at_the_first(l: int, vector: Tensor) -> Tensor:
        placed = torch.zeros_like(everywhere(l, vector))
        placed[:, 0] = vector
        return placed

    if only:
        net.place = at_the_first  # type: ignore[method-assign]
    optimizer = torch.optim.AdamW(rule.trained_parameters(net), lr=3e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1.5e-3 * (1 + math.cos(math.pi * step / steps))
        rows = torch.randint(0, 6400, (128,), generator=generator)
        loss, _ = rule.loss(net, data.train_x[rows], data.train_y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        logits, stream = net.eval()(data.test_x, return_hidden=True)
    norms = [float(h[:, 0].norm(dim=1).median()) for h in stream]
    growth = max(after / before for before, after in pairwise(norms))
    accuracy = float((logits.argmax(1) == data.test_y).float().mean())
    return f"accuracy {accuracy:.3f}, growth {growth:.3g}"


def main() -> None:
    torch.set_num_threads(1)
    data = load_data("synthetic:input=16,train=3200,test=1000")
    x, y = data.test_x[:256], data.test_y[:256]
    for name in (name for name in PUBLISHED if name != "dfa_layers"):
        for steps in (0, 300):
            runs = [cosines(name, *trained(name, data, steps, seed), x, y) for seed in (0, 1, 2)]
            for kind in runs[0]:
                values = sorted(each[kind] for each in runs)
                print(f"{name:7} {steps:4} steps {kind:6} {values[0]:+.3f} to {values[-1]:+.3f}")
        for seed in (0, 1, 2):
            both = (trained(name, data, 300, seed, as_published=way)[0] for way in (False, True))
            ours, theirs = (reached(net, data) for net in both)
            print(f"{name:7} seed {seed}: here {ours}; as published {theirs}", flush=True)
    for seed in (42, 123):
        every, alone = (read_token_alone(seed, only) for only in (False, True))
        print(f"dfa, vit_mini seed {seed}: every token {every}; the read one {alone}", flush=True)


if __name__ == "__main__":
    main()
