"""Which classes and functions a pickle would import: read from its opcodes, nothing is run."""

from __future__ import annotations

import pickletools
from pathlib import Path

PICKLES_PER_FILE = 4
"""What torch's old format puts in a row: magic number, protocol, system, then the content."""


def pickle_globals(path: Path) -> list[str]:
    """``module.name`` of every global in a pickle file that is no zip archive.

    Names that the pickle builds while it runs are not found; those that stand in it are.
    """
    found: list[str] = []
    strings: list[str] = []
    try:
        with path.open("rb") as file:
            for _ in range(PICKLES_PER_FILE):
                for opcode, argument, _ in pickletools.genops(file):
                    if opcode.name == "GLOBAL":
                        found.append(str(argument).replace(" ", "."))
                    elif opcode.name == "STACK_GLOBAL":
                        found.append(".".join(strings[-2:]))
                    elif isinstance(argument, str):
                        strings.append(argument)
    except (ValueError, OSError):
        pass
    return list(dict.fromkeys(found))
