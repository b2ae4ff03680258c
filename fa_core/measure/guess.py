"""The stream of a network that names none: found on its data flow, and written as taps.

h_0..h_L are the activations at which paths fork that are summed again, and the last sum. Without
sums, they are what each layer by weights reads. See `fa_core.measure.stream` for the proof.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, permutations, takewhile

from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.flow import ROOT, Call, Flow, behind, dominators, partly_read, path_to
from fa_core.measure.hooks import READS, match_modules, pattern_of, plain_logits
from fa_core.measure.isolate import Inputs
from fa_core.measure.stream import (
    Merges,
    Proof,
    is_scaling,
    module_of,
)

_NO_CALL = Call("", "", nn.Module(), ROOT, begin=2**40, read=ROOT)

_UNNAMED = "a state without a name"

_PASSIVE = re.compile("pool|dropout|add|index|gather|take|select|clone|copy|as_strided")
"""Operations on one state that change none of its entries but by a number."""

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


def left_out(flow: Flow, proof: Proof, hidden: Sequence[Tensor]) -> list[str]:
    """The blocks and states of the stream that the taps leave out; [] for all of it.

    Args:
        flow: the pass.
        proof: of its taps.
        hidden: h_0..h_L.
    """
    taps = list(map(flow.origin, proof.states))
    merges, whole = Merges(flow, taps[:1]), Merges(flow, flow.sources)
    path = path_to(merges.above, proof.logits)
    tapped = _tapped(flow, taps)
    blocks = _blocks_on(flow, merges, path, tapped)
    before, last, _ = proof.outer
    sums = [node for node in sorted(before) if node in whole]
    apart = [module_of(flow, node) for node in sums if flow.is_activation(whole.above[node])]
    apart += _apart(flow, proof, allows_stem=not sums)
    nodes = chain(*((block.read, block.gave) for block in blocks))
    missing = [node for node in nodes if not _is_tapped(flow, merges, taps, node, blocks)]
    missing += _plain(flow, merges, taps, blocks, tapped)
    beside = last.difference(path)
    missing += [node for node in sorted(beside) if node in merges and merges.skips(node)]
    if _ends_in_norm(merges if taps[1:] else whole, taps[1:] or taps, blocks):
        apart.append("what the final norm reads")
    elif blocks and not missing and any(map(merges.__contains__, path)):
        # an activation that follows the last sum alone may hide what that gives
        end = flow.origin(blocks[-1].gave)
        missing += [end] * (end not in taps and end < taps[-1] and _acts(flow, end, taps[-1]))
    names = [*(name_of(flow, node) for node in missing), *apart]
    names += _in_part(flow, whole, proof, hidden)
    return list(dict.fromkeys(name or _UNNAMED for name in names))


def _in_part(flow: Flow, merges: Merges, proof: Proof, hidden: Sequence[Tensor]) -> Iterable[str]:
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
        if alike and not is_token and _changes(flow, merges, start, end):
            yield f"{name_of(flow, max(alike)) or _UNNAMED} in part {sizes}"
        path = path_to(dominators(flow, [start]), end) if h.numel() < other.numel() else ()
        if any(_repeats(flow, node) for node in path if node > start):
            yield f"what is repeated between two states {sizes}"


def _repeats(flow: Flow, node: int) -> bool:
    """Whether an operation gives entries of another one several times; zeros at edges are none."""
    one = flow.operations[node]
    is_passive = one.weighted or one.reads[1:] or "pad" in one.name
    return not is_passive and flow.operations[one.reads[0]].size < one.size


def _ends_in_norm(merges: Merges, taps: Sequence[int], blocks: Iterable[_Block]) -> bool:
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
    blocks: Iterable[_Block],
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
    lists = dict(zip(layers, _elements_around(flow, layers), strict=True))
    inside = {_kind(call) for node in layers if node not in outer for call in lists[node]}
    size = flow.operations[proof.logits].size
    readout = [node for node in layers[-1:] if flow.operations[node].size == size]
    allowed = set(chain(*(lists[node] for node in layers[:allows_stem] + readout)))
    found = chain(*(lists[node] for node in layers if node in outer))
    return [call.name for call in found if _kind(call) in inside and call not in allowed]


def _kind(call: Call) -> tuple[str, str, bool]:
    """The list of a member: of modules, or of single layers."""
    return _list(call), call.pattern, any(call.module.children())


def read_outside(flow: Flow, proof: Proof) -> list[str]:
    """What layers outside of h_0..h_L read, through which everything flows.

    The first, the stem, and the last, the readout, do not count.
    """
    whole, states = Merges(flow, flow.sources), proof.states
    rows = _of_one_step(flow, whole, path_to(whole.above, proof.logits), states)
    return [name_of(flow, node) or _UNNAMED for node, step in rows if step in (0, len(states))]


def _is_tapped(
    flow: Flow, merges: Merges, taps: Sequence[int], node: int, blocks: Sequence[_Block]
) -> bool:
    """Whether a tap is what a block reads or gives."""
    place = bisect_left(taps, node)
    is_first = node == blocks[0].read
    if is_first and blocks[0].call is not _NO_CALL:
        return flow.origin(node) in taps
    # a tap may end a block at its sum; a final norm is looked for by itself
    # a row's first layer alone may be tapped in front of its activation
    return not all(
        _changes(
            flow,
            merges,
            min(node, tap),
            max(node, tap),
            tap == taps[-1] or (tap <= node) != is_first,
        )
        for tap in taps[max(place - 1, 0) : place + 1]
    )


def _tapped(flow: Flow, taps: Sequence[int]) -> list[Call]:
    """The calls that give states but h_0, or read and change some, with none inside."""
    found = []
    for call in flow.calls:
        gave, read = flow.origin(call.gave), flow.origin(call.read)
        is_tapped = gave in taps[1:] or (read in taps[:-1] and any(call.module.children()))
        if is_tapped and {gave}.issuperset({*taps} & {*range(call.begin, call.end)}):
            found.append(call)
    return found


def name_of(flow: Flow, node: int) -> str:
    """The module that gives or reads a state; "" without one."""
    named = [call for call in flow.calls if call.name]
    gives = [call.name for call in named if call.gave == node]
    return next(chain(gives, (f"{call.name}{READS}" for call in named if call.read == node)), "")


def _acts(flow: Flow, start: int, stop: int) -> bool:
    """Whether something other than selections, pools or dropout lies between two operations."""
    for node in behind(flow, [stop], {start}) - {start}:
        one = flow.operations[node]
        if one.weighted or one.reads[1:] or not _PASSIVE.search(one.name):
            return True
    return False


def _changes(flow: Flow, merges: Merges, start: int, stop: int, only_blocks: bool = False) -> bool:
    """Whether weights, a norm or a factor change a state on the way to another one."""
    for node in filter(start.__lt__, behind(flow, [stop], {start})):
        one = flow.operations[node]
        # a mean that is taken off is smaller
        adds = one.adds and all(flow.operations[read].size == one.size for read in one.reads)
        scales = one.weighted or is_scaling(one) or merges.is_norm(node)
        if adds or one.is_product or node in merges or (scales and not only_blocks):
            return True
    return False


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
        blocks = [] if _has_trunks(flow, merges, path) else _blocks_on(flow, merges, path)
        states = {block.read for block in blocks} | {block.gave for block in blocks[-1:]}
        states |= {a.gave for a, b in pairwise(blocks) if _acts(flow, a.gave, b.read)}
        found.append((beside, sorted(states)))
    # the other sources are side inputs of the longest stream
    return min(found, key=lambda one: (one[0], -len(one[1])))[1] if found else []


@dataclass(frozen=True)
class _Block:
    """A block on a path.

    Attributes:
        read: the state before it.
        gave: the state behind it.
        call: its call; `_NO_CALL` if no module of a list runs it.
    """

    read: int
    gave: int
    call: Call


def _blocks_on(
    flow: Flow, merges: Merges, path: Sequence[int], tapped: Iterable[Call] = ()
) -> list[_Block]:
    """The blocks on a path: its sums, and members of their lists that have none; without these,
    from what one layer reads to what the next one reads.
    """
    sums = [node for node in path if node in merges]
    # mixers without weights add, too
    forks = set[int]()
    for node in path:
        if node in merges or merges.skips(node):
            forks.add(flow.origin(merges.above[node]))
    made = _blocks(flow, merges, sums)
    counts = Counter(call.pattern for call in made)
    kept = merges.on(path)
    # a sum of the raw input may be an embedding's, and one of single layers the readout's
    calls = {
        node: call
        for node, call in zip(sums, made, strict=True)
        if (node in kept and flow.is_activation(merges.above[node]))
        or (
            counts[call.pattern] > 1
            and (
                node in kept
                or (call.begin <= node < call.end and _depth(flow, merges.above[node], node) > 1)
            )
        )
    }
    calls |= _without_sums(flow, merges, path, list(calls.values()))
    blocks: list[_Block] = []
    start = ROOT
    for node, gave in _ends(flow, merges, path, calls).items():
        call = calls[node]
        if blocks and call is blocks[-1].call is not _NO_CALL:
            read = blocks.pop().read
        else:
            between = [each for each in path if start <= each < node]
            # of a block that reads the input, where its first sum forks
            outer = [each for each in between if each < call.begin and flow.is_activation(each)]
            read = (outer or between)[-1]
            if flow.origin(read) not in forks:
                read = max(start, merges.before_norm(read))
        blocks.append(_Block(read, gave, call))
        start = gave
    row = pairwise(_read_by_layers(flow, merges, path, tapped))
    return blocks or [_Block(*states, _NO_CALL) for states in row]


def _ends(
    flow: Flow, merges: Merges, path: Sequence[int], calls: Mapping[int, Call]
) -> dict[int, int]:
    """What the blocks give, by their sums or, without one, by that itself.

    What follows every sum before the next block, such as a ReLU or a norm, ends its block, and so
    does what the block itself runs, but for a layer, a norm or gains that not all run.
    """
    tails: dict[int, list[int]] = {}
    for node, following in pairwise([*sorted(calls), path[-1] + 1]):
        call = calls.get(following, _NO_CALL)
        begins = following if call is calls[node] else min(following, call.begin)
        tails[node] = [each for each in path if node < each < begins]
    sums = [node for node in tails if node in merges]
    kinds = [[_step(flow, merges, each, calls[node]) for each in tails[node]] for node in sums]
    steps = zip(*kinds, strict=False)
    alike = len(list(takewhile(_is_of_all, steps)))
    ends = {node: node for node in tails}
    for node in sums:
        for step, each in enumerate(tails[node]):
            one, is_own = flow.operations[each], each < calls[node].end
            # a layer behind every block is a block's only where one module runs both
            of_all = step < alike and (is_own or not one.is_product)
            # of a single block, a norm may be that of a post-norm network
            alters = len(sums) > 1 and (one.weighted or merges.is_norm(each))
            if not of_all and (not is_own or alters):
                break
            ends[node] = flow.origin(each)
    return ends


def _step(flow: Flow, merges: Merges, node: int, block: Call) -> tuple[str, str]:
    """The name of an operation behind a block's sum, and the list of a norm or gains outside."""
    one = flow.operations[node]
    alters = one.weighted or merges.is_norm(node)
    is_outside = alters and node >= block.end and one.call != ROOT
    return one.name, flow.calls[one.call].pattern if is_outside else ""


