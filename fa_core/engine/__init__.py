"""Jobs, worker processes, and the audit that submits the jobs and collects their reports.

A client (the command line, the explorer) imports no torch: it starts ``python -m
fa_core.engine.worker`` once per device and exchanges JSON lines with it.
"""
