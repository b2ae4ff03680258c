"""Many runs, as files hold them: a row per run, the table over rows, traces over epochs, and the
readers and writers of every format, recognised by content, not by name.

Imports `report` and `files`, and no torch.
"""

from fa_core.formats.log_columns import given_columns
from fa_core.formats.scan import Scan, load_audits, scan, scan_again
from fa_core.formats.trace import Trace, TraceEpoch

__all__ = [
    "Scan",
    "Trace",
    "TraceEpoch",
    "given_columns",
    "load_audits",
    "scan",
    "scan_again",
]
