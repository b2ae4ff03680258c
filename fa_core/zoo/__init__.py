"""What is measured and trained: networks with an exposed stream, credit rules, data sets.

Imports `report` and `files`; knows nothing of measuring.
"""
