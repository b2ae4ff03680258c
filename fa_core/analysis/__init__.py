"""Analyses of a set of runs: pure functions over an `AuditTable`, or over traces. No torch, no terminal."""

from fa_core.analysis.comparison import LayerSpread, across_runs, first_parting
from fa_core.analysis.flips import Plateau, VerdictCurve, flip_points, plateau, verdict_curve
from fa_core.analysis.groups import Family, families, split_groups, varying_axes
from fa_core.analysis.margins import Coverage, Margin, RunMargins, coverage, margins_to_flip, rooms
from fa_core.analysis.partial import Evidence, PartialAudit, partial_audit, with_growth_bound
from fa_core.analysis.replay import Replay
from fa_core.analysis.seeds import SeedGroup, SeedTable, Stat, over_seeds
from fa_core.analysis.sensitivity import Sensitivity, Spread, sensitivities, sensitivity
from fa_core.analysis.timeline import (
    EarlyStop,
    EpochPoint,
    MethodTimeline,
    Timeline,
    by_method,
    frozen_baselines,
    timeline,
    timelines,
)
from fa_core.analysis.utility import Strategy, Utility, decision_utility
from fa_core.diagnostics import DIAGNOSTICS, Diagnostic
from fa_core.gain import backward_gain, cause_of_floor, deep_gamma

__all__ = [
    "DIAGNOSTICS",
    "Coverage",
    "Diagnostic",
    "EarlyStop",
    "EpochPoint",
    "Evidence",
    "Family",
    "LayerSpread",
    "Margin",
    "MethodTimeline",
    "PartialAudit",
    "Plateau",
    "Replay",
    "RunMargins",
    "SeedGroup",
    "SeedTable",
    "Sensitivity",
    "Spread",
    "Stat",
    "Strategy",
    "Timeline",
    "Utility",
    "VerdictCurve",
    "across_runs",
    "backward_gain",
    "by_method",
    "cause_of_floor",
    "coverage",
    "decision_utility",
    "deep_gamma",
    "families",
    "first_parting",
    "flip_points",
    "frozen_baselines",
    "margins_to_flip",
    "over_seeds",
    "partial_audit",
    "plateau",
    "rooms",
    "sensitivities",
    "sensitivity",
    "split_groups",
    "timeline",
    "timelines",
    "varying_axes",
    "verdict_curve",
    "with_growth_bound",
]
