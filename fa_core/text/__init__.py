"""Every sentence about a judged run, once.

Imports `facts` and `judgement`; every surface formats what it says.
"""
