"""Seven pitfalls of credit-quality pipelines, demonstrated."""
