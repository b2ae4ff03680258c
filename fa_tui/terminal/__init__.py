"""What the terminal can show, how it is coloured, and how few bytes reach it.

Knows of audits only the colours of methods; imported by `widgets`, `screens`, the App and commands.
"""
