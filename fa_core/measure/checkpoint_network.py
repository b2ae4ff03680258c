"""Networks of checkpoints: built, and loaded with the first mapping of tensors that fits.

What fits is decided by the network's own ``load_state_dict``, tried on a copy without memory.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError, first_line
from fa_core.files.opening import is_file, is_folder
from fa_core.files.tensor_mappings import EXTRA_STATE, State
from fa_core.measure.checkpoint import Checkpoint, by_preference, dotted
from fa_core.measure.copies import on_meta
from fa_core.measure.isolate import HALF, RngState, dtype_name
from fa_core.report.manifest import MANIFEST, Manifest
from fa_core.report.numbers import joined, listed
from fa_core.sanitize import sanitize
from fa_core.zoo.models import ARCHS, build_on_meta, likely
from fa_core.zoo.models.hub_config import DEQUANTISE
from fa_core.zoo.models.named import CONFIG, Weights, network_of, own_names

_INNER = r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
INNER_WRAPPERS = re.compile(rf"(?<![^.]){_INNER}")
"""Parts that torch.compile, FSDP and activation checkpointing insert anywhere in names."""

WRAPPERS = re.compile(rf"^(?:(?:net|model|module)\.|{_INNER})+|(?<=\.){_INNER}")
"""Those, and the parts that wrappers, also Lightning and DistributedDataParallel, put before."""

MOST_TRIED, A_CHOICE = 30_000, 500
"""Names of tensors that are tried on a network in all, and as how many a choice counts."""

MOST_SAID = 3
"""Most other fitting mappings that are named."""

LAST = {"head.weight", "out_head.weight", "fc.weight"}
"""Weights of the last layers of the built-in networks."""

_NO_NETWORK = {
    r"(?:^|[._])(?:lora|hada|lokr|ia3|vera|oft)_|prompt_embeddings": "is an adapter (LoRA), no "
    "network; merge it, and save that: PeftModel.from_pretrained(net, FOLDER).merge_and_unload()",
    r"\.quant_state\.bitsandbytes__": f"is quantised (bitsandbytes nf4 or fp4); {DEQUANTISE}",
    r"\.(?:absmax|SCB|weight_format)$": f"is quantised (bitsandbytes); {DEQUANTISE}",
    r"\.(?:qweight|qzeros|g_idx)$": f"is quantised (GPTQ or AWQ); {DEQUANTISE}",
    r"\.(?:W_q|zero_point|weight_packed|weight_scale(?:_inv)?|input_scale)$|_packed_params": (
        f"is quantised; {DEQUANTISE}"
    ),
}
"""Names of tensors that stand for a kind of checkpoint, what it is, and what helps."""


BUILT_WITH = 4_000_000_007
"""Seed while a network of the user's own is built; no script sets it itself."""

OPTIONAL = (EXTRA_STATE, "num_batches_tracked")
"""Ends of names that may be missing: what a network has of them stays."""


class Choice(NamedTuple):
    """What may fit a network: a mapping of a checkpoint, or a part of it, under other names.

    Attributes:
        place: where it is.
        note: how it was renamed.
        state: the tensors.
    """

    place: str
    note: str
    state: State


def fitted(checkpoint: Checkpoint, network: nn.Module) -> Checkpoint:
    """The checkpoint reduced to the tensors that fit a network, under the names that it takes.

    The first fitting mapping, or part of one, in the order of preference is taken. Prefixes are
    taken off, or put on, only if the network takes all names then.

    Raises:
        UnreadableInput: nothing fits; says why not the nearest.
    """
    fits: dict[str, Choice] = {}
    misfits = []
    for choice in _choices(checkpoint, network.state_dict().keys()):
        if choice.place not in fits:
            misfits.append(load_state(on_meta(network), choice.state))
            if not misfits[-1]:
                fits[choice.place] = choice
    if not fits:
        tensors = checkpoint.tensors
        renamed = own_names(network, tensors)
        if renamed is tensors:
            nearest = min(misfits, key=len)
            raise _no_network(checkpoint) or UnreadableInput(nearest, where=checkpoint.path)
        fits[""] = Choice("", "", State(renamed))
    best = by_preference({place: choice.state for place, choice in fits.items()})
    return _reduced(checkpoint, [fits[place] for place in best])


