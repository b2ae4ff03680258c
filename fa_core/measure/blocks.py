"""The blocks of a network, and which of their states taps leave out.

Blocks are found on the data flow: a sum of two paths that fork at one activation ends one, and so
do members of the same lists; without sums, each layer by weights is one.
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

from fa_core.measure.flow import ROOT, Call, Flow, behind, dominators, partly_read, path_to
from fa_core.measure.stream import Merges, Proof, module_of, name_of

_NO_CALL = Call("", "", nn.Module(), ROOT, begin=2**40, read=ROOT)
"""Of a block that no module of a list runs."""

_UNNAMED = "a state without a name"

_PASSIVE = re.compile("pool|dropout|add|index|gather|take|select|as_strided")
"""Operations on one state, copies aside, that change none of its entries but by a number."""


@dataclass(frozen=True)
class Block:
    """A block on a path.

    Attributes:
        read: the state before it.
        adds: its last sum; of one without, the state behind it; of a row, its last layer.
        gave: the state behind it.
        call: its call; `_NO_CALL` if no module of a list runs it.
    """

    read: int
    adds: int
    gave: int
    call: Call


def _acts(flow: Flow, start: int, stop: int) -> bool:
    """Whether something other than selections, pools or dropout lies between two operations."""
    for node in behind(flow, [stop], {start}) - {start}:
        one = flow.operations[node]
        is_passive = _PASSIVE.search(one.name) and not (one.weighted or one.reads[1:])
        if not one.is_copy and not is_passive:
            return True
    return False


def states_around(flow: Flow, blocks: Iterable[Block]) -> dict[int, int]:
    """The states around blocks, and from which operation on a tap may stand for each.

    What lies behind a block's sum in every block may be left out. Where something acts between what
    a block gives and what the next one reads, these are two states.
    """
    begins: dict[int, int] = {}
    for block in blocks:
        last, begin = next(reversed(begins.items()), (ROOT, ROOT))
        if not begins or _acts(flow, last, block.read):
            begin = block.read
        else:
            del begins[last]
        begins |= {block.read: begin, block.gave: block.adds}
    return begins


def blocks_on(
    flow: Flow, merges: Merges, path: Sequence[int], tapped: Iterable[Call] = ()
) -> list[Block]:
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
                or (call.begin <= node < call.end and depth(flow, merges.above[node], node) > 1)
            )
        )
    }
    calls |= _without_sums(flow, merges, path, list(calls.values()))
    blocks: list[Block] = []
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
        blocks.append(Block(read, node, gave, call))
        start = gave
    if blocks:
        return blocks
    for start, end in pairwise(_read_by_layers(flow, merges, path, tapped)):
        layers = flow.layers(behind(flow, [end], {start}))
        blocks.append(Block(start, max(layers, default=end), end, _NO_CALL))
    return blocks


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


def depth(flow: Flow, fork: int, node: int) -> int:
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
    around = elements_around(flow, sums)
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
            inside = chain(*elements_around(flow, merges.way(node)))
            later = (call for call in inside if call.begin > fork)
            elements = sorted(later, key=lambda call: call.begin - call.end)
        blocks.append(elements[0] if elements else _NO_CALL)
    return blocks


def elements_around(flow: Flow, nodes: Iterable[int]) -> list[list[Call]]:
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
    """What holds a member of a list."""
    return call.name.rpartition(".")[0]


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
    sums = [node for node in sorted(before) if node in whole and not _is_of_cell(flow, whole, node)]
    apart = [module_of(flow, node) for node in sums if flow.is_activation(whole.above[node])]
    apart += _apart(flow, proof, allows_stem=not sums)
    missing = [*_untapped(flow, taps, blocks)]
    missing += _plain(flow, merges, taps, blocks, tapped)
    beside = last.difference(path)
    missing += [node for node in sorted(beside) if node in merges and merges.skips(node)]
    final = {}
    if _ends_in_norm(merges if taps[1:] else whole, taps[1:] or taps, blocks):
        final = {"what the final norm reads": ""}
        ends = {block.gave for block in blocks[-1:]}
        missing = [node for node in missing if node not in ends]
    names = [*(name_of(flow, node) for node in missing), *apart]
    return said_of(names) | final | dict(_in_part(flow, proof, hidden))


def said_of(names: Iterable[str]) -> dict[str, str]:
    """What is said of states that are left out, and their modules, "" for a state of none."""
    return {name or _UNNAMED: name for name in names}


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
        if alike and not is_token and _acts(flow, start, end):
            name = name_of(flow, max(alike))
            yield f"{name or _UNNAMED} in part {sizes}", name
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


def _is_of_cell(flow: Flow, merges: Merges, node: int) -> bool:
    """Whether a sum adds time steps or gates of what its own module computes, as a GRU does."""
    fork, call = merges.above[node], flow.operations[node].call
    readers = (one for one in flow.operations if fork in one.reads)
    is_own = module_of(flow, node) != "" and flow.calls[call].begin <= fork
    return is_own and all(fork in one.parts for one in readers)


def _apart(flow: Flow, proof: Proof, allows_stem: bool) -> Iterable[str]:
    """The modules outside of h_0..h_L, in part or whole, of lists that have layers inside.

    The first layer of all may be the stem, each time that it reads the input alone, unless its
    module adds to the input. The one that gives the logits may be the readout.
    """
    outer = set().union(*proof.outer)
    layers = flow.layers(behind(flow, [proof.logits]))
    lists = dict(zip(layers, elements_around(flow, layers), strict=True))
    inside = {_kind(call) for node in layers if node not in outer for call in lists[node]}
    size = flow.operations[proof.logits].size
    readout = [node for node in layers[-1:] if flow.operations[node].size == size]
    stem = [module_of(flow, node) for node in layers[:allows_stem]]
    runs = (node for node in layers if module_of(flow, node) in stem)
    first = [node for node in runs if flow.layers(behind(flow, [node])) == [node]]
    allowed = set(chain(*(lists[node] for node in readout)))
    allowed |= {call for node in first for call in lists[node] if not _adds_input(flow, call)}
    found = chain(*(lists[node] for node in layers if node in outer))
    return [call.name for call in found if _kind(call) in inside and call not in allowed]


def _adds_input(flow: Flow, call: Call) -> bool:
    """Whether a call adds something that no layer gives, as a residual block does, to a layer's."""
    layered = set(flow.layers(range(call.end)))
    for node, one in enumerate(flow.operations[: call.end]):
        after = layered.intersection(one.reads)
        if after:
            layered.add(node)
        if node >= call.begin and one.adds and after and not layered.issuperset(one.reads):
            return True
    return False


