"""The table of logged names, shared by all readers of logs and lists.

Names are compared in lower case with ``_`` for all other signs: ``val/acc``, ``Val Acc`` and
``val_acc`` are equal. The ``fa/`` of `ProtocolMonitor` and the ``_epoch`` of Lightning are left
out. A number under ``fa/`` precedes one under another name: both sides of (d) are then measured on
the same samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

_ACCURACY = ("acc", "accuracy", "top1", "top1_acc", "acc1", "top_1", "acc_1", "prec1")
HELD_OUT = ("test", "val", "valid", "validation", "eval", "dev")
_TRAINED = ("train", "training")
_PARAMETERS_GRADIENT = (
    "grad_norm",
    "gradient_norm",
    "total_grad_norm",
    "global_grad_norm",
    "grad_2_0_norm_total",
)


def _either_way(parts: Iterable[str], words: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        name for part in parts for word in words for name in (f"{part}_{word}", f"{word}_{part}")
    )


NAMES: Mapping[str, tuple[str, ...]] = {
    "epoch": ("epoch",),
    "step": ("step", "global_step", "iteration", "iter"),
    "test_acc": ("headline_acc", *_either_way(HELD_OUT, _ACCURACY), *_ACCURACY),
    "train_acc": _either_way(_TRAINED, _ACCURACY),
    "loss": ("loss", *_either_way(_TRAINED, ("loss",))),
    "residual_norms": ("residual_norms", "hidden_norms", "h_norms"),
    "bp_grad_norms": ("bp_grad_norms", "g_norms", "grad_norms"),
    "stability_layer": ("stability_layer",),
    "cross_batch_stability": (
        "cross_batch_stability",
        "cross_batch_direction_stability",
        "stability",
        "drift",
    ),
    "frozen_baseline_acc": ("frozen_baseline_acc", "frozen_acc"),
    "gamma": ("gamma", "gammas", "per_layer_cosine"),
    "intervals": ("intervals",),
    "error_norm": ("error_norm",),
    "lr": ("lr", "learning_rate", "lr_adam", "lr_adamw", "lr_sgd"),
    "seconds": ("seconds", "time", "elapsed"),
    "growth": (
        "max_per_block",
        "growth",
        "max_growth",
        "max_per_block_growth",
        "growth_per_block",
        "d1_scale_growth",
    ),
    "parameters_grad_norm": _PARAMETERS_GRADIENT,
    "depth": ("l", "depth", "n_blocks", "num_blocks", "n_layers", "num_layers"),
    "method": ("method", "method_name"),
    "seed": ("seed",),
    "notes": ("notes",),
    "verdict": ("verdict",),
}
"""Field → its names, of which the first with a value counts; a run's accuracy has one name
throughout."""

JUDGED = frozenset(
    {
        "test_acc",
        "residual_norms",
        "bp_grad_norms",
        "cross_batch_stability",
        "frozen_baseline_acc",
        "gamma",
        "growth",
    }
)
"""Fields that are measured at evaluation, not at every step."""

_OWN = "fa/"
"""Prefix of the names of `ProtocolMonitor`."""

_SAME = {
    "growth": "residual_norms",
    "parameters_grad_norm": "bp_grad_norms",
    "stability_layer": "cross_batch_stability",
    "epoch": "step",
}
"""Field → the field of which it is another form, if only roughly."""

DEEPEST = "L"
"""The layer in a name such as ``h_L_norm``."""

_RANKS = {name: (field, rank) for field, names in NAMES.items() for rank, name in enumerate(names)}
_LAYER = re.compile(r"(residual|hidden|h|bp_grad|g|gamma)_?(?:norms?_)?(\d{1,6}|l)(?:_norm)?")
_SUCCESSOR = {"d2_ref_validity": "g_l"}
_LAYERED = {"bp_grad": "bp_grad_norms", "g": "bp_grad_norms", "gamma": "gamma"}
_GAMMA_OF = re.compile(r"gamma_[a-z]+(?:_[a-z]+)*")


class Columns(NamedTuple):
    """Field → its name in the log; for numbers logged layer by layer field → layer (``"L"``: the
    last) → name."""

    whole: dict[str, str]
    layers: dict[str, dict[str, str]]


@lru_cache(maxsize=4096)
def columns_of(names: tuple[str, ...]) -> Columns:
    """The fields of an entry's or a run's names.

    >>> columns_of(("acc", "Accuracy/val", "fa/h_3", "val_loss", "gamma_dfa"))
    Columns(whole={'test_acc': 'Accuracy/val', 'gamma': 'gamma_dfa'}, layers={'residual_norms':
    {'3': 'fa/h_3'}})
    """
    columns, ranks = Columns({}, {}), dict.fromkeys(NAMES, len(_RANKS))
    for name in names:
        plain = re.sub(r"[^0-9a-z]+", "_", name.lower().removeprefix(_OWN)).strip("_")
        plain = _SUCCESSOR.get(plain, plain.removesuffix("_epoch"))
        layer = _LAYER.fullmatch(plain)
        field, rank = _RANKS.get(plain) or (
            "gamma" if not layer and _GAMMA_OF.fullmatch(plain) else "",
            len(_RANKS) - 1,
        )
        if field and rank < ranks[field]:
            columns.whole[field], ranks[field] = name, rank
        elif layer and not field:
            if layer[2] == "l":
                at = DEEPEST
            else:
                at = str(int(layer[2]))
            columns.layers.setdefault(_LAYERED.get(layer[1], "residual_norms"), {}).setdefault(
                at, name
            )
    return columns


def is_own(name: str) -> bool:
    """Whether `ProtocolMonitor` wrote a name."""
    return name.lower().startswith(_OWN)


def outdone(names: Iterable[str]) -> set[str]:
    """Names that are ignored in favour of a ``fa/`` name of the same field.

    >>> sorted(outdone(["fa/acc", "fa/step", "epoch", "val_acc", "loss"]))
    ['epoch', 'val_acc']
    """
    means = {name: _meant(name) for name in names}
    own = {field for name, field in means.items() if field and is_own(name)}
    return {name for name, field in means.items() if field in own and not is_own(name)}


def _meant(name: str) -> str:
    """The field of a name, joined by `_SAME`; empty for none."""
    columns = columns_of((name,))
    field = next(iter((*columns.whole, *columns.layers)), "")
    return _SAME.get(field, field)


def given_in(fields: Mapping[str, object]) -> Columns:
    """The fields with a value in an entry."""
    return columns_of(tuple(name for name, value in fields.items() if value is not None))


def is_measured(fields: Mapping[str, object]) -> bool:
    """Whether an entry has an accuracy, norms of the stream or their growth."""
    columns = given_in(fields)
    return not {"test_acc", "residual_norms", "bp_grad_norms", "growth"}.isdisjoint(
        (*columns.whole, *columns.layers)
    )


def is_log(names: Iterable[object]) -> bool:
    """Whether names are those of a training log: an epoch or step, and a known field."""
    columns = columns_of(tuple(name for name in names if isinstance(name, str)))
    known = {*columns.whole, *columns.layers}
    return not known.isdisjoint(("epoch", "step")) and not known.isdisjoint(
        JUDGED | {"loss", "train_acc"}
    )
