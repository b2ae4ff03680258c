"""Eval batches: checked tensors on the network's device; (c) needs disjoint, shuffled ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fa_core.errors import MeasureError
from fa_core.files.decode import without
from fa_core.measure.isolate import EvalNetwork, Inputs, dtype_name, first_of, tensors_of, tree_map

Batch: TypeAlias = tuple[Inputs, Tensor]
"""(x, y)."""

Progress: TypeAlias = Callable[[int, int], object]
"""Called with (batches done, batches in total)."""

IGNORED = -100
"""Labels (B, T) of this value are ignored, as by `torch.nn.functional.cross_entropy`."""

_NEXT_TOKEN = re.compile("CausalLM|LMHead")
"""Model-hub classes that take the tokens themselves as labels, and predict the next one."""

_BESIDE_TOKENS = re.compile("mask|position|type|segment", re.IGNORECASE)
"""Names of integer inputs that belong to tokens."""

_OWN_TOKEN = re.compile("MaskedLM|TokenClassification")
"""Model-hub classes whose labels belong to the token at their own position."""


SHIFTED = (
    "labels are the tokens themselves: position t is judged by the label of t + 1 (those of pairs "
    "(inputs, labels) are not shifted)"
)
"""Note on labels that were shifted."""

KEPT = "labels are a copy of a token input, and each is judged at its own position"
"""Note on labels that look as if they were to be shifted."""


SHUFFLE = "and (c) is of that class alone: draw them with shuffle=True"

SORTED = (
    "eval batches sorted by class: (c) is lower than on shuffled ones; draw them with shuffle=True"
)
"""Note on batches that fail `sorted_by_class`."""

_BY_CHANCE = 32
"""Fewer samples may be of one class by chance."""


class BatchLog:
    """A fingerprint and the label of every sample; nothing waits for the device until `note`."""

    def __init__(self) -> None:
        self._prints: list[Tensor] = []
        self._labels: list[Tensor] = []

    def add(self, x: Inputs, y: Tensor) -> None:
        """Add one batch: inputs, whose first tensor is used, and labels (B,) or (B, T)."""
        self._labels.append(y if y.dim() == 1 else y.new_full((len(y),), IGNORED))
        self._prints.append(_fingerprints(x))

    def note(self) -> str:
        """The report's note on the batches; may be "".

        Raises:
            MeasureError: two batches hold the same samples, in any order.
        """
        labels = [y.cpu().numpy() for y in self._labels]
        all_labels = np.concatenate(labels)
        prints = torch.cat(self._prints).tolist()
        samples = list(zip(prints, all_labels.tolist(), strict=True))
        repeated = len(samples) - len({*samples})
        notes = []
        label = all_labels[0]
        if label != IGNORED and len(all_labels) >= _BY_CHANCE and not np.ptp(all_labels):
            notes.append(f"all eval labels are {label}, {SHUFFLE}")
        if sorted_by_class(labels):
            notes.append(SORTED)
        if repeated:
            following = iter(samples)
            _check_different([list(islice(following, len(y))) for y in labels])
            notes.append(
                f"{repeated} eval samples repeat others: (c) is higher than on different ones"
            )
        return "; ".join(notes)


def _fingerprints(x: Inputs) -> Tensor:
    """Σ_k v_k·b_k modulo 2⁶⁴ of each sample of the first input, (B,): b_k the bits of its k-th
    float32, v_k random integers, others for another length.

    For two different samples it is the same with a probability of 2⁻³³ or less, whatever their
    values are, also NaN and inf.
    """
    samples = first_of(x).detach()
    bits = samples.reshape(len(samples), -1).float().view(torch.int32)
    length, device = bits.shape[1], bits.device
    draws = torch.Generator(device).manual_seed(length)
    factors = torch.randint(-(2**63), 2**63 - 1, (length,), generator=draws, device=device)
    # in place: four times as fast as bits * factors
    return bits.long().mul_(factors).sum(dim=1)


def _check_different(batches: Sequence[Sequence[tuple[int, int]]]) -> None:
    """Refuse two batches of the same samples, each a fingerprint and a label.

    Raises:
        MeasureError: names the two batches.
    """
    seen: dict[tuple[tuple[int, int], ...], int] = {}
    for index, batch in enumerate(batches):
        first = seen.setdefault(tuple(sorted(batch)), index)
        if first != index:
            raise MeasureError(
                f"eval batches {first} and {index} hold the same samples",
                hint="(c) compares different ones: DataLoader(distinct samples, "
                "batch_size=128, shuffle=True)",
            )


def sorted_by_class(labels: Sequence[NDArray[np.int64]]) -> bool:
    """Whether the label counts of the batches differ by far more than after shuffling.

    With n_kc the samples of class c in batch k, and e_kc = n_k.·n_.c/n: χ² = Σ (n_kc − e_kc)²/e_kc
    > dof + 6·√(2·dof), dof = (K − 1)(C − 1) over the classes that occur.

    Args:
        labels: (B,) of every batch.

    Source: Pearson 1900; the mean and standard deviation of χ² are dof and √(2·dof).

    >>> sorted_by_class([np.zeros(8, int), np.ones(8, int)])
    True
    >>> sorted_by_class([np.array([0, 1]), np.array([1, 1])])
    False
    """
    classes = np.unique(np.concatenate(labels))
    places = [np.searchsorted(classes, y) for y in labels]
    counts = np.stack([np.bincount(place, minlength=len(classes)) for place in places])
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    dof = (len(labels) - 1) * (len(classes) - 1)
    if not dof:
        return False
    chi_square = float((np.square(counts - expected) / expected).sum())
    return chi_square > dof + 6 * math.sqrt(2 * dof)


def as_batches(batches: Iterable[object]) -> Collection[object]:
    """Batches of a known number; a generator or a loader without a length is read into a list.

    Raises:
        MeasureError: there are no batches, or it is not an iterable.
    """
    known = cast(Collection[object], batches)
    try:
        len(known)
    except TypeError:
        if not isinstance(batches, Iterable):
            raise MeasureError(
                f"the batches are a {type(batches).__name__}",
                hint="give (x, y) pairs, e.g. a DataLoader",
            ) from None
        known = list(batches)
    if not len(known):
        raise MeasureError(
            "there are no eval batches", hint="give at least one (x, y); drift needs 8 of 128"
        )
    return known


def to_device(batch: object, index: int, net: EvalNetwork) -> Batch:
    """One batch as tensors on the network's device, floating inputs in its dtype.

    Args:
        batch: (x, y), anything `torch.as_tensor` takes: x (B, ...), y (B,) integer class indices,
            or (B, T), one per token, -100 for ignored tokens, or (B, H, W), one per pixel, which
            become (B, H·W). Or a mapping of ``labels`` and the network's keyword arguments: labels
            (B, T) that are the tokens themselves are then shifted by one (`are_tokens`).
        index: the batch's number, for messages.
        net: the network in eval mode.

    Raises:
        MeasureError: not a pair, no samples, unequal lengths, or labels that are no class indices.
    """
    where = f"eval batch {index}"
    x, y = as_batch(batch, index, net.model)
    labels = y if y.dim() == 1 else y[y != IGNORED]
    if not len(labels):
        raise MeasureError(
            f"no label counts: all are {IGNORED}",
            where=where,
            hint="drop it, or label the tokens that are to be predicted",
        )
    least = int(labels.min())
    if least < 0:
        raise MeasureError(
            f"label {least} is negative", where=where, hint="classes are numbered from 0"
        )
    return move_batch(x, y, net.device, net.dtype)


def move_batch(x: Inputs, y: Tensor, device: torch.device, dtype: torch.dtype | None) -> Batch:
    """Move a batch to a device, and floating inputs to a dtype."""

    def move(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return tensor.to(device=device, dtype=dtype)
        return tensor.to(device)

    return tree_map(move, x), y.to(device=device, dtype=torch.int64)


def as_batch(batch: object, index: int, model: nn.Module | None = None) -> Batch:
    """One batch as tensors on their own device, with label shapes checked but not label values.

    Raises:
        MeasureError: as `to_device`, except for negative or only ignored labels.
    """
    where = f"eval batch {index}"
    try:
        if isinstance(batch, Mapping):
            inputs, y = _split_mapping(batch, where, model)
        elif isinstance(batch, (tuple, list)) and len(batch) == 2:
            inputs, y = batch[0], torch.as_tensor(batch[1])
            if not isinstance(inputs, Mapping):
                inputs = _single_input(inputs, where)
        else:
            raise MeasureError(
                f"it is a {type(batch).__name__}",
                where=where,
                hint="a batch is a pair (x, y), e.g. of a DataLoader, or a mapping with 'labels'",
            )
        inputs, y = tree_map(_recordable, inputs), _recordable(y)
        if _is_per_pixel(tensors_of(inputs), y):
            y = y.flatten(1)
        else:
            _check_shapes(tensors_of(inputs), y, where, named=isinstance(batch, Mapping))
    except (TypeError, ValueError, RuntimeError) as error:
        raise MeasureError(
            f"no tensors: {error}",
            where=where,
            hint="a batch is a pair (x, y) of arrays, each of one shape",
        ) from error
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise MeasureError(
            f"labels are {dtype_name(y.dtype)}",
            where=where,
            hint="labels are integer class indices: y.long() where these are; regression is not "
            "measured",
        )
    return inputs, y


def _single_input(inputs: object, where: str) -> Tensor:
    """The inputs of a pair as one tensor.

    Raises:
        MeasureError: they are several.
    """
    if isinstance(inputs, (tuple, list)) and any(isinstance(part, Tensor) for part in inputs):
        raise MeasureError(
            f"its inputs are {len(inputs)} in a {type(inputs).__name__}",
            where=where,
            hint="give them by the names of the network's arguments: ({name: …, name: …}, labels)",
        )
    return torch.as_tensor(inputs)


def _split_mapping(batch: Mapping[str, object], where: str, model: nn.Module | None) -> Batch:
    """Inputs by name, and labels."""
    if "labels" not in batch:
        raise MeasureError(
            f"it is a {type(batch).__name__} without labels",
            where=where,
            hint=f"it needs 'labels' among {', '.join(map(repr, batch))}; or give pairs (x, y)",
        )
    values = dict(batch)
    y = torch.as_tensor(values.pop("labels"))
    for name, value in values.items():
        if isinstance(value, (list, np.ndarray)):
            values[name] = torch.as_tensor(value)
    prepare = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if prepare is not None and not any(name.startswith("decoder_input") for name in values):
        # as a model-hub encoder–decoder itself does when it is called with labels
        values["decoder_input_ids"] = prepare(labels=y)
    if not tensors_of(values):
        raise MeasureError(
            "it holds labels alone",
            where=where,
            hint="add what the network is called with, by name",
        )
    if are_tokens(y, values, model):
        y = torch.cat([y[:, 1:], torch.full_like(y[:, :1], IGNORED)], dim=1)
    return values, y


def are_tokens(labels: Tensor, inputs: Mapping[str, object], model: nn.Module | None) -> bool:
    """Whether labels (B, T) of a mapping are the tokens themselves, each predicted one before it.

    The class of the network decides for the model hub's causal and masked language models and token
    classification (`_NEXT_TOKEN`, `_OWN_TOKEN`), or its config for an encoder–decoder, whose labels
    belong to their own position. For any other network: whether its only token input holds the
    labels that count. One with two token inputs is taken for an encoder–decoder.
    """
    if labels.dim() != 2:
        return False
    by_class = _tokens_by_class(model)
    if by_class is not None:
        return by_class
    tokens = _token_inputs(inputs)
    return len(tokens) == 1 and _is_copy(labels, tokens[0])


def _tokens_by_class(model: nn.Module | None) -> bool | None:
    """Whether the class of a network takes the tokens themselves as labels; None if unknown."""
    parts = [] if model is None else [model, *model.children()]
    for part in parts:
        if getattr(getattr(part, "config", None), "is_encoder_decoder", False):
            return False
        for kind in type(part).__mro__:
            if _NEXT_TOKEN.search(kind.__name__):
                return True
            if _OWN_TOKEN.search(kind.__name__):
                return False
    return None


def _is_copy(labels: Tensor, tokens: Tensor) -> bool:
    """Whether the labels that count are the tokens at their positions."""
    if labels.shape != tokens.shape:
        return False
    return bool(((tokens.to(labels) == labels) | (labels == IGNORED)).all())


def _token_inputs(inputs: Mapping[str, object]) -> list[Tensor]:
    """The integer inputs (B, T) that are no masks, positions or types of tokens."""
    found = []
    for name, value in inputs.items():
        if not isinstance(value, Tensor) or value.dim() != 2 or value.is_floating_point():
            continue
        is_mask = bool(((value == 0) | (value == 1)).all())
        if not is_mask and not _BESIDE_TOKENS.search(name):
            found.append(value)
    return found


def label_note(batch: object, y: Tensor, model: nn.Module) -> str:
    """The report's note on labels (B, T) of a mapping that are a copy of a token input; else ""."""
    if not isinstance(batch, Mapping):
        return ""
    labels = torch.as_tensor(batch["labels"]).to(y)
    if labels.dim() != 2:
        return ""
    if not torch.equal(labels, y):
        return SHIFTED
    if _tokens_by_class(model) is not None:
        return ""
    if any(_is_copy(labels, tokens) for tokens in _token_inputs(without(batch, "labels"))):
        return KEPT
    return ""


