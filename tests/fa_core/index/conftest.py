"""An index of its own for every test, in use from the first file on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fa_core.formats import reading, recalling, slices
from fa_core.index import places, stamps, store


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index's folder. Files need no age to be trusted: a test that is about that asks for it."""
    folder = tmp_path / "cache" / "index"
    monkeypatch.setenv(store.VARIABLE, str(folder))
    for module, name in (
        (recalling, "FROM"),
        (recalling, "TABLE_FROM"),
        (places, "WORTHWHILE"),
        (stamps, "SETTLED_NS"),
    ):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(reading, "SLICED_FROM", 0)
    monkeypatch.setattr(slices, "SLICE", 1)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The names of the files that were decoded since the last call."""
    seen: list[str] = []

    def noted(name: str, module: object, path_of: Callable[..., object]) -> None:
        original = getattr(module, name)

        def spy(*arguments: object, **options: object) -> object:
            seen.append(Path(str(path_of(*arguments))).name)
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, spy)

    noted("_in_file", reading, lambda place, *_: place.path)
    noted("read_row", reading.run_folder, lambda folder: folder)
    noted("read_sliced", recalling, lambda path, *_: f"{path} decoded")

    def taken() -> list[str]:
        names = seen.copy()
        seen.clear()
        return names

    return taken
