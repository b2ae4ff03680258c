"""Runs and methods as plain data: no judgement and no sentences. Imports no other folder of `fa_core`."""