def _recordable(tensor: Tensor) -> Tensor:
    """A tensor that can enter a graph: a copy of one made under inference mode."""
    return tensor.clone() if tensor.is_inference() else tensor


def _check_shapes(tensors: list[Tensor], y: Tensor, where: str, named: bool) -> None:
    """Refuse a batch without samples, and labels that are neither one per sample nor one per token.

    Raises:
        MeasureError: with both shapes and a remedy.
    """
    x, *_ = tensors
    if x.dim() == 0 or len(x) == 0:
        raise MeasureError("it has no samples", where=where, hint="drop empty batches")
    if _is_per_token(tensors, y) or (y.dim() == 1 and len(y) == len(x)):
        return
    remedy = ""
    if y.dim() == 0:
        remedy = ": give batches, e.g. DataLoader(dataset, batch_size=128, shuffle=True)"
    elif y.dim() == 2 and len(y) == len(x):
        remedy = ": y.squeeze(1)" if y.shape[1] == 1 else ": y.argmax(1) where y is one-hot"
        if named:
            remedy = "; an encoder–decoder needs the decoder's inputs (B, T) too"
    raise MeasureError(
        f"labels have shape {tuple(y.shape)} for inputs of shape {tuple(x.shape)}",
        where=where,
        hint="labels are (B,) class indices, (B, T) for tokens (B, T), or (B, H, W) for images "
        f"(B, C, H, W){remedy}",
    )


def _is_per_pixel(tensors: list[Tensor], y: Tensor) -> bool:
    """Whether labels are (B, H, W) for an input (B, ..., H, W)."""
    if y.dim() != 3:
        return False
    return any(x.dim() >= 4 and len(x) == len(y) and x.shape[-2:] == y.shape[-2:] for x in tensors)


def _is_per_token(tensors: list[Tensor], y: Tensor) -> bool:
    if y.dim() != 2 or y.shape[1] == 1 or y.shape not in [x.shape[:2] for x in tensors]:
        return False
    binary = (y == 0) | (y == 1)
    one_hot = binary.all() and (y.sum(dim=1) == 1).all()
    return not bool(one_hot)