def _reduced(checkpoint: Checkpoint, fits: list[Choice]) -> Checkpoint:
    """The checkpoint with its first fitting choice, and a note on what was renamed or not used."""
    (place, note, state), *others = fits
    notes = [note]
    if place:
        notes.insert(0, f"weights from {place!r}")
    notes[1:1] = [f"{one.place!r} fits too (--weights {one.place})" for one in others[:MOST_SAID]]
    places = tuple(dotted(choice.place) for choice in fits if choice.place)
    beside = checkpoint.mappings.get("", ()) if place else ()
    unused = []
    for name in (*checkpoint.contents, *beside, *state.others):
        holds_one = any(place.startswith(f"{name}.") for place in places)
        if not holds_one and not name.startswith(places):
            unused.append(name)
    if unused:
        notes.append(f"not used: {listed(unused)}")
    taken = sanitize(joined(*notes))
    return replace(checkpoint, mappings={place: state}, taken=taken)


def _choices(checkpoint: Checkpoint, own: Collection[str]) -> Iterator[Choice]:
    """What may fit a network with these names, as far as `MOST_TRIED` allows."""
    tried = 0
    for place, state in checkpoint.mappings.items():
        for choice in _renamings(place, state, own):
            if tried <= MOST_TRIED:
                yield choice
            tried += A_CHOICE + len(choice.state)


def _renamings(place: str, state: State, own: Collection[str]) -> Iterator[Choice]:
    """A mapping as it is, without prefixes of wrappers, below a prefix, and with one."""
    inner = state.renamed(partial(INNER_WRAPPERS.sub, ""))
    if len(inner) < len(state):  # two names would be one
        inner = state
    bare = state.renamed(partial(WRAPPERS.sub, ""))
    dropped = {part for name in state for part in WRAPPERS.findall(name)}
    kinds = [("", state)]
    if dropped and len(bare) == len(state):
        kinds.append((f"names without {listed(sorted(map(repr, dropped)), 3)}", bare))
    for note, kind in kinds:
        yield Choice(place, note, kind)
    for note, kind in kinds:
        for prefix in _prefixes(own, kind):
            notes = f"{note}; names with {prefix!r}".removeprefix("; ")
            yield Choice(place, notes, kind.renamed(prefix.__add__))
    for prefix in _prefixes(inner, own):
        part = inner.below(prefix)
        if len(part) < len(inner):
            yield Choice(dotted(place) + prefix[:-1], "", part)
        else:
            yield Choice(place, f"names without {prefix!r}", part)


def _prefixes(names: Collection[str], known: Collection[str]) -> list[str]:
    """Prefixes, with their dots, without which many of the names are known."""
    longest = max((name.count(".") for name in known), default=0) + 1
    found: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        for end in range(max(1, len(parts) - longest), len(parts)):
            if ".".join(parts[end:]) in known:
                found[dotted(".".join(parts[:end]))] += 1
    most = max(found.values(), default=0)
    return [prefix for prefix, count in found.items() if 2 * count >= most]


