"""The published experiments of `replication.toml`: commands, planned runs, figures, claims."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from fa_core.option_values import unknown_name
from fa_core.training.plan import Recipe, RunPlan, plan_runs


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published experiment (fields: see `replication.toml`)."""

    name: str
    title: str
    folder: str
    steps: list[str]
    published: list[list[Any]] = []
    order: list[list[str]] = []
    table: str = ""
    notes: str = ""

    def commands(
        self, cifar10: str, cifar100: str, out: str, quick: bool = False
    ) -> list[list[str]]:
        """Arguments of `fa-tui`, one list per command; each command resumes an interrupted one.

        Args:
            cifar10: folder of CIFAR-10.
            cifar100: folder of CIFAR-100.
            out: folder of all experiments.
            quick: one epoch of one seed, to test the folders and the machine.
        """
        values = {
            "{cifar10}": f"cifar10:{cifar10}",
            "{cifar100}": f"cifar100:{cifar100}",
            "{runs}": self.runs(out),
        }
        commands = []
        for step in self.steps:
            arguments = [values.get(argument, argument) for argument in step.split()]
            if quick:
                _set_option(arguments, "--epochs", "1")
                _set_option(arguments, "--seeds", "42")
            commands.append([*arguments, "--resume"])
        return commands

    def plans(self) -> dict[str, RunPlan]:
        """Planned runs by folder name, without duplicates, sorted by seed."""
        plans: dict[str, RunPlan] = {}
        for step in self.steps:
            for plan in _plans_of_step(step):
                plans[plan.name] = plan
        by_seed = sorted(plans.values(), key=attrgetter("seed"))
        return {plan.name: plan for plan in by_seed}

    @property
    def stops_early(self) -> bool:
        """Whether its runs may end when a diagnostic fires."""
        return any("--stop-on" in step for step in self.steps)

    def runs(self, out: str) -> str:
        """The folder of its runs."""
        return str(Path(out, self.folder))


def _set_option(arguments: list[str], option: str, value: str) -> None:
    if option in arguments:
        arguments[arguments.index(option) + 1] = value


def _plans_of_step(step: str) -> list[RunPlan]:
    """The runs that one `train` command plans."""
    _, *arguments = step.split()
    given: dict[str, list[str]] = defaultdict(list)
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        given[option[2:].replace("-", "_")] = value.split(",")
    recipe = {}
    for name in Recipe.__struct_fields__:
        if name in given and name != "lam":
            recipe[name] = given[name][0]
    return plan_runs(
        given["method"],
        list(map(int, given["seeds"])),
        arch=given["arch"][0],
        data=given["data"][0],
        recipe=msgspec.convert(recipe, Recipe, strict=False),
        lams=list(map(float, given["lam"])),
        widths=list(map(int, given["d"])),
        depths=list(map(int, given["L"])),
        method_args=dict(argument.split("=") for argument in given["method_arg"]),
    )


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A published number to recompute from the published files (see `replication.toml`)."""

    text: str
    command: str
    place: str
    published: float

    def agrees(self, here: float) -> bool:
        """Whether a number equals the published one to its published digits, at least three."""
        mantissa, _, _ = repr(self.published).partition("e")
        digits = max(len(mantissa.replace(".", "").strip("0")), 3)
        return f"{here:.{digits - 1}e}" == f"{self.published:.{digits - 1}e}"

    def found_in(self, record: Any) -> float:
        """The number in the JSON output of its command.

        >>> Claim("", "", "groups/method=dfa/seeds/#", 3).found_in({"groups": [{"method": "dfa",
        ...     "seeds": [1, 2]}]})
        2
        """
        for part in self.place.split("/"):
            name, picks, value = part.partition("=")
            if part == "#":
                record = len(record)
            elif picks:
                record = next(one for one in record if one[name] == value)
            else:
                record = record[int(part) if isinstance(record, list) else part]
        return record  # type: ignore[no-any-return]


class Source(msgspec.Struct, frozen=True):
    """The publication of the figures and audit files."""

    title: str
    author: str
    year: int
    eprint: str

    def citation(self) -> str:
        """The citation as text."""
        return f"{self.author}, “{self.title}”, arXiv:{self.eprint}, {self.year}."


class Document(msgspec.Struct, frozen=True):
    """The content of `replication.toml`.

    Attributes:
        without_spread: kind of number → band of figures without a published deviation.
        too_wide: kind of number → limit of the band, above which a figure is only shown.
        experiment: the experiments, in the recommended order.
        claim: numbers to recompute from the published files.
        source: the publication.
    """

    without_spread: dict[str, float]
    too_wide: dict[str, float]
    experiment: list[Experiment]
    claim: list[Claim]
    source: Source


@cache
def document() -> Document:
    """`replication.toml`, read once."""
    path = Path(__file__).with_name("replication.toml")
    return msgspec.toml.decode(path.read_bytes(), type=Document)


def experiments() -> list[Experiment]:
    """All experiments, in the recommended order."""
    return document().experiment


def experiment(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        UsageError: unknown name.
    """
    by_name = {one.name: one for one in experiments()}
    if name not in by_name:
        raise unknown_name("experiment", name, by_name)
    return by_name[name]
