"""Jobs, worker processes, and the audit that submits the jobs and collects their reports.

A client (the command line, the explorer) imports no torch: it starts ``python -m
fa_core.audit.worker`` once per device and exchanges JSON lines with it.
"""
