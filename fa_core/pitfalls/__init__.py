"""Seven pitfalls of credit-quality pipelines, each with a runnable demonstration.

Imports torch through `measure`; imported by the command `pitfalls` alone.
"""
