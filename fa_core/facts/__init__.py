"""Facts and measurements of runs, as data.

Imports no other folder of `fa_core`.
"""
