"""Training plans without torch: the recipe, the runs (method × seed × axes), the known names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from fa_core import option_values
from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.option_values import ARCHS, check_data_set, check_known
from fa_core.report.diagnostics import diagnostic_letters
from fa_core.report.method_style import (
    CONTROLS,
    FROZEN,
    PUBLISHED_NAMES,
    TRAINED_BY,
    WITHOUT_BASELINE,
)
from fa_core.report.names import canonical_method, key_of
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

OPTIMIZERS = ("adamw", "adam", "sgd")
SCHEDULES = ("cosine", "constant")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The training recipe; by default the published one, with fewer epochs.

    Attributes:
        epochs: passes over the training samples.
        lr: initial learning rate.
        weight_decay: decoupled for AdamW.
        schedule: ``"cosine"`` (to 0 over all steps) or ``"constant"``.
        batch_size: samples per step; an incomplete last batch of an epoch is dropped.
        lam: λ of the penalty λ·Σ_l mean ‖f_l(h_l)‖².
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.

    Raises:
        UsageError: an invalid value.

    Source: docs/protocol.md §5 (AdamW, 1e-3, 0.01, cosine, 128; 100 epochs, 30 with penalty).
    """

    epochs: int = 30
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: str = "cosine"
    batch_size: int = 128
    lam: float = 0.0
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        check_known("optimizer", self.optimizer, OPTIMIZERS)
        check_known("schedule", self.schedule, SCHEDULES)
        _check_at_least("epochs", self.epochs, 0)
        _check_at_least("batch_size", self.batch_size, 1)
        _check_at_least("weight_decay", self.weight_decay, 0)
        _check_at_least("lam", self.lam, 0)
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


def _check_at_least(name: str, value: float, lowest: int) -> None:
    if not value >= lowest or math.isinf(value):
        raise UsageError(f"{name} is {value}", hint=f"give a number of at least {lowest}")


