"""Typed option values: hints for unknown names, specs, import of code by name; and
what other packages add to their names: methods, networks, data sets, formats."""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import random
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.files.opening import is_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METHODS, MODELS, DATA, FORMATS = (
    "fa_core.methods",
    "fa_core.models",
    "fa_core.data",
    "fa_core.formats",
)
"""The entry-point groups, described in docs/extend.md."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of the installed packages."""
    # 8 ms, which the explorer's start does not need
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint) -> Any:
    """Import an entry point. The name must come from the user, never from a file.

    Raises:
        UsageError: it does not import.
    """
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"does not import ({type(error).__name__}: {error})", where=place(point)
        ) from error


def place(point: EntryPoint) -> str:
    """An entry point's location, for messages."""
    return f"entry point {point.name} = {point.value}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name.

    >>> str(unknown_name("method", "dfaa", ["bp", "dfa"]))
    "unknown method 'dfaa'; did you mean dfa? known: bp, dfa"
    """
    return UsageError(f"unknown {kind} {name!r}", hint=nearest(name, known))


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Refuse an unknown name.

    Raises:
        UsageError: as `unknown_name` says.
    """
    if name not in known:
        raise unknown_name(kind, name, known)


_LONG = 200
"""Characters of two names together that are compared for a hint."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: a similar known one, and all known ones in order; of a file of
    the user's code, what to write instead.

    >>> nearest("resmpl", ["vit_mini", "resmlp"])
    'did you mean resmlp? known: vit_mini, resmlp'
    >>> nearest("own/nets.py:Net", [])
    'there is no own/nets.py'
    """
    file, _, wanted = name.partition(":")
    if file.endswith(".py"):
        return _as_module(file, wanted)
    names = list(known)
    # of names from files that are no slip of the pen, quadratic in their length
    alike = [each for each in names if len(name) + len(each) < _LONG]
    close = difflib.get_close_matches(name, alike, n=1, cutoff=0.51)
    hint = f"known: {', '.join(names) or 'none'}"
    if close:
        return f"did you mean {close[0]}? {hint}"
    return hint


def _as_module(file: str, wanted: str) -> str:
    """How code in a file is named, as a hint."""
    if not is_file(file):
        return f"there is no {file}"
    *folders, module = Path(os.path.relpath(file)).with_suffix("").parts
    name = f"{module}:{wanted or 'NAME'}"
    if ".." in folders:
        return f"write {name} from its folder"
    return f"write {'.'.join([*folders, name])}"


_NAME = re.compile(r"^(?!.*\.py:)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")


def is_callable_name(text: str) -> bool:
    """Whether a text has the form ``module:callable``.

    >>> is_callable_name("my_lab.nets:build"), is_callable_name("cifar10:/data")
    (True, False)
    """
    return _NAME.match(text) is not None


ARCHS = (
    "resmlp",
    "resmlp_wide",
    "vit_mini",
    "studentnet",
    "smallcnn",
    "small_resnet",
    "resnet56",
    "resnet20",
)
"""The built-in networks, as in `fa_core.zoo.models.ARCHS`, without importing torch."""

LIBRARIES = ("timm", "torchvision", "hf")
"""Prefixes of names in ``--model``, besides the user's modules."""


