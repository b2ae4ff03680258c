"""What is to be trained; `fa_core.train` trains it."""
