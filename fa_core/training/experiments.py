"""The published experiments of `replication.toml`, as commands."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from fa_core.option_values import unknown_name


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published experiment (fields: see `replication.toml`)."""

    name: str
    title: str
    folder: str
    steps: list[str]

    def commands(self, cifar10: str, cifar100: str, out: str) -> list[list[str]]:
        """Arguments of `fa-tui`, one list per command; each command resumes an interrupted one.

        Args:
            cifar10: folder of CIFAR-10.
            cifar100: folder of CIFAR-100.
            out: folder of all experiments.
        """
        values = {
            "{cifar10}": f"cifar10:{cifar10}",
            "{cifar100}": f"cifar100:{cifar100}",
            "{runs}": str(Path(out, self.folder)),
            "{audit}": str(Path(out, f"{self.name}.json")),
        }
        commands = []
        for step in self.steps:
            arguments = [values.get(argument, argument) for argument in step.split()]
            commands.append([*arguments, "--resume"])
        return commands


@cache
def experiments() -> list[Experiment]:
    """All experiments, in the recommended order."""
    text = Path(__file__).with_name("replication.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, list[Experiment]])["experiment"]


def experiment(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        UsageError: unknown name.
    """
    by_name = {one.name: one for one in experiments()}
    if name not in by_name:
        raise unknown_name("experiment", name, by_name)
    return by_name[name]
