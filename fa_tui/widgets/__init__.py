"""The widgets that no package has: matrix, table, sliders, charts.

Imports `views` and `terminal`; imported by `screens`.
"""
