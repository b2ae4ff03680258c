"""Controls: the runs that methods are compared with."""

FROZEN = "frozen"
"""The control whose accuracy is the baseline."""

CONTROLS = (FROZEN, "shallow", "random_init", "random_targets")
"""What methods are compared with. They have options of their own, not those of the method they are
trained with."""

WITHOUT_BASELINE = frozenset({FROZEN, "shallow", "random_init"})
"""Controls that get no frozen baseline: two are baselines themselves, and none applies to an
untrained net."""

TRAINED_BY = {FROZEN: "dfa", "shallow": "bp", "random_targets": "bp"}
"""Controls that train by another rule, and by which one unless they say
(`fa_core.methods.controls`)."""
