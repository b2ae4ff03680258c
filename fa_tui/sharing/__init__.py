"""Copies, exports, and command lines that reproduce a view.

Imports `views` and `fa_core.reporting`; imported by screens.
"""
