"""Networks of checkpoints: built, and loaded with the first mapping of tensors that fits.

What fits is decided by the network's own ``load_state_dict``, tried on a copy without memory.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError, first_line
from fa_core.files.tensor_mappings import EXTRA_STATE, Rename, Tensors
from fa_core.measure.checkpoint import Checkpoint, by_preference, dotted, listed, other
from fa_core.measure.copies import on_meta
from fa_core.measure.isolate import HALF, RngState
from fa_core.report.manifest import MANIFEST, Manifest
from fa_core.sanitize import sanitize
from fa_core.zoo.models import ARCHS, arch_of, build_on_meta, recognise
from fa_core.zoo.models.hub_config import DEQUANTISE
from fa_core.zoo.models.named import Weights, hub_folder, network_of, own_names

INNER_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""Parts that torch.compile, FSDP and activation checkpointing insert anywhere in names."""

WRAPPERS = {"net", "model", "module", *INNER_WRAPPERS}
"""Parts that wrappers, also Lightning and DistributedDataParallel, put before names."""

MOST_TRIED = 64
"""Most choices of tensors and names that are tried on a network."""

MOST_SAID = 3
"""Most other fitting mappings that are named."""

LAST = {"head.weight", "out_head.weight", "fc.weight"}
"""Weights of the last layers of the built-in networks."""

_ADAPTER = re.compile(r"(?:^|[._])(?:lora|hada|lokr|ia3|vera|oft)_|prompt_embeddings")
"""Tensors of adapters to a network that is elsewhere."""

_QUANTISED = re.compile(
    r"\.(?:quant_state\.bitsandbytes__(?P<nf>\w+)|(?P<bitsandbytes>absmax|SCB|weight_format)"
    r"|(?P<GPTQ_or_AWQ>qweight|qzeros|g_idx)|(?P<HQQ>W_q)|(?P<torch>zero_point|_packed_params)"
    r"|(?P<fp8_or_packed>weight_packed|weight_scale|weight_scale_inv|input_scale))$"
)
"""Tensors beside quantised weights, by what quantised them."""


class Choice(NamedTuple):
    """Tensors of a checkpoint under names that a network may have.

    Attributes:
        place: where they are.
        note: how they were renamed; "" if they were not.
        tensors: the tensors.
        beside: other parts of the same mapping.
    """

    place: str
    note: str
    tensors: Tensors
    beside: Collection[str] = ()


def fitted(checkpoint: Checkpoint, network: nn.Module) -> Checkpoint:
    """The checkpoint reduced to the tensors that fit a network, under the names that it takes.

    The first fitting mapping, or part of one, in the order of preference is taken. Prefixes are
    taken off, or put on, only if the network takes all names then.

    Raises:
        UnreadableInput: nothing fits; says why not the nearest.
    """
    twin, own = on_meta(network), network.state_dict().keys()
    fits: dict[str, Choice] = {}
    misfits = []
    for choice in _choices(checkpoint, own):
        if choice.place not in fits:
            misfit = load_tensors(twin, choice.tensors)
            if misfit is None:
                fits[choice.place] = choice
            else:
                misfits.append(misfit)
    if not fits:
        renamed = own_names(network, checkpoint.tensors)
        if renamed is checkpoint.tensors:
            nearest = min(misfits, key=lambda misfit: misfit.count)
            raise _no_network(checkpoint) or UnreadableInput(
                nearest.why, where=checkpoint.path, hint=nearest.hint
            )
        fits[""] = Choice("", "", Tensors(renamed))
    best = by_preference({place: choice.tensors for place, choice in fits.items()})
    return _reduced(checkpoint, [fits[place] for place in best], own)


def _reduced(checkpoint: Checkpoint, fits: list[Choice], own: Collection[str]) -> Checkpoint:
    """The checkpoint with its first fitting choice, and a note on what was renamed or not used."""
    (place, note, tensors, beside), *others = fits
    notes = []
    if place:
        notes.append(f"weights from {place!r}")
    notes += [f"{one.place!r} fits too (--weights {one.place})" for one in others[:MOST_SAID]]
    notes.append(note)
    left = (*sorted(beside), *checkpoint.contents, *tensors.others)
    places = [dotted(one.place) for one in fits]
    unused = [name for name in left if not any(one.startswith(f"{name}.") for one in places)]
    if unused:
        notes.append(f"not used: {listed(unused, 6)}")
    lacking = [name for name in own if name.endswith(EXTRA_STATE) and name not in tensors.names]
    if lacking:
        notes.append(f"not in the file: {listed(lacking)}")
    taken = sanitize("; ".join(filter(None, notes)))
    return replace(checkpoint, mappings={place: tensors}, taken=taken)


def _choices(checkpoint: Checkpoint, own: Collection[str]) -> Iterator[Choice]:
    """What may fit a network with these names: each mapping as it is, without or with a prefix."""
    choices = (
        choice
        for place, tensors in checkpoint.mappings.items()
        for choice in _renamings(place, tensors, own)
    )
    return islice(choices, MOST_TRIED)


