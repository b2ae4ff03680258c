"""The published experiments as data: commands, planned runs, figures and claims.

The data are in `replication.toml` next to this module.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
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
        """Arguments of `fa-tui`, in order; each resumes where an earlier try stopped.

        Args:
            cifar10: folder of CIFAR-10.
            cifar100: folder of CIFAR-100.
            out: folder of all experiments.
            quick: one epoch of one seed, to test the folders and the machine.
        """
        places = {
            "{cifar10}": f"cifar10:{cifar10}",
            "{cifar100}": f"cifar100:{cifar100}",
            "{runs}": self.runs(out),
        }
        commands = []
        for step in self.steps:
            words = [places.get(word, word) for word in step.split()]
            if quick:
                _set_option(words, "--epochs", "1")
                _set_option(words, "--seeds", "42")
            commands.append([*words, "--resume"])
        return commands

    def plans(self) -> dict[str, RunPlan]:
        """Planned runs by the names of their folders, in the order of their seeds; a shared run is
        there once."""
        plans: dict[str, RunPlan] = {}
        for step in self.steps:
            for plan in _plans_of_step(step):
                plans[plan.name] = plan
        return dict(sorted(plans.items(), key=_seed_of))

    @property
    def stops_early(self) -> bool:
        """Whether its runs may end when a diagnostic fires."""
        return any("--stop-on" in step for step in self.steps)

    def runs(self, out: str) -> str:
        """The folder of its runs."""
        return str(Path(out, self.folder))


def _seed_of(item: tuple[str, RunPlan]) -> int:
    return item[1].seed


def _set_option(words: list[str], option: str, value: str) -> None:
    if option in words:
        words[words.index(option) + 1] = value


def _plans_of_step(step: str) -> list[RunPlan]:
    """The runs that one `train` command plans, from its options."""
    _, *words = step.split()
    given: dict[str, list[str]] = defaultdict(list)
    for option, value in zip(words[::2], words[1::2], strict=True):
        given[option[2:].replace("-", "_")] = value.split(",")
    recipe = {}
    for name in Recipe.__struct_fields__:
        if name in given and name != "lam":
            recipe[name] = given[name][0]
    return plan_runs(
        given["method"],
        [int(seed) for seed in given["seeds"]],
        arch=given["arch"][0],
        data=given["data"][0],
        recipe=msgspec.convert(recipe, Recipe, strict=False),
        lams=[float(lam) for lam in given["lam"]],
        widths=[int(width) for width in given["d"]],
        depths=[int(depth) for depth in given["L"]],
        method_args=dict(argument.split("=") for argument in given["method_arg"]),
    )


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A published number that follows from the published files (fields: see `replication.toml`)."""

    text: str
    command: str
    place: str
    published: float

    def agrees(self, here: float) -> bool:
        """Whether a number equals the published one to its published digits (at least three)."""
        mantissa, _, _ = repr(self.published).partition("e")
        digits = max(len(mantissa.replace(".", "").strip("0")), 3)
        return f"{here:.{digits - 1}e}" == f"{self.published:.{digits - 1}e}"

    def found_in(self, record: Any) -> float:
        """Its number in the JSON that the command prints.

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
    """The publication that the figures and the audit files are from."""

    title: str
    author: str
    year: int
    eprint: str

    def words(self) -> str:
        """For running text."""
        return f"{self.author}, “{self.title}”, arXiv:{self.eprint}, {self.year}."

    def bibtex(self) -> str:
        """An entry for BibTeX."""
        fields = {
            "title": self.title,
            "author": f"{{{self.author}}}",
            "year": self.year,
            "eprint": self.eprint,
        }
        listed = ", ".join(f"{name} = {{{value}}}" for name, value in fields.items())
        return f"@misc{{arxiv{self.eprint}, {listed}, archivePrefix = {{arXiv}}}}"


class Document(msgspec.Struct, frozen=True):
    """All of `replication.toml`.

    Attributes:
        without_spread: bands of figures without a published deviation, by kind of number.
        too_wide: bands so wide that the figure is only shown, by kind of number.
        experiment: the experiments, in the order in which they are best done.
        claim: numbers that follow from the published files.
        source: where all of it is published.
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
    """All experiments, in the order in which they are best done."""
    return document().experiment


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UsageError: there is none.
    """
    by_name = {one.name: one for one in experiments()}
    if name not in by_name:
        raise unknown_name("experiment", name, by_name)
    return by_name[name]