def loaded(
    checkpoint: Checkpoint,
    manifest: Manifest | None = None,
    model: str | None = None,
    as_is: bool = False,
    seed: int = BUILT_WITH,
) -> tuple[nn.Module, Checkpoint]:
    """Build the network of a checkpoint and load its weights.

    Args:
        checkpoint: the checkpoint.
        manifest: the run's manifest, if any, which names a built-in network.
        model: a SPEC of `fa_core.zoo.models.named`, used instead of the manifest. Must come from
            the user, never from a file, as it may import code.
        as_is: keep half-precision weights in half precision instead of float32.
        seed: of what a network of the user's own draws when it is built.

    Returns:
        the network, and the checkpoint as `fitted` to it.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        with RngState(seed).isolated():
            network = network_of(model, _weights(checkpoint))
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    taken = fitted(checkpoint, network)
    if model is None and any(tensor.is_meta for tensor in network.parameters()):
        network.to_empty(device="cpu")  # only now: a manifest can ask for a terabyte
    misfit = load_state(network, taken.state)
    if misfit:
        raise UnreadableInput(misfit, where=checkpoint.path)
    dtypes = {tensor.dtype for tensor in taken.tensors.values() if tensor.is_floating_point()}
    kept = {torch.float64}
    if as_is:
        kept.update(HALF)
    if len(dtypes) == 1 and dtypes <= kept:
        network.to(dtypes.pop())
        load_state(network, taken.state)
    return network, taken


def load_state(network: nn.Module, state: State) -> str:
    """Load a state by the network's own ``load_state_dict``, converted to its precision.

    Tensors that are tied to loaded ones and `OPTIONAL` ones may be missing.

    Returns:
        why it does not fit; "" if it does.
    """
    own = nn.Module.state_dict(network, keep_vars=True)
    others = state.others
    for name, what in others.items():
        if name in own and not name.endswith(EXTRA_STATE):
            return f"{name} {what}"
    held = {
        name: one
        for name, one in state.items()
        if name not in others and (name in own or not name.endswith(EXTRA_STATE))
    }
    tied: dict[int, Any] = {}
    for name in held.keys() & own.keys():
        pair = tied.setdefault(id(own[name]), held[name]), held[name]
        if pair[0] is not pair[1] and not pair[0].is_meta:
            bits = [tensor.float().view(torch.int32) for tensor in pair]  # NaN is NaN
            if not torch.equal(*bits):
                return f"{name} and a parameter that is tied to it have two values"
    for name, one in own.items():
        if id(one) in tied:
            held.setdefault(name, tied[id(one)])
    kept = {name: one for name, one in own.items() if name.endswith(OPTIONAL)}
    given: Any = OrderedDict({**kept, **held})
    given._metadata = state.versions
    try:
        with _FloatsOnly(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a twin's values are not copied
            network.load_state_dict(given)
    except Exception as error:
        lines = str(error).split("\n\t")[1:] or [first_line(error)]
        whole = (_COPYING.sub(r"\1 \2", line) for line in lines)
        said = [shorten(line, LONGEST_LINE, placeholder=" …").strip(" .,") for line in whole]
        return f"tensors do not fit the network: {listed(said, 2)}"
    state.update(held)  # in the network itself, tied tensors may be two that share memory
    return ""


LONGEST_LINE = 240
"""Most characters of a line of torch's error: it lists all names."""

_COPYING = re.compile(r"""While copying the parameter named "(.*?)",.*occurred : \('(.*)',\)\.""")
"""torch's message on an error of `_FloatsOnly`."""


class _FloatsOnly(TorchFunctionMode):
    """Refuses to copy integers, booleans and complex numbers into floating-point tensors."""

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        if func is Tensor.copy_ and args[0].is_floating_point() > args[1].is_floating_point():
            kind = dtype_name(args[1].dtype)
            raise ValueError(f"is stored as {kind}, without a scale: dequantise it")
        return func(*args, **kwargs or {})


def _no_network(checkpoint: Checkpoint) -> UnreadableInput | None:
    """The error for a checkpoint that by its names is an adapter, or quantised; else None."""
    names = [name for state in checkpoint.mappings.values() for name in state]
    for pattern, what in _NO_NETWORK.items():
        if any(re.search(pattern, name) for name in names):
            return UnreadableInput(what, where=checkpoint.path)
    return None


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    arch = manifest.arch
    names = checkpoint.state
    if arch == "resmlp" and any(f".{name}".endswith(".head.weight") for name in names):
        arch = "resmlp_wide"  # what an early version called resmlp
    try:
        return build_on_meta(arch, len(names), **manifest.arch_args)
    except UsageError as error:
        raise UnknownNetwork(
            error.what, where=checkpoint.path.parent / MANIFEST, hint=error.hint
        ) from error


def _recognised_network(checkpoint: Checkpoint) -> nn.Module:
    misfits = []
    for _, _, state in _choices(checkpoint, LAST):
        for network in likely({name: tensor.shape for name, tensor in state.tensors.items()}):
            misfit = load_state(network, state)
            if not misfit:
                return network
            misfits.append(f"looks like {network.arch}, but its {misfit}")
    folder = checkpoint.path
    if not is_folder(folder):
        folder = folder.parent
    if is_file(folder / CONFIG):
        return network_of(f"hf:{folder}", _weights(checkpoint))
    what = f"tensors of no known network ({listed(checkpoint.tensors, 3)})"
    raise _no_network(checkpoint) or UnknownNetwork(
        min(misfits, key=len, default=what),
        where=checkpoint.path,
        hint=f"name the network (--model module:callable; m asks); known: {', '.join(ARCHS)}",
    )


def _weights(checkpoint: Checkpoint) -> Weights:
    sizes = [tensor.nbytes for tensor in checkpoint.tensors.values()]
    return Weights(checkpoint.path, len(sizes), sum(sizes))
