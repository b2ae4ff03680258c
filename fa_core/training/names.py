"""What can be trained, by name, for whoever must know it without importing torch."""

from __future__ import annotations

from importlib.metadata import entry_points

from fa_core.naming import unknown_name
from fa_core.rows import canonical_method
from fa_core.training.plan import CONTROLS
from fa_core.user_code import is_callable_name

METHODS = ("bp", "fa", "dfa", "state_bridge", "credit_bridge", "ep", *CONTROLS)
"""The built-in credit rules and controls (`fa_core.methods.METHODS`)."""

ARCHS = ("resmlp", "vit_mini", "studentnet", "smallcnn")
"""The built-in networks (`fa_core.models.ARCHS`)."""

DATA_SETS = ("synthetic", "cifar10", "cifar100", "digits", "npz")
"""What a data SPEC may begin with (`fa_core.data.SPECS`)."""


def check_names(method: str, arch: str, data: str) -> None:
    """Refuse a name that nothing has.

    Args:
        method: in any spelling.
        arch: of the network.
        data: the data SPEC.

    Raises:
        UsageError: an unknown name.
    """
    name = canonical_method(method)
    if name not in METHODS:
        plugins = sorted(point.name for point in entry_points(group="fa_core.methods"))
        if name not in plugins:
            raise unknown_name("method", name, [*METHODS, *plugins])
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    kind, _, _ = data.partition(":")
    if kind not in DATA_SETS and not is_callable_name(data):
        raise unknown_name("data set", kind, [*DATA_SETS, "module:callable"])
