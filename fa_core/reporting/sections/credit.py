"""Credit quality per layer, N/A with the reason where the credit was not saved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fa_core.analysis.groups import run_names
from fa_core.gain import deep_gamma
from fa_core.naming import listed
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.numbers import MISSING, brief, fixed

if TYPE_CHECKING:
    from fa_core.table import AuditTable

NOT_SAVED = "the credit signal (feedback matrices or bridge nets) is not with the numbers"

_UNTRAINED = {"random_init": "a control has no credit rule", "frozen": "frozen blocks are not trained"}
"""Control → why its layers have no credit."""

_METRICS = {
    "gamma": "Γ",
    "rho": "ρ, ε = 1e-3",
    "rho_relative": "ρ, ε = 1e-3·‖h‖",
    "nudge": "nudge, η = 0.01",
    "nudge_relative": "nudge, η = 0.01·‖h‖",
}
"""Name in the file → in the table."""


def credit_table(table: AuditTable) -> Iterator[Block]:
    """Γ, ρ and nudge of each run that saved its credit, per layer, with the deep mean named, and the null."""
    names = run_names(table)
    credits: list[Mapping[str, Any]] = [table.report(i).credit or {} for i in range(len(table))]
    rows = [
        (name, _METRICS.get(metric, metric), _shown(metric, _deep(values)), *(_shown(metric, v) for v in values))
        for name, credit in zip(names, credits, strict=True)
        for metric, values in credit.items()
        if _per_layer(values) and any(value is not None for value in values)
    ]
    if rows:
        yield _by_layer(
            ("run", "metric", "mean over l ≥ 1"),
            rows,
            "Credit quality per layer (mean over samples at each layer). nudge: change of the loss when h_l moves "
            "by η against the credit, in nats; negative is good.",
            words=2,
        )
    yield from _nulls(names, credits)
    yield from _reasons(table, names, credits)


def _by_layer(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str, words: int) -> Grid:
    width = max(map(len, rows))
    layers = (f"l = {l}" for l in range(width - len(headings)))
    return Grid(
        headings=(*headings, *layers),
        rows=tuple((*row, *([MISSING] * (width - len(row)))) for row in rows),
        caption=caption,
        words=words,
    )


def _per_layer(values: Any) -> bool:
    return (
        isinstance(values, list) and len(values) > 1 and all(v is None or isinstance(v, (int, float)) for v in values)
    )


def _deep(values: Sequence[float | None]) -> float | None:
    mean = deep_gamma({"gamma": values})
    return None if math.isnan(mean) else mean


def _shown(metric: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return MISSING
    # a loss changes by 1e-8 in a collapsed network: its sign is what counts
    return f"{brief(value, 3)}" if metric.startswith("nudge") else fixed(float(value), 4, sign=True)


def _nulls(names: Sequence[str], credits: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Deep Γ with the feedback of the training beside that with fresh feedback."""
    rows = []
    for name, credit in zip(names, credits, strict=True):
        null = credit.get("null")
        if not isinstance(null, Mapping) or not isinstance(null.get("deep_gamma_mean"), float):
            continue
        fresh = f"{fixed(null['deep_gamma_mean'], 4, sign=True)} ± {fixed(null.get('deep_gamma_std'), 4)}"
        rank = null.get("rank")
        layers: list[float | None] = null["gamma"] if _per_layer(null.get("gamma")) else []
        rows.append(
            (
                name,
                _shown("gamma", credit.get("deep_gamma")),
                fresh,
                str(null.get("draws")),
                MISSING if rank is None else brief(rank, 2),
                *(_shown("gamma", value) for value in layers),
            )
        )
    if rows:
        yield _by_layer(
            ("run", "deep Γ", "with fresh feedback", "draws", "rank"),
            rows,
            "Null: deep Γ (mean over l ≥ 1) with the feedback of the training, and with freshly drawn feedback as mean "
            "± std over draws; rank: share of draws that reach the former; then the fresh Γ per layer. A layer that "
            "drawn feedback does not reach (FA's last: its credit comes from the head) keeps its own Γ, also in the "
            "mean.",
            words=1,
        )


def _reasons(table: AuditTable, names: Sequence[str], credits: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """What is N/A, and why: one line per reason."""
    why: dict[tuple[str, str], list[str]] = {}
    for i, (name, credit) in enumerate(zip(names, credits, strict=True)):
        missing = credit.get("missing")
        if not credit:
            missing = {"gamma, rho, nudge": table.report(i).unmeasured.get("credit", NOT_SAVED)}
        stated = missing if isinstance(missing, Mapping) else {}
        for metric, reason in stated.items():
            why.setdefault((_in_words(metric), str(reason)), []).append(name)
        if not any("gamma" in metric for metric in stated) and (where := _gaps(credit.get("gamma"))):
            reason = _UNTRAINED.get(str(table.method[i]), "no credit there, or a gradient of norm 0")
            why.setdefault((f"Γ and what follows it at {where}", reason), []).append(name)
    said = tuple(f"{metric}: N/A for {listed(runs)}: {reason}." for (metric, reason), runs in why.items())
    if len(said) > 1:
        yield Bullets(said)
    elif said:
        yield Paragraph(said[0])


def _gaps(values: Any) -> str:
    """The layers without a value, e.g. ``l ≥ 1``; ``""`` if there are none."""
    if not _per_layer(values):
        return ""
    gaps = [l for l, value in enumerate(values) if value is None]
    if len(gaps) > 1 and gaps == list(range(gaps[0], len(values))):
        return "every layer" if gaps[0] == 0 else f"l ≥ {gaps[0]}"
    return f"l = {', '.join(map(str, gaps))}" if gaps else ""


def _in_words(metrics: str) -> str:
    return metrics.replace("gamma", "Γ").replace("rho", "ρ")
