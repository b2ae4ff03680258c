"""Controls: runs for comparison with methods."""

FROZEN = "frozen"
"""The control that is the frozen baseline."""

CONTROLS = (FROZEN, "shallow", "random_init", "random_targets")
"""All controls. They have their own options, not those of their training rule."""

WITHOUT_BASELINE = frozenset({FROZEN, "shallow", "random_init"})
"""Controls without a frozen baseline: baselines themselves, and untrained nets."""

TRAINED_BY = {FROZEN: "dfa", "shallow": "bp", "random_targets": "bp"}
"""Control → default training rule (`fa_core.zoo.methods.controls`)."""
