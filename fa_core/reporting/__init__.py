"""What goes into a paper: the reporting form as Markdown or HTML, figures as SVG, PDF and PNG, CSV and Parquet.

Names load on first use: writing a number needs no NumPy, and only a figure that is drawn needs Matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fa_core import on_first_use

if TYPE_CHECKING:
    from fa_core.reporting.figures import audit_figure, axis_figure, rendered, timeline_figure
    from fa_core.reporting.form import KINDS, reporting_form, write_report
    from fa_core.reporting.markdown_html import to_html, to_markdown
    from fa_core.reporting.records import to_csv, to_parquet

__all__ = [
    "KINDS",
    "audit_figure",
    "axis_figure",
    "rendered",
    "reporting_form",
    "timeline_figure",
    "to_csv",
    "to_html",
    "to_markdown",
    "to_parquet",
    "write_report",
]

__getattr__ = on_first_use(
    __name__,
    {
        **dict.fromkeys(("audit_figure", "axis_figure", "rendered", "timeline_figure"), "figures"),
        **dict.fromkeys(("to_csv", "to_parquet"), "records"),
        **dict.fromkeys(("to_html", "to_markdown"), "markdown_html"),
        **dict.fromkeys(("KINDS", "reporting_form", "write_report"), "form"),
    },
)
