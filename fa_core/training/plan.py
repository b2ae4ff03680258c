"""Which runs a `train` command means: method × seed × sweep axes. Plain values, no torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fa_core.errors import UsageError
from fa_core.training.recipe import Recipe

BASELINE = "frozen"
"""The control whose accuracy is (d)'s baseline."""

CONTROLS = (BASELINE, "shallow", "random_init", "random_targets")
"""They have options of their own, which are not those of the method they stand beside."""

UNPENALISED = (BASELINE, "shallow")
"""Controls with no block in training, so that λ changes nothing: they are trained once, without it."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run that is to be trained.

    Attributes:
        method: canonical method name.
        arch: built-in network name.
        data: the data SPEC.
        seed: of weights, feedback and sample order.
        recipe: optimizer, schedule, length, λ.
        method_args: the method's own options.
        arch_args: network arguments; what they leave out follows from the data or is the network's default.
        axes: what tells the run from others of its method and seed.
        eval_seed: picks the evaluation batches.
    """

    method: str
    arch: str
    data: str
    seed: int
    recipe: Recipe = Recipe()
    method_args: dict[str, Any] = {}
    arch_args: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    eval_seed: int = 0

    @property
    def name(self) -> str:
        """The run folder's name.

        >>> RunPlan(method="dfa", arch="resmlp", data="synthetic", seed=42, axes={"lam": 0.01}).name
        'dfa_lam0.01_s42'
        """
        axes = "".join(f"_{axis}{_text(value)}" for axis, value in self.axes.items())
        return f"{self.method}{axes}_s{self.seed}"


def plan_runs(
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    arch: str,
    data: str,
    recipe: Recipe,
    lams: Sequence[float] = (),
    widths: Sequence[int] = (),
    depths: Sequence[int] = (),
    arch_args: Mapping[str, Any] | None = None,
    method_args: Mapping[str, Any] | None = None,
    axes: Mapping[str, Any] | None = None,
    eval_seed: int = 0,
) -> list[RunPlan]:
    """Every combination, the frozen-blocks runs first, since the others' (d) needs their accuracy.

    Args:
        methods: canonical names.
        seeds: one run each.
        arch: built-in network name.
        data: the data SPEC.
        recipe: its ``lam`` is replaced by each of `lams`.
        lams: penalties λ; an axis if there are several or it is not 0. Frozen and shallow have none.
        widths: values of ``d``; an axis if there are several.
        depths: values of ``L``; an axis if there are several.
        arch_args: further network arguments.
        method_args: further method options; controls trained beside other methods do not get them.
        axes: further coordinates to put on every run.
        eval_seed: picks the evaluation batches.
    """
    plans = []
    ordered = sorted(methods, key=lambda method: method != BASELINE)
    sizes = list(itertools.product(widths or (None,), depths or (None,)))
    penalties = tuple(lams) or (recipe.lam,)
    runs = [
        (method, lam, *size, seed)
        for method in ordered
        for lam, size, seed in itertools.product((0.0,) if method in UNPENALISED else penalties, sizes, seeds)
    ]
    for method, lam, d, L, seed in runs:
        chosen = dict(axes or {})
        if arch != "resmlp":
            chosen["arch"] = arch
        if lam or (len(penalties) > 1 and method not in UNPENALISED):
            chosen["lam"] = lam
        if len(widths) > 1:
            chosen["d"] = d
        if len(depths) > 1:
            chosen["L"] = L
        plans.append(
            RunPlan(
                method=method,
                arch=arch,
                data=data,
                seed=seed,
                recipe=msgspec.structs.replace(recipe, lam=lam),
                method_args=dict(method_args or {}) if method not in CONTROLS or len(methods) == 1 else {},
                arch_args=dict(arch_args or {}) | {k: v for k, v in (("d", d), ("L", L)) if v is not None},
                axes=chosen,
                eval_seed=eval_seed,
            )
        )
    return plans


def there_already(folder: Path) -> UsageError:
    """The error for a folder that holds a run nobody asked to touch."""
    return UsageError("there is a run already", where=folder, hint="add --resume or --overwrite")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"-{value}" if isinstance(value, str) else str(value)
