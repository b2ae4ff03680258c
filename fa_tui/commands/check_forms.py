"""The outcome of `fa-tui check`, and its forms: lines, JSON, JUnit XML, GitHub annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

import msgspec

from fa_core.files.decode import Json
from fa_core.formats.rows import Problem
from fa_core.sanitize import one_line

PASSED, FAILED, OPEN = "passed", "failed", "undecided"

_TITLES = {FAILED: "failed", OPEN: "undecided or not measured"}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A judged run, or a checked claim.

    Attributes:
        name: of a run with its seed; of a claim its words.
        file: the file that holds it.
        outcome: `PASSED`, `FAILED` or `OPEN`.
        lines: what is said about it; none for a trustworthy and complete one.
        record: its numbers, for JSON.
    """

    name: str
    file: str
    outcome: str
    lines: list[str]
    record: Json

    def to_dict(self) -> Json:
        """The record of a run, its outcome, and the lines."""
        return {"outcome": self.outcome, **self.record, "says": self.lines}


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `check` found.

    Attributes:
        runs: the judged runs, without controls.
        claims: the checked claims.
        problems: files that could not be read.
        doubts: which runs are undecided, and why.
        summary: counts.
    """

    runs: Sequence[Case]
    claims: Sequence[Case] = ()
    problems: Sequence[Problem]
    doubts: Sequence[str] = ()
    summary: str

    @property
    def cases(self) -> list[Case]:
        """Runs, then claims; where nothing was judged, one that is open."""
        nothing = Case(name="check", file="", outcome=OPEN, lines=[self.summary], record={})
        return [*self.runs, *self.claims] or [nothing]

    @property
    def exit_code(self) -> int:
        """0 fine, 1 something failed, 3 something could not be read, 4 something is undecided, or
        nothing was judged."""
        outcomes = {case.outcome for case in self.cases}
        if self.problems:
            return 3
        if FAILED in outcomes:
            return 1
        return 0 if outcomes == {PASSED} else 4

    def to_dict(self) -> Json:
        """The record for JSON."""
        return {
            "exit_code": self.exit_code,
            "summary": self.summary,
            "runs": [case.to_dict() for case in self.runs],
            "claims": [case.record for case in self.claims],
            "problems": msgspec.to_builtins(self.problems),
        }


def text_lines(checked: Checked) -> Iterator[str]:
    """The runs that are not trustworthy, doubts, every claim, the counts."""
    for case in checked.runs:
        yield from case.lines
    yield from checked.doubts
    for claim in checked.claims:
        yield from claim.lines
    yield checked.summary


def to_junit(checked: Checked) -> str:
    """JUnit XML: a test case per run, per claim, and per file that could not be read."""
    cases = checked.cases
    failures = str(sum(case.outcome != PASSED for case in cases))
    broken = len(checked.problems)
    tests = str(len(cases) + broken)
    totals = {"tests": tests, "failures": failures, "errors": str(broken)}
    root = ElementTree.Element("testsuites", {"name": "fa-tui check", **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "audit", **totals})
    for case in cases:
        _add_case(suite, case)
    for problem in checked.problems:
        file = one_line(problem.path)
        test = ElementTree.SubElement(suite, "testcase", classname="files", name=file)
        ElementTree.SubElement(test, "error", message=one_line(problem.message))
    ElementTree.indent(root)
    # escapes of everything that is not ASCII: the encoding of stdout does not matter
    text: bytes = ElementTree.tostring(root, "us-ascii", xml_declaration=True)
    return text.decode()


def _add_case(suite: ElementTree.Element, case: Case) -> None:
    file, name = one_line(case.file), one_line(case.name)
    test = ElementTree.SubElement(suite, "testcase", classname=file, name=name)
    says = "\n".join(map(one_line, case.lines))
    if case.outcome == PASSED:
        if says:
            ElementTree.SubElement(test, "system-out").text = says
        return
    first = says.partition("\n")[0]
    ElementTree.SubElement(test, "failure", type=case.outcome, message=first).text = says


def github_lines(checked: Checked) -> Iterator[str]:
    """Workflow commands: an error per run or claim that does not pass, a notice with the counts."""
    for problem in checked.problems:
        yield _command("error", "cannot be read", one_line(problem.message), problem.path)
    for case in checked.cases:
        says = "\n".join(map(one_line, case.lines))
        if case.outcome != PASSED:
            yield _command("error", f"{case.name}: {_TITLES[case.outcome]}", says, case.file)
        elif case not in checked.claims and says:
            yield _command("warning", case.name, says, case.file)
    yield _command("notice", "fa-tui check", checked.summary)


def _command(kind: str, title: str, message: str, file: str = "") -> str:
    """A workflow command of GitHub Actions, with its escapes.

    >>> print(_command("error", "bp, seed 1", "100 %", "a:b.json"))
    ::error file=a%3Ab.json,title=bp%2C seed 1::100 %25
    """
    properties = [f"title={_property(title)}"]
    if file:
        properties.insert(0, f"file={_property(file)}")
    return f"::{kind} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(one_line(text)).replace(":", "%3A").replace(",", "%2C")
