"""The user's own code, named as ``module:callable`` by the user on the command line and in no other way.

A name found in a *file* (a manifest, a checkpoint) must never reach this module.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fa_core.errors import UsageError

_NAME = re.compile(r"^(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)$")


def is_callable_name(text: str) -> bool:
    """Whether a text has the form ``module:callable``.

    >>> is_callable_name("my_lab.nets:build"), is_callable_name("cifar10:/data")
    (True, False)
    """
    return _NAME.match(text) is not None


def import_callable(text: str, option: str) -> Callable[..., Any]:
    """The object that ``module:callable`` names; the current folder is searched first, as ``python`` does.

    Args:
        text: what the user typed.
        option: the option they typed it for, for messages.

    Raises:
        UsageError: not of this form, no such module, no such name in it, not callable.
    """
    match = _NAME.match(text)
    if match is None:
        raise UsageError(f"{option} {text!r} is not module:callable", hint="write e.g. my_package.my_module:make")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(match["module"])
    except ImportError as error:
        raise UsageError(
            f"{option}: cannot import {match['module']} ({error})", hint="run from its folder, or install it"
        ) from error
    finally:
        sys.path.remove(here)
    for part in match["name"].split("."):
        if not hasattr(found, part):
            raise UsageError(f"{option}: {match['module']} has no {match['name']!r}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{option}: {text} is not callable")
    return found  # type: ignore[no-any-return]