def _is_of_all(steps: Sequence[tuple[str, str]]) -> bool:
    """Whether one operation follows all sums: a norm alone behind the last one is a final norm."""
    names, (*others, last) = zip(*steps, strict=True)
    return len({*names}) == 1 < len(names) and last in ("", *others)


def _without_sums(
    flow: Flow, merges: Merges, path: Sequence[int], blocks: Sequence[Call]
) -> dict[int, Call]:
    """Members of the lists of blocks that lie on a path without a sum: what each gives, its call.

    They have layers of their own, or give a sum.
    One that reads the input has to add.
    """
    operations, readout = flow.operations, merges.readout(path)
    size = operations[path[-1]].size
    states = {node for node in path if node < readout or operations[node].size != size}
    lists = {block.pattern for block in blocks} - {block.name for block in blocks}
    found: dict[int, Call] = {}
    for call in flow.calls:
        inside = range(call.begin, call.end)
        is_member = call.pattern in lists and call.gave in inside
        if not is_member or not {call.read, call.gave} <= states:
            continue
        has_layers = any(call.module.children()) and flow.layers(inside)
        reads_state = flow.is_activation(merges.before_norm(call.read))
        is_block = (has_layers and reads_state) or merges.skips(call.gave)
        if is_block and not any(node in merges for node in states.intersection(inside)):
            found.setdefault(call.gave, call)
    return found


