"""The text of the screens as pure functions: names, cells, axes, filters, comparisons.

Imports neither Textual nor the terminal; imported by `widgets`, `screens` and `commands`.
"""
