"""What the distribution is called, what it may ask to be installed, and how it is described."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fa_core
from fa_core.errors import EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(fa_core.__file__).parents[1]
SOURCES = sorted([*ROOT.glob("fa_core/**/*.py"), *ROOT.glob("fa_tui/**/*.py")])
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("sample_runs/*.md")])
INSTALL = re.compile(r"pip install ([^`\n]*)")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def extras(project):
    return {
        one
        for name, them in project["optional-dependencies"].items()
        if name not in ("dev", "docs")
        for one in them
    }


def test_the_name_and_the_version(project):
    assert project["name"] == "fa-audit"
    assert project["scripts"] == {"fa-tui": "fa_tui.__main__:main"}
    assert project["version"] == fa_core.__version__


def test_a_hint_for_a_missing_package_asks_for_what_pyproject_asks_for(project):
    assert set(EXTRAS.values()) == extras(project)
    assert all(
        re.match(rf"{re.escape(package)}[<>=]", requirement)
        for package, requirement in EXTRAS.items()
    )


def test_no_line_installs_this_project_from_an_index(project):
    found = [
        (file, line)
        for file in [*SOURCES, *PAGES]
        for line in INSTALL.findall(file.read_text(encoding="utf-8"))
    ]
    assert found
    for file, line in found:
        commands = line.split("&&")[0]
        assert not re.search(r"\bfa[-_](tui|audit)\b", commands), f"{file}: {line}"
        required = re.findall(r"'([a-z][a-z-]*[<>=][^']*)'", commands)
        assert set(required) <= extras(project), f"{file}: {line}"


def test_every_file_of_the_lock_has_a_hash_and_its_versions_are_those_of_the_constraints():
    entries = re.split(r"\n(?=[a-z])", (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert all(" --hash=sha256:" in entry for entry in entries)
    locked = {one.name: one for one in (Requirement(entry.split("\\")[0]) for entry in entries)}
    on = {"python_version": "3.11", "sys_platform": "linux"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line[:1].isalpha()]
    pins = [
        pin
        for pin in pins
        if pin.name in locked and (pin.marker is None or pin.marker.evaluate(on))
    ]
    assert {"torch", "textual", "ray", "pytest"} <= {pin.name for pin in pins}
    for pin in pins:
        (version,) = locked[pin.name].specifier
        assert pin.specifier.contains(version.version), pin