def network_spec(text: str) -> tuple[str, str, Json]:
    """Parse ``--model``: one of `LIBRARIES` or ``""``, the name, and keyword arguments (none for
    ``hf``).

    Raises:
        UsageError: arguments other than ``key=literal``, or a name neither ``module:callable`` nor
            known.

    >>> network_spec("my_lab.nets:build(depth=4, name='x')")
    ('', 'my_lab.nets:build', {'depth': 4, 'name': 'x'})
    >>> network_spec("timm:vit_tiny_patch16_224"), network_spec("hf:runs/gpt2 (old)")
    (('timm', 'vit_tiny_patch16_224', {}), ('hf', 'runs/gpt2 (old)', {}))
    """
    kind, _, rest = text.partition(":")
    if kind == "hf" and rest:
        return kind, rest, {}
    if kind not in LIBRARIES:
        kind, rest = "", text
    name, bracket, inside = map(str.strip, rest.partition("("))
    try:
        call = ast.parse(f"f({inside or ')'}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        args = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
        if "" in args or len(args) < len(call.keywords) or (bracket and not inside):
            raise ValueError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise UsageError(
            f"{text!r}: its arguments are no key=value pairs of literals",
            hint=f"write e.g. {name or 'my_lab.nets:build'}(depth=4, name='x')",
        ) from None
    if not (kind or is_callable_name(name) or name in ARCHS or name in plugins(MODELS)):
        known = [*ARCHS, *plugins(MODELS), *map("{}:…".format, LIBRARIES)]
        raise UsageError(
            f"{name!r} is neither a known network nor module:callable", hint=nearest(name, known)
        )
    return kind, name, args


LOSSES = ("ce", "bce", "mse")
"""Names of losses, as in `fa_core.measure.loss`, without importing torch."""

DATA_SETS = ("synthetic", "cifar10", "cifar100", "imagefolder", "digits", "npz")
"""Names of data specs, as in `fa_core.zoo.data.DATA_LOADERS`, without importing torch."""


def is_drawn(spec: str) -> bool:
    """Whether a data SPEC is the synthetic task, whose samples its text alone decides.

    >>> is_drawn("synthetic:alpha=0.5"), is_drawn("synthetic_data:load")
    (True, False)
    """
    return spec.partition(":")[0] == "synthetic"


def split_place(text: str) -> tuple[str, str]:
    """Split a data SPEC into its folder and its options with their first comma.

    >>> split_place("/data/a,b,mean=0.5,raw"), split_place("/data/cifar")
    (('/data/a,b', ',mean=0.5,raw'), ('/data/cifar', ''))
    """
    # no data set has as many options; without a limit the time is quadratic
    options = re.findall(r"(?:,(?:raw|\w+=[^,]*)){,9}$", text)[0]
    return text.removesuffix(options), options


def check_known_or_code(kind: str, text: str, known: Iterable[str]) -> None:
    """Refuse a text that is neither a known name nor ``module:callable``.

    Raises:
        UsageError: naming what is known.
    """
    if not is_callable_name(text):
        check_known(kind, text, [*known, "module:callable"])


def check_data_set(spec: str) -> None:
    """Refuse a data SPEC that is neither one of `DATA_SETS`, a plugin, nor ``module:callable``.

    Raises:
        UsageError: with a similar name in the hint.
    """
    if not is_callable_name(spec):
        known = [*DATA_SETS, *plugins(DATA), "module:callable"]
        check_known("data set", spec.partition(":")[0], known)


def import_callable(text: str) -> Callable[..., Any]:
    """Import ``module:callable``; the current folder is searched first, like ``python`` does.

    Must never be called with a name from a *file* (a manifest, a checkpoint).

    Args:
        text: typed by the user; `is_callable_name` holds of it.

    Raises:
        UsageError: no such module or name, not callable, or an import that fails, exits, or reads
            arguments or input.
    """
    name, _, wanted = text.partition(":")
    module = _imported(name, wanted)
    try:
        found: Callable[..., Any] = attrgetter(wanted)(module)
    except AttributeError:
        raise UsageError(f"{name} has no {wanted!r}") from None
    if not callable(found):
        raise UsageError(f"{text} is not callable")
    return found


_SOURCES: dict[str, float] = {}
"""Files that `import_callable` executed → when they were changed last."""


DRAWING: set[str] = set()
"""Modules that drew random numbers while `import_callable` imported them, and set no seed."""


def _generators() -> tuple[object, list[object]]:
    """The seed of torch, and the states of all global generators of what is imported."""
    torch, numpy = map(sys.modules.get, ("torch", "numpy"))
    states: list[object] = [random.getstate()]
    if numpy:
        _, keys, place, *_ = numpy.random.get_state()
        states += [keys.tolist(), place]
    if torch:
        states.append(torch.get_rng_state().tolist())
    return torch and torch.initial_seed(), states


@contextmanager
def _noticed(name: str) -> Iterator[None]:
    """Enter a module that draws random numbers in the body, which imports it, in `DRAWING`."""
    is_new, (seed, states) = name not in sys.modules, _generators()
    yield
    seed_now, states_now = _generators()
    if is_new and seed == seed_now and states != states_now:
        DRAWING.add(name)


def has_changed_sources() -> bool:
    """Whether a file that `import_callable` executed was changed since, or is gone."""
    return _times(_SOURCES) != _SOURCES


def _times(paths: Iterable[str]) -> dict[str, float]:
    return {path: Path(path).stat().st_mtime for path in paths if Path(path).exists()}


def _imported(name: str, wanted: str) -> ModuleType:
    """Import a module of the user as a script without arguments and input would see it.

    Raises:
        UsageError: what its import raised, with the file and line.
    """
    before = sys.argv, sys.stdin
    here = str(Path.cwd())
    words = StringIO()
    known = {*sys.modules}
    sys.path.insert(0, here)
    sys.argv = [name]
    sys.stdin = StringIO()
    try:
        with redirect_stderr(words), _noticed(name):
            module = importlib.import_module(name)
        new = map(sys.modules.get, sys.modules.keys() - known)
        paths = [getattr(one, "__file__", None) for one in new]
        _SOURCES.update(_times(filter(None, paths)))
        return module
    except ImportError as error:
        hint = "run from its folder, or install it"
        for file in Path().glob(f"*/{name.replace('.', '/')}.py"):
            hint = _as_module(str(file), wanted)
        raise UsageError(f"cannot import {name} ({error})", hint=hint) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # the first frame is this function's
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame for frame in frames if "importlib" not in frame.filename]
        where = ""
        for frame in lines[1:2]:
            where = f", {frame.filename} line {frame.lineno}"
        said = [str(error)]
        if isinstance(error, SystemExit):
            said += words.getvalue().splitlines()[-1:]
        reason = "; ".join(said)
        what = " ".join(f"{type(error).__name__}: {reason}".split())
        raise UsageError(
            f"importing {name} fails{where}: {what}",
            hint='put what it runs as a script below if __name__ == "__main__":',
        ) from error
    finally:
        sys.argv, sys.stdin = before
        sys.path.remove(here)
        sys.stderr.write(words.getvalue())
