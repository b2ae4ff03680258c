"""Where this program keeps what it remembers for a person."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def config_folder() -> Path:
    """Settings and presets: written by the person, or at their word."""
    return platformdirs.user_config_path("fa-tui")


def state_folder() -> Path:
    """What a running explorer leaves behind, such as text that no clipboard took."""
    return platformdirs.user_state_path("fa-tui")
