"""Terminal abilities, themes, keys, and painting with few bytes.

Imported by `widgets`, `screens`, the App and commands.
"""
