"""The commands of `fa-tui`, each a function ``NAME_command`` in a module of its own or with its
like. Imports none."""
