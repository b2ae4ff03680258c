"""Settings: what the file says counts, what is wrong in it is told with line and fix, and nothing ever crashes."""

from typing import get_args

import pytest

from fa_core.errors import UnreadableInput
from fa_tui.settings import Settings, Theme, keep_theme, load_settings, settings_file
from fa_tui.terminal.themes import THEMES


@pytest.fixture
def file():
    """Where the settings file is looked for; it is not there yet."""
    settings_file().parent.mkdir(parents=True)
    return settings_file()


def messages():
    return [problem.message for problem in load_settings().problems]


def test_no_file_means_defaults_and_no_complaint():
    assert load_settings() == (Settings(), ())


def test_what_the_file_says_counts(file):
    file.write_text(
        'theme = "fa-light"\nglyphs = "ascii"\nshow = "growth"\nlive = "off"\n'
        "[thresholds]\nh_norm_explosion_ratio = 12\n"
    )
    settings, problems = load_settings()
    assert not problems
    assert (settings.theme, settings.glyphs, settings.show, settings.live) == (
        "fa-light",
        "ascii",
        "growth",
        "off",
    )
    assert settings.thresholds.h_norm_explosion_ratio == 12
    assert settings.thresholds.g_norm_floor == 1e-7


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("device = 'cpu'\ntheme = \n", "line 2: not TOML: "),
        ("\n\nthem = 'fa-dark'", "them: unknown setting; did you mean theme?"),
        ("glyphs = 7", "glyphs: expected str, got int"),
        ("live = 'sometimes'", "live: there is no 'sometimes'"),
        ("[thresholds]\n# loud\ng_norm_floor = 'x'", "thresholds.g_norm_floor: expected float"),
        ("thresholds = {g_norm_floor = 'x'}", "thresholds.g_norm_floor: expected float"),
        ("[thresholds]\nstability_drift_ceiling = nan", "thresholds: threshold stability_drift"),
        ("[thresholds]\nfloor = 1", "thresholds.floor: unknown setting"),
        ("thresholds = 3", "thresholds: expected object, got int"),
    ],
)
def test_an_error_is_one_line_and_the_defaults_are_used(file, text, what):
    file.write_text(text)
    (message,) = messages()
    assert message.startswith(f"{file}: {what}")
    assert message.endswith("; defaults are used")
    assert load_settings().settings == Settings()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "not UTF-16"),
        (b"theme = '\x80'", "not UTF-8"),
        (b"", "is a folder, not a file"),
    ],
)
def test_a_file_that_is_no_text_is_told(file, content, said):
    if content:
        file.write_bytes(content)
    else:
        file.mkdir()
    (message,) = messages()
    assert said in message


def test_the_themes_that_can_be_set_are_those_there_are():
    assert tuple(theme.name for theme in THEMES) == get_args(Theme)[1:]


def test_a_theme_is_not_written_into_a_file_that_is_no_toml(file):
    file.write_text("theme = \n")
    with pytest.raises(UnreadableInput, match="line 1: not TOML"):
        keep_theme("fa-light")
    assert file.read_text() == "theme = \n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "fa-light"\n'),
        (
            "# mine\nshow = 'growth'\ntheme = 'fa-dark'\n",
            "# mine\nshow = 'growth'\ntheme = \"fa-light\"\n",
        ),
        (
            "[thresholds]\ng_norm_floor = 1e-6 # low\n",
            'theme = "fa-light"\n\n[thresholds]\ng_norm_floor = 1e-6 # low\n',
        ),
    ],
)
def test_a_theme_that_is_chosen_is_kept_and_nothing_else_is_touched(file, before, after):
    own = file.with_name("own.toml")
    if before:
        own.write_text(before)
    file.symlink_to(own)
    assert keep_theme("fa-light") == file
    assert file.is_symlink()
    assert own.read_text() == after
    assert load_settings().settings.theme == "fa-light"
