"""What another process does with a run, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa_core.formats.trace import TraceEpoch
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.numbers import short
from fa_tui.session import Session

_EPOCHS_SHOWN = 4
"""Of the end of a run's trace."""


def cell_so_far(session: Session, row: int, *, ascii_only: bool = False) -> str:
    """The letters of a run in training, by the last epoch of its trace; a mark in front says that
    they are not its verdict: ``▸ab··``."""
    mark = "▸"
    if ascii_only:
        mark = ">"
    return mark + _letters(session, session.epochs_of(row)[-1:], ascii_only)


def _letters(session: Session, epochs: Sequence[TraceEpoch], ascii_only: bool) -> str:
    """The four letters of one epoch, or of none."""
    report = epochs[0].report() if epochs else DiagnosticReport()
    return report.with_thresholds(session.thresholds).cell(ascii_only=ascii_only)[1:]


def work_lines(session: Session, row: int) -> Iterator[tuple[str, str]]:
    """What is done with a run, each line with its tone; nothing where nothing is."""
    work = session.work.get(row)
    if work is None:
        return
    progress = work.progress
    if work.at_work:
        yield work.text(), "accent"
        where = "here" if progress.is_here else f"on {progress.host}"
        yield f"process {progress.pid} {where}; J lists it", "dim"
    else:
        yield work.text(), "warn"
        if progress.doing == "training":
            yield "its own command with --resume goes on with it", "dim"
    if progress.doing == "training":
        for epoch in session.epochs_of(row)[-_EPOCHS_SHOWN:]:
            yield _epoch_text(session, epoch), "dim"


def _epoch_text(session: Session, epoch: TraceEpoch) -> str:
    """``epoch 4  --··  loss 1.16  acc 0.523``."""
    parts = [f"epoch {epoch.epoch}", _letters(session, [epoch], ascii_only=False)]
    if epoch.loss is not None:
        parts.append(f"loss {short(epoch.loss)}")
    if epoch.test_acc is not None:
        parts.append(f"acc {epoch.test_acc:.3f}")
    return "  ".join(parts)