def _kind(call: Call) -> tuple[str, str, bool]:
    """The list of a member: of modules, or of single layers."""
    return _list(call), call.pattern, any(call.module.children())


def read_outside(flow: Flow, proof: Proof) -> list[str]:
    """What gives or reads what layers outside of h_0..h_L read, through which everything flows.

    The first, the stem, and the last, the readout, do not count.
    """
    whole, states = Merges(flow, flow.sources), proof.states
    rows = _of_one_step(flow, whole, path_to(whole.above, proof.logits), states)
    return [name_of(flow, node) for node, step in rows if step in (0, len(states))]


def _untapped(flow: Flow, taps: Sequence[int], blocks: Sequence[Block]) -> Iterable[int]:
    """The states around blocks that no tap is, up to what acts on none (see `_acts`).

    The first is to be a tap up to copies; in a row of layers, what lies behind a layer is one.
    """
    for node, begin in states_around(flow, blocks).items():
        end, is_first = flow.origin(node), node == blocks[0].read
        if is_first and blocks[0].call is _NO_CALL:
            begin, is_first = max(flow.layers(behind(flow, [end])), default=end), False
        near = bisect_left(taps, end)
        if not any(
            min(begin, end) <= tap <= end or not (is_first or _acts(flow, *sorted((tap, end))))
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
