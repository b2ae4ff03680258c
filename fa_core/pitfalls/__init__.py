"""Seven pitfalls of credit-quality pipelines, each demonstrated on a run that shows it.

Imports torch through `measure`; imported by the command `pitfalls` alone.
"""
