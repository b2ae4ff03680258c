"""Output for papers: the reporting form, figures, CSV and Parquet."""
