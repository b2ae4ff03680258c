"""All sentences about a judged run.

Imports `facts` and `judgement`; used by all front ends.
"""
