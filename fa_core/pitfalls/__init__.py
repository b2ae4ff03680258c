"""Seven pitfalls of credit-quality pipelines: demonstrations of each, and a search for two of them
in source code."""
