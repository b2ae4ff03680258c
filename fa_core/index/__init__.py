"""What was read before and has not changed since: an index in the user's cache folder.

It saves work and holds nothing that is not elsewhere: it may be deleted at any moment, and what cannot be read
of it, or was written by other code, is as if it were not there. Files in it are replaced as a whole, so
several programs may use it at once. ``FA_TUI_INDEX=off`` does without; ``FA_TUI_INDEX=FOLDER`` keeps it elsewhere.
"""
