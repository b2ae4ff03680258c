"""The stream of a network that names none: found on its data flow, and written as taps.

h_0..h_L are the activations at which paths fork that are summed again, and the last sum. Without
sums, they are what each layer by weights reads. See `fa_core.measure.stream` for the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, permutations, takewhile

from torch import nn

from fa_core.errors import TapError
from fa_core.measure.flow import ROOT, Call, Flow, behind, path_to
from fa_core.measure.hooks import READS, match_modules, pattern_of, plain_logits
from fa_core.measure.isolate import Inputs
from fa_core.measure.stream import Merges, acts

NO_CALL = Call("", "", nn.Module(), ROOT, begin=2**40, read=ROOT)
"""Of a block that no module of a list runs."""

UNNAMED = "a state without a name"

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


@dataclass(frozen=True)
class Block:
    """A block on a path.

    Attributes:
        read: the state before it.
        adds: its last sum; of one without, the state behind it; of a row, its last layer.
        gave: the state behind it.
        call: its call; `NO_CALL` if no module of a list runs it.
    """

    read: int
    adds: int
    gave: int
    call: Call


def states_around(flow: Flow, blocks: Iterable[Block]) -> dict[int, int]:
    """The states around blocks, and from which operation on a tap may stand for each.

    What lies behind a block's sum in every block may be left out. Where something acts between what
    a block gives and what the next one reads, these are two states.
    """
    begins: dict[int, int] = {}
    for block in blocks:
        last, begin = next(reversed(begins.items()), (ROOT, ROOT))
        if not begins or acts(flow, last, block.read):
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
                or (call.begin <= node < call.end and _depth(flow, merges.above[node], node) > 1)
            )
        )
    }
    calls |= _without_sums(flow, merges, path, list(calls.values()))
    blocks: list[Block] = []
    start = ROOT
    for node, gave in _ends(flow, merges, path, calls).items():
        call = calls[node]
        if blocks and call is blocks[-1].call is not NO_CALL:
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
        blocks.append(Block(start, max(layers, default=end), end, NO_CALL))
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
        call = calls.get(following, NO_CALL)
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
    around = elements_around(flow, [join, *inner])
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
    """The call of the block that each sum belongs to; `NO_CALL` for a sum in no list of blocks.

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
            members.setdefault(list_of(call), {})[call.name] = kinds
            sizes.setdefault(list_of(call), set()).add(flow.operations[node].size)
    unlike = [
        name
        for name, one in members.items()
        if len(one) > 1 and not any(a <= b for a, b in permutations(one.values(), 2))
    ]
    blocks: list[Call] = []
    for node, elements in zip(sums, around, strict=True):
        lists = [*map(list_of, elements)]
        while len(lists) > 1 and lists[0] in unlike and len(sizes[lists[1]]) == 1:
            del elements[0], lists[0]
        if not elements:
            fork = merges.above[node]
            inside = chain(*elements_around(flow, merges.way(node)))
            later = (call for call in inside if call.begin > fork)
            elements = sorted(later, key=lambda call: call.begin - call.end)
        blocks.append(elements[0] if elements else NO_CALL)
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


def list_of(call: Call) -> str:
    """What holds a member of a list."""
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
