"""What is to be trained; `fa_core.training.train` trains it."""
