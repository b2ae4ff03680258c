"""Code of the user, imported by name."""

import pytest

from fa_core.errors import UsageError
from fa_core.option_values import import_callable

SCRIPTS = {
    "parses": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', required=True)\n"
        "p.parse_args()",
        "line 4: SystemExit: 2; parses: error: the following arguments are required: --n",
    ),
    "leaves": ("raise SystemExit('no GPU')", "line 1: SystemExit: no GPU"),
    "asks": ("\ninput('name? ')", "line 2: EOFError"),
    "skips": ("class Skipped(BaseException): ...\nraise Skipped(1)", "line 2: Skipped: 1"),
    "breaks": ("x = 1 / 0", "line 1: ZeroDivisionError: division by zero"),
    "is_no_python": ("def (:", "SyntaxError: invalid syntax (is_no_python.py, line 1)"),
    "misses": ("import not_there", "cannot import misses (No module named 'not_there')"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_fails_on_import_is_one_line_with_the_place(name, tmp_path, monkeypatch):
    text, wanted = SCRIPTS[name]
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        import_callable(f"{name}:make")
    assert wanted in str(caught.value)