def _renamings(place: str, tensors: Tensors, own: Collection[str]) -> Iterator[Choice]:
    yield Choice(place, "", tensors)
    tried = [("", tensors)]
    bare = tensors.renamed(_bare)
    dropped = _wrappers(tensors) - _wrappers(bare)
    if dropped and len(bare) == len(tensors):
        parts = [repr(f"{part}.") for part in sorted(dropped)]
        tried.append((f"names without {', '.join(parts)}", bare))
    first, _, _ = next(iter(tensors)).partition(".")
    shared = tensors.below(f"{first}.")
    if len(shared) == len(tensors):
        tried.append((f"names without '{first}.'", shared))
    yield from (Choice(place, note, held) for note, held in tried[1:])
    parted = False
    for note, held in tried:
        for prefix in _prefixes(held, own):
            part = held.below(prefix)
            if len(part) < len(held):
                if parted and note:
                    continue
                parted = True
                rest = {name.partition(".")[0] for name in held if not name.startswith(prefix)}
                beside = {dotted(place) + name for name in rest}
                yield Choice(dotted(place) + prefix[:-1], note, part, beside)
            elif not note:
                yield Choice(place, f"names without {prefix!r}", part)
        for prefix in _prefixes(own, held):
            notes = (note, f"names with {prefix!r}")
            yield Choice(place, "; ".join(filter(None, notes)), held.renamed(prefix.__add__))


def _bare(name: str) -> str:
    """A name without the parts of wrappers, of which some stand before it alone."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in WRAPPERS:
        del parts[0]
    return ".".join(part for part in parts if part not in INNER_WRAPPERS)


def _wrappers(tensors: Tensors) -> Counter[str]:
    return Counter(part for name in tensors for part in name.split(".") if part in WRAPPERS)


def _prefixes(names: Collection[str], known: Collection[str]) -> list[str]:
    """Prefixes, with their dots, without which many of the names are known."""
    deepest = max((name.count(".") for name in known), default=0)
    found: Counter[str] = Counter()
    for name in names:
        at = len(name)
        for _ in range(deepest + 1):
            at = name.rfind(".", 0, at)
            if at < 0:
                break
            if name[at + 1 :] in known:
                found[name[: at + 1]] += 1
    most = max(found.values(), default=0)
    return [prefix for prefix, count in found.items() if 2 * count >= most]


def network_for(
    checkpoint: Checkpoint,
    manifest: Manifest | None = None,
    model: str | None = None,
    as_is: bool = False,
) -> tuple[nn.Module, Checkpoint]:
    """Build the network of a checkpoint and load its weights.

    Args:
        checkpoint: the checkpoint.
        manifest: the run's manifest, if any, which names a built-in network.
        model: a SPEC of `fa_core.zoo.models.named`, used instead of the manifest. Must come from
            the user, never from a file, as it may import code.
        as_is: keep half-precision weights in half precision instead of float32.

    Returns:
        the network, and the checkpoint as `fitted` to it.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        # an unsaved buffer may be drawn at random; draw the same one each time
        with RngState().isolated():
            network = network_of(model, _weights(checkpoint))
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    taken = fitted(checkpoint, network)
    if model is None and any(tensor.is_meta for tensor in network.parameters()):
        network.to_empty(device="cpu")  # only now: a manifest can ask for a terabyte
    load_tensors(network, taken.tensors)
    dtypes = {tensor.dtype for tensor in taken.tensors.values() if tensor.is_floating_point()}
    kept = {torch.float64}
    if as_is:
        kept.update(HALF)
    if len(dtypes) == 1 and dtypes <= kept:
        network.to(dtypes.pop())
        load_tensors(network, taken.tensors)
    return network, taken


class Misfit(NamedTuple):
    """Why tensors do not fit a network.

    Attributes:
        count: tensors that do not.
        why: the first ones.
        hint: what to do about it.
    """

    count: int
    why: str
    hint: str = ""


def load_tensors(network: nn.Module, tensors: Tensors) -> Misfit | None:
    """Load tensors by the network's own ``load_state_dict``, each converted to its precision.

    Tensors that are tied to loaded ones, counters of batches and extra states may be missing.
    Integers, booleans and complex numbers are not taken for floating-point tensors.
    """
    state: OrderedDict[str, Any] = OrderedDict({**tensors, **tensors.extra})
    vars(state)["_metadata"] = tensors.versions
    casts = _Casts()
    try:
        with casts, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keys: Any = None
            with suppress(TypeError):
                keys = network.load_state_dict(state, strict=False)
            if keys is None:  # its own, which is not lenient or does not say what is missing
                network.load_state_dict(state)
    except Exception as error:
        first, *more = str(error).split("\n\t")[1:] or [first_line(error)]
        why = re.sub(r"torch\.Size\((.*?)\)", r"\1", first).rstrip(".")
        return Misfit(1 + len(more), f"{why}{_more(len(more))}")
    missing, unknown = _names(network, keys)
    for name in missing:
        if name in tensors.others:
            what, _, again = other(tensors, name).partition("; ")
            return Misfit(len(missing), what, again)
    if casts.noticed:
        return _wrong_kind(tensors, casts.noticed)
    if missing or unknown:
        parts = []
        if missing:
            parts.append(f"{len(missing)} missing ({listed(missing)})")
        if unknown:
            parts.append(f"{len(unknown)} that the network does not have ({listed(unknown)})")
        why = f"tensors do not fit the network: {', '.join(parts)}"
        return Misfit(len(missing) + len(unknown), why)
    return None


