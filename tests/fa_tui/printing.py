"""What a command prints where it ends with the expected code."""

import json

from fa_tui.cli import main


def ran(capsys, words, code):
    """What it printed on stdout and on stderr."""
    assert main([*map(str, words)]) == code
    return capsys.readouterr()


def printed(capsys, *words, code=0):
    """What it prints on stdout."""
    return ran(capsys, words, code).out


def printed_json(capsys, *words, code=0):
    """What it prints as JSON."""
    return json.loads(printed(capsys, *words, "--format", "json", code=code))


def complaint(capsys, *words, code=2):
    """What it prints on stderr."""
    return ran(capsys, words, code).err


def refusal(capsys, *words, code=2):
    """Its one line on stderr, with nothing on stdout."""
    out, err = ran(capsys, words, code)
    assert (out, err.count("\n")) == ("", 1)
    return err
