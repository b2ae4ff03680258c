"""What goes into a paper: the reporting form as Markdown or HTML, figures as SVG, PDF and PNG, CSV
and Parquet."""
