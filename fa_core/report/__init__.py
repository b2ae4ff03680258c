"""One run: its numbers and names (facts), what follows from them (judgement), and every sentence
about it (text).

Imports `files` alone of the other folders, and no torch. A module of facts imports none of
judgement, and one of judgement none of text.
"""
