"""What a run is and what was measured on it, as data.

Imports no other folder of `fa_core`; any folder may import it.
"""
