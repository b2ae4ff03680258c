"""Which data set a SPEC names.

synthetic[:alpha=1.0,input=128,train=50000,test=10000,seed=0]
cifar10:DIR   cifar100:DIR   digits[:test=360,seed=0]   npz:FILE   module:callable
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fa_core.data.cifar import load_cifar10, load_cifar100
from fa_core.data.dataset import DataSet
from fa_core.data.files import load_digits, load_npz, load_user_data
from fa_core.data.synthetic import load_synthetic
from fa_core.errors import UsageError
from fa_core.naming import unknown_name
from fa_core.user_code import is_callable_name

SPECS: Mapping[str, Callable[[str, str], DataSet]] = {
    "synthetic": load_synthetic,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "digits": load_digits,
    "npz": load_npz,
}


def load_data(spec: str, *, allow_code: bool = False) -> DataSet:
    """The data set a SPEC names.

    Args:
        spec: see the module's docstring.
        allow_code: whether ``module:callable`` may be imported: only for a SPEC that the person typed,
            never for one read from a file.

    Raises:
        UsageError: unknown name or option, or user code where none is allowed.
        UnreadableInput: the files are missing, incomplete or of the wrong layout.
    """
    name, _, rest = spec.partition(":")
    if name in SPECS:
        return SPECS[name](spec, rest)
    if not is_callable_name(spec):
        raise unknown_name("data set", name, [*SPECS, "module:callable"])
    if not allow_code:
        raise UsageError(
            f"the data set {spec!r} is the user's code, and code named by a file is never run",
            hint=f"type it yourself if you trust it: --data {spec}",
        )
    return load_user_data(spec)
