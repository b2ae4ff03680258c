"""The parts of the training loop; `fa_core.train` puts them together."""