UNPENALISED = (FROZEN, "shallow")
"""Controls without trained blocks: λ has no effect, so they are trained once, without it."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned training run.

    Attributes:
        method: canonical method name.
        arch: built-in network name.
        data: the data spec.
        seed: of weights, feedback and sample order.
        recipe: optimizer, schedule, length, λ.
        method_args: the method's own options.
        arch_args: network arguments; the others follow from the data or are the network's defaults.
        axes: differences to other runs of its method and seed.
    """

    method: str
    arch: str
    data: str
    seed: int
    recipe: Recipe = Recipe()
    method_args: Json = {}
    arch_args: Json = {}
    axes: Json = {}

    @property
    def name(self) -> str:
        """Name of the run folder.

        >>> RunPlan(method="dfa", arch="resmlp", data="synthetic", seed=42, axes={"lam": 0.01}).name
        'dfa_lam0.01_s42'
        """
        return key_of(self.method, self.axes, self.seed)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A run to train, and how.

    Attributes:
        plan: of the run.
        resume: resume an unfinished run in its folder; skip a finished one.
        overwrite: replace a run in its folder.
        stop_on: diagnostics that end the run when they fire, e.g. ``"ab"``.
        thresholds: of the diagnostics.
    """

    plan: RunPlan
    resume: bool = False
    overwrite: bool = False
    stop_on: str = ""
    thresholds: DiagnosticThresholds = PROTOCOL


def plan_runs(  # noqa: PLR0913 (the axes of a sweep)
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    arch: str,
    data: str,
    recipe: Recipe,
    lams: Sequence[float] = (),
    widths: Sequence[int] = (),
    depths: Sequence[int] = (),
    arch_args: Mapping[str, object] = {},
    method_args: Mapping[str, object] = {},
    axes: Mapping[str, object] = {},
) -> list[RunPlan]:
    """Runs of every combination; frozen-blocks runs first, since (d) of the others needs them.

    Args:
        methods: canonical names; ``frozen`` among others plans a frozen run by each rule, with its
            options.
        seeds: of the runs.
        arch: built-in network name.
        data: the data spec.
        recipe: of all runs, apart from ``lam``.
        lams: penalties λ, default the recipe's; an axis if several or not 0. Frozen and shallow
            runs have none.
        widths: values of ``d``; an axis if several.
        depths: values of ``L``; an axis if several.
        arch_args: further network arguments.
        method_args: further options of the methods and of their frozen runs. Other controls among
            methods get ``of`` only, and methods get all but ``of``.
        axes: further axes of all runs.
    """
    plans = []
    for method, method_options in _methods_with_options(methods, dict(method_args)):
        penalties = lams or (recipe.lam,)
        if method in UNPENALISED:
            penalties = (0.0,)
        combinations = itertools.product(penalties, widths or (None,), depths or (None,), seeds)
        for lam, d, L, seed in combinations:
            run_axes = dict(axes)
            if method in TRAINED_BY and "of" in method_options:
                run_axes["of"] = method_options["of"]
            if arch != "resmlp":
                run_axes["arch"] = arch
            if lam or len(penalties) > 1:
                run_axes["lam"] = lam
            network = dict(arch_args)
            for name, size, sizes in (("d", d, widths), ("L", L, depths)):
                if size is not None:
                    network[name] = size
                if len(sizes) > 1:
                    run_axes[name] = size
            plan = RunPlan(
                method=method,
                arch=arch,
                data=data,
                seed=seed,
                recipe=msgspec.structs.replace(recipe, lam=lam),
                method_args=dict(method_options),
                arch_args=network,
                axes=run_axes,
            )
            plans.append(plan)
    return plans


def _methods_with_options(methods: Sequence[str], options: Json) -> list[tuple[str, Json]]:
    """Methods and their options, frozen runs first.

    Options belong to rules, or to the only method. A control among rules gets ``of`` only, the rule
    that trains it.
    """
    if len(methods) == 1:
        return [(methods[0], options)]
    of = {}
    if "of" in options:
        of["of"] = options.pop("of")
    chosen = []
    if FROZEN in methods:
        for frozen_options in _frozen_options(methods, options):
            chosen.append((FROZEN, frozen_options))
    for name in methods:
        if name == FROZEN:
            continue
        if name not in CONTROLS:
            chosen.append((name, options))
        elif name in TRAINED_BY:
            chosen.append((name, of))
        else:
            chosen.append((name, {}))
    return chosen


def _frozen_options(methods: Sequence[str], options: Json) -> list[Json]:
    """Options of the frozen-blocks runs: one run per rule that trains one of the methods."""
    by_rule: dict[str, Json] = {}
    for name in methods:
        if name in WITHOUT_BASELINE:
            continue
        rule = TRAINED_BY.get(name, name)
        by_rule[rule] = {}
        if rule != TRAINED_BY[FROZEN]:
            by_rule[rule]["of"] = rule
        if name not in CONTROLS:
            by_rule[rule] |= options
    return list(by_rule.values()) or [{}]


def there_already(folder: Path) -> UsageError:
    """The error for a folder with an earlier run."""
    return UsageError("there is a run already", where=folder, hint="add --resume or --overwrite")


METHODS = tuple(PUBLISHED_NAMES)
"""Built-in credit rules and controls."""


def check_names(method: str, arch: str, data: str) -> None:
    """Check that the names are known.

    Args:
        method: in any spelling.
        arch: of the network.
        data: the data spec.

    Raises:
        UsageError: an unknown name.
    """
    name = canonical_method(method)
    check_known("method", name, [*METHODS, *sorted(option_values.plugins(option_values.METHODS))])
    check_known("network", arch, ARCHS)
    check_data_set(data)


def stopping_letters(text: str) -> frozenset[str]:
    """The diagnostics that may end a run before its last epoch.

    Raises:
        UsageError: other letters than a, b, c; (d) compares finished runs.
    """
    letters = diagnostic_letters(text, "--stop-on")
    if "d" in letters:
        raise UsageError(
            "--stop-on d: (d) compares a finished run with a finished frozen one",
            hint="stop on a, b or c",
        )
    return letters
