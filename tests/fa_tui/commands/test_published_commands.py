"""The commands of docs/cifar.md."""

import re
import shlex

import pytest

from fa_tui import typer_app
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "cifar.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"^    fa-tui (.*)$", PAGE, re.MULTILINE))))
def test_a_published_experiment_is_commands_that_are_taken_and_go_on(line):
    name, *words = shlex.split(line)
    command = typer_app.command_of([name]).commands[name]
    assert command.make_context(name, words).params["resume"]
