"""Find two of the pitfalls in source code, by reading it with Python's own parser; nothing is run.

- ``norm-axis``: ``x.norm(-1)``, ``torch.norm(x, -1)`` or ``vector_norm(x, -1)``: a negative order where an axis
  was meant;
- ``cosine-eps``: ``cosine_similarity``, or a ``CosineSimilarity`` module, of something named like a gradient or a
  credit signal, with the default eps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.rows import Problem

GRADIENT = re.compile(r"(^|_)(g|grads?|gradients?|credits?|delta|deltas|bp)(_|\d|$)|grad", re.IGNORECASE)
"""Names that sound like a gradient or a credit signal."""

_MODULES = frozenset({"torch", "np", "numpy", "jnp", "linalg", "LA"})
"""Owners whose ``norm`` is a function of the array, not its method."""


class Finding(msgspec.Struct, frozen=True):
    """A suspicious call.

    Attributes:
        path: the file.
        line: counted from 1.
        column: counted from 1.
        pitfall: ``"norm-axis"`` or ``"cosine-eps"``.
        code: the call as written.
        message: what it does and what to write.
    """

    path: str
    line: int
    column: int
    pitfall: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.pitfall}: {self.code}: {self.message}"


def scan_source(paths: Sequence[Path]) -> tuple[list[Finding], list[Problem]]:
    """Findings in Python files, and files that do not parse.

    Args:
        paths: ``.py`` files, or folders searched recursively (hidden folders skipped).

    Raises:
        UnreadableInput: a named path does not exist.
    """
    findings: list[Finding] = []
    problems: list[Problem] = []
    for path in _python_files(paths):
        try:
            findings += scan_text(path.read_bytes(), str(path))
        except (SyntaxError, ValueError, RecursionError, OSError) as error:  # noqa: PERF203 (files are slower)
            problems.append(Problem(str(path), f"{path}: cannot be read as Python ({error})"))
    return findings, problems


def scan_text(source: str | bytes, path: str = "<text>") -> list[Finding]:
    """Findings in one module's source, in line order.

    Raises:
        SyntaxError, ValueError: it is not Python.

    >>> [f.line for f in scan_text("n = x.norm(-1)")]
    [1]
    """
    tree = ast.parse(source, filename=path)
    clamped = _clamped_modules(tree)
    found = [
        Finding(path, node.lineno, node.col_offset + 1, pitfall, ast.unparse(node), message)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for pitfall, message in _judge(node, clamped)
    ]
    return sorted(found, key=lambda finding: (finding.line, finding.column))


def _python_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise UnreadableInput("no such file or folder", where=path)
        if path.is_file():
            yield path
            continue
        for file in sorted(path.rglob("*.py")):
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield file


def _judge(call: ast.Call, clamped: frozenset[str]) -> Iterator[tuple[str, str]]:
    name = _last_name(call.func)
    if name in ("norm", "vector_norm") and _negative(_order(call)) and not _keyword(call, "dim", "axis"):
        yield "norm-axis", "the first positional argument is the order p; for the last axis write dim=-1"
    function_clamps = name == "cosine_similarity" and len(call.args) < 4 and not _keyword(call, "eps")
    if function_clamps or name in clamped or _is_clamped_module(call.func):
        names = [word for argument in [*call.args[:2], *(k.value for k in call.keywords)] for word in _words(argument)]
        if any(GRADIENT.search(word) for word in names):
            yield "cosine-eps", "norms are clamped at eps = 1e-8; divide by the float64 norms instead"


def _clamped_modules(tree: ast.Module) -> frozenset[str]:
    """Names (``cos``, or ``cos`` of ``self.cos``) that are given a ``CosineSimilarity`` with the default eps."""
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_clamped_module(node.value))
    return frozenset(name for node in assigned for name in map(_last_name, node.targets) if name)


def _is_clamped_module(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or _last_name(node.func) != "CosineSimilarity":
        return False
    return len(node.args) < 2 and not _keyword(node, "eps")


def _last_name(node: ast.expr) -> str:
    """``cos`` of ``cos`` and of ``self.cos``; nothing of a subscript or a tuple."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _order(call: ast.Call) -> ast.expr | None:
    """The argument that `norm` takes as p: the first of ``x.norm(p)``, the second of ``torch.norm(x, p)``."""
    function = call.func
    owner = function.value if isinstance(function, ast.Attribute) else None
    of_module = owner is None or (_words(owner)[:1] or [""])[0] in _MODULES
    # there is no method of this name: its first argument is the array
    position = 1 if of_module or _last_name(call.func) == "vector_norm" else 0
    return call.args[position] if len(call.args) == position + 1 else None


def _negative(node: ast.expr | None) -> bool:
    """A literal such as -1; an order of -1 is hardly ever meant, -inf is a known one."""
    return node is not None and re.fullmatch(r"-\d+", ast.unparse(node)) is not None


def _keyword(call: ast.Call, *names: str) -> bool:
    return any(keyword.arg in names for keyword in call.keywords)


def _words(node: ast.expr) -> list[str]:
    """Every name and attribute inside an expression."""
    return [_last_name(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))]
