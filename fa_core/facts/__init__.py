"""Runs and methods as plain data, without judgement. Imports no other folder of `fa_core`."""
