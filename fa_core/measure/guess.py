"""The stream of a network that names none: found on its data flow, and written as taps.

h_0..h_L are the activations at which paths fork that are summed again, and the last sum. Without
sums, they are what each layer by weights reads. See `fa_core.measure.stream` for the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, pairwise

from torch import nn

from fa_core.errors import TapError
from fa_core.measure.blocks import blocks_on, depth, elements_around, states_around
from fa_core.measure.flow import ROOT, Call, Flow, behind, path_to
from fa_core.measure.hooks import READS, match_modules, pattern_of, plain_logits
from fa_core.measure.isolate import Inputs
from fa_core.measure.stream import Merges

_DEEP = 3
"""Layers one after the other that make a branch a trunk of its own."""


def possible_taps(model: nn.Module, x: Inputs) -> list[list[str]]:
    """Ways to tap the stream of a network that does not return it: outputs, inputs, both; [] for
    one that has no names.

    Args:
        model: the network in eval mode.
        x: inputs.

    Raises:
        TapError: no such stream.

    >>> import torch
    >>> blocks = (nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3))
    >>> net = nn.Sequential(nn.Linear(2, 2), *blocks, nn.Linear(2, 2))
    >>> possible_taps(net, torch.ones(1, 2))[0]
    ['0', '1', '2', '3']
    """
    with Flow(model, x) as flow:
        logits = flow.made(plain_logits(model, x))
    states = _states(flow, logits)
    if len(states) < 2:
        raise no_guess(model, "no single stream is recognised in its sums and layers")
    used = behind(flow, [logits])
    # rather than heads beside the logits, whose inputs may have hooks of their own
    of_logits = [call for call in flow.calls if call.gave in used]
    # rather than modules that hand a state on to one branch alone
    makes = [call for call in flow.calls if call.begin <= call.gave]
    return [
        _written(model, flow, calls, states, endings)
        for calls in (of_logits, makes)
        for endings in (("",), (READS,), ("", READS))
    ]


def no_guess(model: nn.Module, why: str, taps: Sequence[str] = ()) -> TapError:
    """The error for a network whose stream is not found, but for a part of it."""
    part = f"to measure that part alone: --taps '{','.join(taps)}'; else " if taps else ""
    return TapError(
        f"{type(model).__name__} offers no model(x, return_hidden=True), and {why}",
        hint=f"{part}name the modules that give or read h_0..h_L with taps, or give a function "
        "(model, x) -> (logits, [h_0..h_L])",
    )


def _states(flow: Flow, logits: int) -> list[int]:
    """The operations that give h_0..h_L; [] if there is no single trunk.

    An encoder's source and a decoder's both lead to the logits. The stream is that of the source
    from which the fewest sums lie beside the trunk.
    """
    sources = flow.sources
    found: list[tuple[int, list[int]]] = []
    used = behind(flow, [logits])
    for chosen in (sources, *([source] for source in reversed(sources))):
        merges = Merges(flow, chosen)
        if logits not in merges.above:
            continue
        path = path_to(merges.above, logits)
        beside = sum(node in merges for node in used - set(path))
        blocks = [] if _has_trunks(flow, merges, path) else blocks_on(flow, merges, path)
        found.append((beside, [*states_around(flow, blocks)]))
    # the other sources are side inputs of the longest stream
    return min(found, key=lambda one: (one[0], -len(one[1])))[1] if found else []


def _has_trunks(flow: Flow, merges: Merges, path: Sequence[int]) -> bool:
    """Whether two branches of a path are trunks, or one skips blocks or is concatenated."""
    is_alone = len(merges.on(path)) < 2
    for fork, join in pairwise(path):
        reads = [read for read in flow.operations[join].reads if read in merges.above]
        if len(reads) < 2 or not flow.is_activation(fork):
            continue
        depths = sorted(depth(flow, fork, read) for read in reads)
        # not the terms of h + a(h) + b(h), nor of a norm of h
        sums = [
            {
                node
                for node in behind(flow, [read], {fork})
                if node in merges and merges.before_norm(merges.above[node]) > fork
            }
            for read in reads
        ]
        inner = set().union(*sums)
        if depths[-2] >= _DEEP or sum(map(bool, sums)) > 1 or (inner and is_alone):
            return True
        # layers behind a sum read its fork again
        used = behind(flow, reads, {fork})
        inner |= {
            n for n in used if n in merges and merges.above[n] == fork and depth(flow, n, join)
        }
        skips = depths[0] == 0 < depths[-1] or depths[-1] - depths[0] >= _DEEP
        is_beside = skips and flow.operations[join].name in ("cat", "stack")
        if is_beside or (inner and not _is_block(flow, fork, join, inner)):
            return True
    return False


def _is_block(flow: Flow, fork: int, join: int, inner: Iterable[int]) -> bool:
    """Whether a sum around inner ones is one block: a call of a member of a list runs it, or all
    the inner ones.

    Else it may be a U-Net's, whose layers are attributes of the network itself.
    """
    around = elements_around(flow, [join, *inner])
    calls = {*around[0], *set.intersection(*map(set, around[1:]))}
    return any(fork < call.begin <= min(inner) for call in calls)


def _written(
    model: nn.Module,
    flow: Flow,
    calls: Sequence[Call],
    states: Sequence[int],
    endings: Sequence[str],
) -> list[str]:
    """Taps for states as outputs, inputs or both of modules; [] if a state has none."""
    tables = [_names(flow, calls, states, ending) for ending in endings]
    named = [[[n for n in table if l in table[n]] for table in tables] for l in range(len(states))]
    candidates = [next(filter(None, ways), []) for ways in named]
    lists = {name: pattern_of(model, name) for names in candidates for name in names}
    shared = Counter(chain(*({*map(lists.__getitem__, names)} for names in candidates)))
    if not all(candidates):
        return []
    best = partial(max, key=lambda name: (shared[lists[name]], -name.count(".")))
    return in_lists(model, (best(reversed(names)) for names in candidates))


def in_lists(model: nn.Module, names: Iterable[str]) -> list[str]:
    """Names of modules, as one pattern where they are all of a list."""
    lists = {name: pattern_of(model, name) for name in names}
    taps = []
    for name, pattern in lists.items():
        alike = {other for other in lists if lists[other] == pattern}
        taps.append(pattern if alike == {*match_modules(model, pattern)} else name)
    return list(dict.fromkeys(taps))


def _names(
    flow: Flow, calls: Sequence[Call], states: Sequence[int], ending: str
) -> dict[str, set[int]]:
    """The modules whose every call gives, or with ``:in`` reads, a state, and of which l."""
    wanted = {flow.origin(node): place for place, node in enumerate(states)}
    found: dict[str, set[int]] = {}
    for call in calls:
        node = call.read if ending else call.gave
        inside = sum(call.begin <= state < call.end for state in states)
        place = wanted.get(flow.origin(node), ROOT) if inside < 2 and call.name else ROOT
        found.setdefault(f"{call.name}{ending}", set()).add(place)
    return {name: places for name, places in found.items() if ROOT not in places}
