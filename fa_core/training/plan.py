"""What is trained and how, in plain values without torch: recipe, runs (method × seed × sweep axes), known names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from fa_core import plugins
from fa_core.errors import UsageError
from fa_core.facts.runs import canonical_method
from fa_core.judgement.baseline import CONTROLS, FROZEN, TRAINED_BY, WITHOUT_BASELINE
from fa_core.option_values import ARCHS, check_data_set, unknown_name

OPTIMIZERS = ("adamw", "adam", "sgd")
SCHEDULES = ("cosine", "constant")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The training recipe; the defaults are the published one but for its length.

    Attributes:
        epochs: passes over the training samples.
        lr: learning rate at the start.
        weight_decay: decoupled for AdamW.
        schedule: ``"cosine"`` (to 0 over all steps) or ``"constant"``.
        batch_size: samples per step; what is left over at the end of an epoch is dropped.
        lam: λ of the penalty λ·Σ_l mean ‖f_l(h_l)‖².
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.

    Raises:
        UsageError: a value that cannot be meant.

    Source: docs/protocol.md §5 (AdamW, 1e-3, 0.01, cosine, 128; 100 epochs, 30 with penalty).
    """

    epochs: int = 30
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: Literal["cosine", "constant"] = "cosine"
    batch_size: int = 128
    lam: float = 0.0
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"

    def __post_init__(self) -> None:
        for name, chosen, known in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("schedule", self.schedule, SCHEDULES),
        ):
            if chosen not in known:
                raise unknown_name(name, chosen, known)
        for name, lowest in {"epochs": 0, "batch_size": 1, "weight_decay": 0, "lam": 0}.items():
            value = getattr(self, name)
            if not value >= lowest or math.isinf(value):
                raise UsageError(f"{name} is {value}", hint=f"give a number of at least {lowest}")
        if not self.lr > 0 or math.isinf(self.lr):
            raise UsageError(f"lr is {self.lr}", hint="give a number above 0")

    def lr_at(self, step: int, total: int) -> float:
        """Learning rate of step 0..total−1: lr·½(1 + cos(π·step/total)), or lr if constant.

        >>> Recipe(lr=0.1).lr_at(50, 100)
        0.05
        """
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1.0 + math.cos(math.pi * step / max(total, 1)))


UNPENALISED = (FROZEN, "shallow")
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
        axes: how the run differs from others of its method and seed.
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
        methods: canonical names; ``frozen`` next to rules means one frozen run by each rule, with its options.
        seeds: one run each.
        arch: built-in network name.
        data: the data SPEC.
        recipe: its ``lam`` is replaced by each of `lams`.
        lams: penalties λ; an axis if there are several or it is not 0. Frozen and shallow have none.
        widths: values of ``d``; an axis if there are several.
        depths: values of ``L``; an axis if there are several.
        arch_args: further network arguments.
        method_args: further method options; controls trained with other methods do not get them, but frozen does. The
            option ``of`` goes to controls alone.
        axes: further coordinates to put on every run.
        eval_seed: picks the evaluation batches.
    """
    plans = []
    options = dict(method_args or {})
    alone = len(methods) == 1
    # which rule trains a control: no option of a rule
    of = {} if alone or "of" not in options else {"of": options.pop("of")}
    by = {
        TRAINED_BY.get(m, m): {} if m in CONTROLS else options
        for m in methods
        if m not in WITHOUT_BASELINE
    }
    by = by or {TRAINED_BY[FROZEN]: options if alone else {}}
    trained = [
        (FROZEN, args if rule == TRAINED_BY[FROZEN] else {"of": rule, **args})
        for rule, args in (by.items() if FROZEN in methods else ())
    ]
    trained += [
        (name, options if name not in CONTROLS or alone else of if name in TRAINED_BY else {})
        for name in methods
        if name != FROZEN
    ]
    sizes = list(itertools.product(widths or (None,), depths or (None,)))
    penalties = tuple(lams) or (recipe.lam,)
    runs = [
        (method, args, lam, *size, seed)
        for method, args in trained
        for lam, size, seed in itertools.product(
            (0.0,) if method in UNPENALISED else penalties, sizes, seeds
        )
    ]
    for method, args, lam, d, L, seed in runs:
        differs = {
            "of": args.get("of") if method in TRAINED_BY else None,
            "arch": arch if arch != "resmlp" else None,
            "lam": lam if lam or (len(penalties) > 1 and method not in UNPENALISED) else None,
            "d": d if len(widths) > 1 else None,
            "L": L if len(depths) > 1 else None,
        }
        plans.append(
            RunPlan(
                method=method,
                arch=arch,
                data=data,
                seed=seed,
                recipe=msgspec.structs.replace(recipe, lam=lam),
                method_args=dict(args),
                arch_args=dict(arch_args or {})
                | {k: v for k, v in (("d", d), ("L", L)) if v is not None},
                axes={
                    **(axes or {}),
                    **{name: value for name, value in differs.items() if value is not None},
                },
                eval_seed=eval_seed,
            )
        )
    return plans


def there_already(folder: Path) -> UsageError:
    """The error for a folder that holds a run, without leave to touch it."""
    return UsageError("there is a run already", where=folder, hint="add --resume or --overwrite")


def _text(value: Any) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float)
        else f"-{value}"
        if isinstance(value, str)
        else str(value)
    )


METHODS = (
    *("bp", "fa", "dfa", "state_bridge", "credit_bridge", "ep"),
    *("fa_weights", "usf", "brsf", "frsf", "kp", "weight_mirror"),
    *("dfa_layers", "sparse_dfa", "drtp", "dtp", "pc", "local_loss", "pepita", "ff"),
    *CONTROLS,
)
"""The built-in credit rules and controls (`fa_core.methods.METHODS`)."""


def check_names(method: str, arch: str, data: str) -> None:
    """Refuse a name that nothing has.

    Args:
        method: in any spelling.
        arch: of the network.
        data: the data SPEC.

    Raises:
        UsageError: an unknown name.
    """
    name, known = canonical_method(method), [*METHODS, *sorted(plugins.plugins(plugins.METHODS))]
    if name not in known:
        raise unknown_name("method", name, known)
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    check_data_set(data)