def _names(network: nn.Module, keys: Any) -> tuple[list[str], list[str]]:
    """Names that are missing and cannot be, and names that the network does not have."""
    if keys is None:
        return [], []
    own = {
        **dict(network.named_parameters(remove_duplicate=False)),
        **dict(network.named_buffers(remove_duplicate=False)),
    }
    loaded = {id(tensor) for name, tensor in own.items() if name not in keys.missing_keys}
    missing = [
        name
        for name in keys.missing_keys
        if not name.endswith((EXTRA_STATE, "num_batches_tracked"))
        and id(own.get(name)) not in loaded
    ]
    return missing, [name for name in keys.unexpected_keys if not name.endswith(EXTRA_STATE)]


class _Casts(TorchFunctionMode):
    """Notices integers, booleans and complex numbers that are copied into floating-point tensors.

    Attributes:
        noticed: what was copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noticed: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        if func is Tensor.copy_ and args[0].is_floating_point() > args[1].is_floating_point():
            self.noticed.append(args[1])
        return func(*args, **kwargs or {})


def _wrong_kind(tensors: Tensors, noticed: list[Tensor]) -> Misfit:
    """Complex weights, and integers, which are quantised weights without their scale."""
    first = noticed[0]
    start = first.untyped_storage().data_ptr()  # a hook may have split it
    starts = {one.untyped_storage().data_ptr(): name for name, one in tensors.items()}
    name = starts.get(start, "a tensor")
    why, hint = "no scale is known, so norms would mean nothing", DEQUANTISE
    if first.is_complex():
        why = "the network has no imaginary part"
        hint = "name the network that it belongs to with --model"
    kind = str(first.dtype).removeprefix("torch.")
    what = f"{name} is stored as {kind}{_more(len(noticed) - 1)}: {why}"
    return Misfit(len(noticed), what, hint)


def _more(count: int) -> str:
    return f" (and {count} more)" if count else ""


def _no_network(checkpoint: Checkpoint) -> UnreadableInput | None:
    """The error for a checkpoint that by its names is an adapter, or quantised; else None."""
    path = checkpoint.path
    for tensors in checkpoint.mappings.values():
        for name in tensors.names:
            if _ADAPTER.search(name):
                hint = (
                    "merge it into its network: PeftModel.from_pretrained(network, "
                    f"{str(path.parent)!r}).merge_and_unload().save_pretrained('merged')"
                )
                return UnreadableInput("is an adapter (LoRA), no network", where=path, hint=hint)
        kinds = [match for name in tensors.names if (match := _QUANTISED.search(name))]
        if kinds:
            kind = next((match["nf"] for match in kinds if match["nf"]), str(kinds[0].lastgroup))
            what = f"is quantised ({kind.replace('_', ' ')})"
            return UnreadableInput(what, where=path, hint=DEQUANTISE)
    return None


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    names = checkpoint.tensors
    try:
        arch = arch_of(manifest.arch, {".".join(name.split(".")[-2:]): 0 for name in names})
        return build_on_meta(arch, len(names), **manifest.arch_args)
    except UsageError as error:
        raise UnknownNetwork(
            error.what, where=checkpoint.path.parent / MANIFEST, hint=error.hint
        ) from error


def _recognised_network(checkpoint: Checkpoint) -> nn.Module:
    failed: list[UnknownNetwork] = []
    for _, _, tensors, _ in _choices(checkpoint, LAST):
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        try:
            arch, arch_args = recognise(shapes)
            return build_on_meta(arch, len(shapes), **arch_args)
        except UnknownNetwork as error:
            failed.append(error)
    folder = hub_folder(checkpoint.path)
    if folder:
        return network_of(f"hf:{folder}", _weights(checkpoint))
    first = failed[0]
    raise _no_network(checkpoint) or UnknownNetwork(
        first.what, where=checkpoint.path, hint=first.hint
    ) from first


def _weights(checkpoint: Checkpoint) -> Weights:
    sizes = [tensor.nbytes for tensor in checkpoint.tensors.values()]
    return Weights(checkpoint.path, len(sizes), sum(sizes))
