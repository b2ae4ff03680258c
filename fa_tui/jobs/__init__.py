"""Work in progress: what is measured here, what was started beside, and what either says."""
