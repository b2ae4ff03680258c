"""Names of methods as papers write them."""

from __future__ import annotations

from collections.abc import Mapping

from fa_core.report.method_style import known_method

PUBLISHED_NAMES: Mapping[str, str] = {
    "bp": "BP",
    "fa": "FA",
    "dfa": "DFA",
    "state_bridge": "State Bridge",
    "credit_bridge": "Credit Bridge",
    "ep": "EP",
    "fa_weights": "FA (weights)",
    "usf": "uSF",
    "brsf": "brSF",
    "frsf": "frSF",
    "kp": "Kolen–Pollack",
    "weight_mirror": "Weight Mirror",
    "dfa_layers": "DFA (layers)",
    "sparse_dfa": "Sparse DFA",
    "drtp": "DRTP",
    "dtp": "DTP",
    "pc": "PC",
    "local_loss": "Local Loss",
    "pepita": "PEPITA",
    "ff": "Forward-Forward",
    "frozen": "frozen blocks",
    "shallow": "shallow",
    "random_init": "random init",
    "random_targets": "random targets",
}
"""Canonical name → name in print: the keys of `fa_core.zoo.methods.METHODS`, without torch."""


def published_name(method: str) -> str:
    """A method's name in print; a name that is not known stays as it is.

    >>> published_name("state_bridge"), published_name("dfa_penalty"), published_name("mine")
    ('State Bridge', 'DFA penalty', 'mine')
    """
    known = known_method(method)
    if not known:
        return method
    rest = method.removeprefix(known).strip("_- ")
    return f"{PUBLISHED_NAMES[known]} {rest}".strip()