def _read_by_layers(
    flow: Flow, merges: Merges, path: Sequence[int], tapped: Iterable[Call]
) -> list[int]:
    """What each layer on a path reads, without the input and what tapped calls have inside."""
    layers = set(flow.layers(behind(flow, path[-1:])))
    first = min(layers, default=ROOT)
    read: set[int] = set()
    for call in tapped:
        inside = layers.intersection(range(call.begin, call.end))
        layers -= inside
        read |= {call.read} if inside else set()
    read.update(*(flow.operations[node].reads for node in layers))
    before = {merges.before_norm(flow.origin(node)) for node in read}
    # an input that is scaled, as by a BatchNorm, is no state; what it looks up is one
    found = (node for node in path if node >= first or flow.operations[node].is_whole)
    states = [node for node in found if node in before and flow.is_activation(node)]
    # the readout's input may be an activation or a pool of a final norm, which the others have not
    known = merges if len(states) > 2 else Merges(flow, flow.sources)
    norms = [known.norms(node) for node in states]
    others = max(map(len, norms[1:-1] or norms[:1]), default=0)
    if len(states) > 1 and len(norms[-1]) > others:
        states[-1] = norms[-1][-1 - others]
    return states


def _has_trunks(flow: Flow, merges: Merges, path: Sequence[int]) -> bool:
    """Whether two branches of a path are trunks, or one skips blocks or is concatenated."""
    is_alone = len(merges.on(path)) < 2
    for fork, join in pairwise(path):
        reads = [read for read in flow.operations[join].reads if read in merges.above]
        if len(reads) < 2 or not flow.is_activation(fork):
            continue
        depths = sorted(_depth(flow, fork, read) for read in reads)
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
            n for n in used if n in merges and merges.above[n] == fork and _depth(flow, n, join)
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
    around = _elements_around(flow, [join, *inner])
    calls = {*around[0], *set.intersection(*map(set, around[1:]))}
    return any(fork < call.begin <= min(inner) for call in calls)


