"""Audits as the command line does: ADDRESS OUT CHECKPOINT…; says what happens."""

from __future__ import annotations

import sys
from pathlib import Path

from fa_core.engine.audit import Measuring, audit
from fa_core.engine.devices import Execution
from fa_core.engine.jobs import MeasureOptions
from fa_core.rows import AuditRow


def main(address: str, out: str, *checkpoints: str) -> None:
    rows = [
        AuditRow(source=path, key=path, method=Path(path).stem, checkpoint=path)
        for path in checkpoints
    ]
    options = MeasureOptions(data="synthetic")
    how = Measuring(
        Execution(engine="ray", address=address),
        on_event=lambda view: print(view.state.value, view.job.method, flush=True),
        on_plan=lambda todo, skipped: print("todo", todo, "skipped", skipped, flush=True),
    )
    result = audit(rows, Path(out), options, how, resume=True)
    print("interrupted" if result.interrupted else "finished", len(result.rows), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
