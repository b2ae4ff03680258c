"""What goes into a paper: the reporting form as Markdown or HTML, SVG figures, CSV and Parquet."""

from fa_core.reporting.axis_figure import axis_figure
from fa_core.reporting.figures import audit_figure
from fa_core.reporting.form import reporting_form
from fa_core.reporting.html import to_html
from fa_core.reporting.markdown import to_markdown
from fa_core.reporting.records import records, to_csv, to_parquet
from fa_core.reporting.timeline_figure import timeline_figure
from fa_core.reporting.write import KINDS, write_report

__all__ = [
    "KINDS",
    "audit_figure",
    "axis_figure",
    "records",
    "reporting_form",
    "timeline_figure",
    "to_csv",
    "to_html",
    "to_markdown",
    "to_parquet",
    "write_report",
]