def _depth(flow: Flow, fork: int, node: int) -> int:
    """Layers by weights on the longest path from a fork."""
    depths = {fork: 0}
    for each in sorted(behind(flow, [node], {fork}) - {fork}):
        operation = flow.operations[each]
        if before := depths.keys() & operation.reads:
            depths[each] = max(map(depths.__getitem__, before)) + operation.is_product
    return depths[node]


def _blocks(flow: Flow, merges: Merges, sums: Sequence[int]) -> list[Call]:
    """The call of the block that each sum belongs to; `_NO_CALL` for a sum in no list of blocks.

    Of a sum that no member of a list runs, the longest that runs in its branches.

    Attention and MLP of one block are two sums. A block is the innermost element of a list that
    runs them, or what holds it if the elements around it are a block's parts: of one sum each, that
    adds to a whole state as it is, none with all weights' kinds of another one; but a stage, whose
    states have another size than the other stages', holds blocks.
    """
    around = _elements_around(flow, sums)
    runs = Counter(chain(*around))
    members: dict[str, dict[str, set[type]]] = {}
    sizes: dict[str, set[int]] = {}
    for node, elements in zip(sums, around, strict=True):
        for call in elements:
            adds = runs[call] == 1 and merges.skips(node)
            # an identity or a pool in place of a shortcut makes no part
            kinds = {type(one) for one in call.module.modules() if adds and [*one.parameters()]}
            members.setdefault(_list(call), {})[call.name] = kinds
            sizes.setdefault(_list(call), set()).add(flow.operations[node].size)
    unlike = [
        name
        for name, one in members.items()
        if len(one) > 1 and not any(a <= b for a, b in permutations(one.values(), 2))
    ]
    blocks: list[Call] = []
    for node, elements in zip(sums, around, strict=True):
        lists = [*map(_list, elements)]
        while len(lists) > 1 and lists[0] in unlike and len(sizes[lists[1]]) == 1:
            del elements[0], lists[0]
        if not elements:
            fork = merges.above[node]
            inside = chain(*_elements_around(flow, merges.way(node)))
            later = (call for call in inside if call.begin > fork)
            elements = sorted(later, key=lambda call: call.begin - call.end)
        blocks.append(elements[0] if elements else _NO_CALL)
    return blocks


def _elements_around(flow: Flow, nodes: Iterable[int]) -> list[list[Call]]:
    """The calls around operations of members of lists and tied modules, the innermost first."""
    counts = Counter(call.name for call in flow.calls)
    found: list[list[Call]] = []
    for node in nodes:
        place = flow.operations[node].call
        found.append([])
        while place != ROOT and flow.calls[place].name:
            call, place = flow.calls[place], flow.calls[place].around
            # of a tied module, not its parts, which run as often
            is_tied = counts[call.name] > counts[flow.calls[place].name]
            if "*" in call.pattern.rpartition(".")[2] or is_tied:
                found[-1].append(call)
    return found


def _list(call: Call) -> str:
    return call.name.rpartition(".")[0]


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
