"""What named taps leave out of the stream of a network."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, pairwise

from torch import Tensor

from fa_core.measure.flow import Call, Flow, behind, dominators, partly_read, path_to
from fa_core.measure.guess import (
    NO_CALL,
    UNNAMED,
    Block,
    blocks_on,
    elements_around,
    list_of,
    states_around,
)
from fa_core.measure.stream import Merges, Proof, acts, module_of, name_of


def left_out(flow: Flow, proof: Proof, hidden: Sequence[Tensor]) -> dict[str, str]:
    """The blocks and states of the stream that the taps leave out; {} for all of it.

    Args:
        flow: the pass.
        proof: of its taps.
        hidden: h_0..h_L.

    Returns:
        What is said of each, and the module that gives or reads it; "" for none.
    """
    taps = list(map(flow.origin, proof.states))
    merges, whole = Merges(flow, taps[:1]), Merges(flow, flow.sources)
    path = path_to(merges.above, proof.logits)
    tapped = _tapped(flow, taps)
    blocks = blocks_on(flow, merges, path, tapped)
    before, last, _ = proof.outer
    sums = [node for node in sorted(before) if node in whole]
    apart = [module_of(flow, node) for node in sums if flow.is_activation(whole.above[node])]
    apart += _apart(flow, proof, allows_stem=not sums)
    missing = [*_untapped(flow, taps, blocks)]
    missing += _plain(flow, merges, taps, blocks, tapped)
    beside = last.difference(path)
    missing += [node for node in sorted(beside) if node in merges and merges.skips(node)]
    final = {}
    if _ends_in_norm(merges if taps[1:] else whole, taps[1:] or taps, blocks):
        final = {"what the final norm reads": ""}
        read = {block.gave for block in blocks[-1:]}
        missing = [node for node in missing if node not in read]
    names = [*(name_of(flow, node) for node in missing), *apart]
    return said_of(names) | final | dict(_in_part(flow, proof, hidden))


def said_of(names: Iterable[str]) -> dict[str, str]:
    """What is said of states that are left out, and their modules, "" for a state of none."""
    return {name or UNNAMED: name for name in names}


def _in_part(flow: Flow, proof: Proof, hidden: Sequence[Tensor]) -> Iterable[tuple[str, str]]:
    """What is handed on in part between two states, beside what else changes there.

    The norms of such states do not compare. One token of several is measured of all states, or
    refused (see `pooled`).
    """
    partly = partly_read(flow, behind(flow, [proof.logits]))
    for l, (h, other) in enumerate(pairwise(hidden)):
        start, end = proof.states[l : l + 2]
        inside = behind(flow, [end], {start}) & partly
        alike = [node for node in inside if flow.operations[node].size == h.numel() > other.numel()]
        is_token = (h.dim(), other.dim()) == (3, 2)
        sizes = f"(h_{l} is {[*h.shape[1:]]}, h_{l + 1} {[*other.shape[1:]]})"
        if alike and not is_token and acts(flow, start, end):
            name = name_of(flow, max(alike))
            yield f"{name or UNNAMED} in part {sizes}", name
        path = path_to(dominators(flow, [start]), end) if h.numel() < other.numel() else ()
        if any(_repeats(flow, node) for node in path if node > start):
            yield f"what is repeated between two states {sizes}", ""


def _repeats(flow: Flow, node: int) -> bool:
    """Whether an operation gives entries of another one several times; zeros at edges are none."""
    one = flow.operations[node]
    is_passive = one.weighted or one.reads[1:] or "pad" in one.name
    return not is_passive and flow.operations[one.reads[0]].size < one.size


def _ends_in_norm(merges: Merges, taps: Sequence[int], blocks: Iterable[Block]) -> bool:
    """Whether a norm behind all blocks gives the last tap, but not all others of its kind."""
    *others, last = map(merges.norms, taps)
    alike = [len(other) for other in others if (other[-1] in merges) == (last[-1] in merges)]
    # what reads a norm's output in a row may be a pool's weights
    is_behind = all(last[0] in (one.read, max(one.gave, last[0])) for one in blocks)
    return is_behind and len(last) > min(alike, default=1)


def _plain(
    flow: Flow,
    merges: Merges,
    taps: Sequence[int],
    blocks: Iterable[Block],
    tapped: Iterable[Call],
) -> Iterable[int]:
    """What plain layers behind others of one step read, in no block and no list of steps."""
    known = [range(block.read + 1, block.gave + 1) for block in blocks]
    steps = [call for call in tapped if {*map(flow.origin, (call.read, call.gave))} <= {*taps}]
    alike = Counter(call.pattern for call in steps)
    known += [range(call.begin, call.end) for call in steps if alike[call.pattern] > 1]
    inside = set(path_to(merges.above, taps[-1])).difference(*known)
    return [node for node, step in _of_one_step(flow, merges, inside, taps) if step]


def _of_one_step(
    flow: Flow, merges: Merges, nodes: Iterable[int], taps: Sequence[int]
) -> Iterable[tuple[int, int]]:
    """What layers behind others of the same step between taps read, and the places of the steps."""
    place = partial(bisect_left, taps)
    for one, other in pairwise(flow.layers(nodes)):
        if place(one) == place(other):
            yield merges.before_norm(flow.origin(merges.above[other])), place(other)


def _apart(flow: Flow, proof: Proof, allows_stem: bool) -> Iterable[str]:
    """The modules outside of h_0..h_L, in part or whole, of lists that have layers inside.

    The first layer of all may be the stem, and the one that gives the logits the readout.
    """
    outer = set().union(*proof.outer)
    layers = flow.layers(behind(flow, [proof.logits]))
    lists = dict(zip(layers, elements_around(flow, layers), strict=True))
    inside = {_kind(call) for node in layers if node not in outer for call in lists[node]}
    size = flow.operations[proof.logits].size
    readout = [node for node in layers[-1:] if flow.operations[node].size == size]
    allowed = set(chain(*(lists[node] for node in layers[:allows_stem] + readout)))
    found = chain(*(lists[node] for node in layers if node in outer))
    return [call.name for call in found if _kind(call) in inside and call not in allowed]


def _kind(call: Call) -> tuple[str, str, bool]:
    """The list of a member: of modules, or of single layers."""
    return list_of(call), call.pattern, any(call.module.children())


def read_outside(flow: Flow, proof: Proof) -> list[str]:
    """What gives or reads what layers outside of h_0..h_L read, through which everything flows.

    The first, the stem, and the last, the readout, do not count.
    """
    whole, states = Merges(flow, flow.sources), proof.states
    rows = _of_one_step(flow, whole, path_to(whole.above, proof.logits), states)
    return [name_of(flow, node) for node, step in rows if step in (0, len(states))]


def _untapped(flow: Flow, taps: Sequence[int], blocks: Sequence[Block]) -> Iterable[int]:
    """The states around blocks that no tap is, up to what acts on none (see `acts`).

    The first is to be a tap up to copies; in a row of layers, what lies behind a layer is one.
    """
    for node, begin in states_around(flow, blocks).items():
        end, is_first = flow.origin(node), node == blocks[0].read
        if is_first and blocks[0].call is NO_CALL:
            begin, is_first = max(flow.layers(behind(flow, [end])), default=end), False
        near = bisect_left(taps, end)
        if not any(
            min(begin, end) <= tap <= end or not (is_first or acts(flow, *sorted((tap, end))))
            for tap in taps[max(near - 1, 0) : near + 1]
        ):
            yield node


def _tapped(flow: Flow, taps: Sequence[int]) -> list[Call]:
    """The calls that give states but h_0, or read and change some, with none inside."""
    found = []
    for call in flow.calls:
        gave, read = flow.origin(call.gave), flow.origin(call.read)
        is_tapped = gave in taps[1:] or (read in taps[:-1] and any(call.module.children()))
        if is_tapped and {gave}.issuperset({*taps} & {*range(call.begin, call.end)}):
            found.append(call)
    return found
