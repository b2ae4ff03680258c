"""Where measuring happens: jobs, worker processes, and the audit that hands out and collects.

A client (the command line, the explorer) imports no torch: it starts ``python -m
fa_core.engine.worker`` once per device and exchanges JSON lines with it.
"""
