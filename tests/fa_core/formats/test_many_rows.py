"""Rows of big tables, made when they are looked at, are like a list of rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from fa_core.formats import reading, scan, slices
from fa_core.formats.many_rows import ManyRows, column_of
from fa_core.formats.sliced import SlicedRows
from fa_core.formats.stored_row import StoredRow
from fa_core.formats.write import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ManyRows:
    """Three rows of a small file between tables of four."""
    monkeypatch.setattr(slices, "SLICE", 1)
    for name, count in (("1.json", 4), ("2.json", 3), ("3.json", 4)):
        some = [_row("dfa", seed, lam=seed / 10 if name == "2.json" else None) for seed in range(count)]
        write_audit_table(tmp_path / name, some)
    monkeypatch.setattr(reading, "SLICED_FROM", (tmp_path / "2.json").stat().st_size + 1)
    found = scan([tmp_path]).rows
    assert isinstance(found, ManyRows)
    return found


def _row(method: str, seed: int, lam: float | None = None) -> AuditRow:
    report = DiagnosticReport(residual_norms=[1.0, 2.0 + seed], bp_grad_norms=[1.0, 1.0])
    axes = {} if lam is None else {"lam": lam}
    return AuditRow(source="", key="", method=method, seed=seed, report=report, axes=axes)


def test_they_come_in_the_order_of_the_files_and_can_be_counted_from_the_end(rows: ManyRows) -> None:
    assert [len(part) for part in rows.parts] == [4, 3, 4]
    assert [row.seed for row in rows] == [row.seed for row in rows[:]] == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]
    assert (rows[-1].key, rows[6].axes, rows[6].seed) == ("dfa_s3", {"lam": 0.2}, 2)
    with pytest.raises(IndexError):
        rows[11]


def test_a_row_is_made_anew_whenever_it_is_looked_at_and_equals_itself(rows: ManyRows) -> None:
    assert isinstance(rows[0], StoredRow)
    assert rows[0] is not rows[0]
    assert rows[0] == rows[0]
    assert rows == list(rows)
    assert rows != list(rows)[1:]


@pytest.mark.parametrize("name", ["source", "key", "method", "seed", "checkpoint", "axes"])
def test_a_column_holds_what_the_rows_say(rows: ManyRows, name: str) -> None:
    assert column_of(rows, name) == column_of(list(rows), name) == [getattr(row, name) for row in rows]


def test_no_row_is_made_for_a_column_or_a_table(rows: ManyRows, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Iterator[AuditRow]:
        raise AssertionError

    expected = AuditTable.from_rows(list(rows))
    monkeypatch.setattr(SlicedRows, "__getitem__", none)
    monkeypatch.setattr(SlicedRows, "__iter__", none)
    table = AuditTable.from_rows(rows)
    assert column_of(rows, "seed") == table.seed.tolist() == expected.seed.tolist()
    assert table.h_L.tolist() == expected.h_L.tolist()
    assert table.source.tolist() == expected.source.tolist()


def test_a_column_of_one_object_takes_the_room_of_one(rows: ManyRows) -> None:
    table = AuditTable.from_rows(ManyRows(rows.parts[:1]))
    assert table.source.strides == table.checkpoint.strides == table.axes.strides == (0,)
    assert table.select([2, 0]).source.tolist() == [rows[0].source] * 2


def test_sent_elsewhere_they_are_plain_rows(rows: ManyRows) -> None:
    sent = pickle.loads(pickle.dumps(rows))
    assert type(sent) is list
    assert sent == rows
    assert type(sent[0]) is AuditRow


def test_some_of_the_rows_are_a_list_and_each_is_found_from_either_end(rows: ManyRows) -> None:
    for some in (rows, rows.parts[1]):
        every = list(some)
        assert some[1:3] == every[1:3]
        assert some[::-2] == every[::-2]
        assert [some[place] for place in range(-len(some), len(some))] == every * 2
        with pytest.raises(IndexError):
            some[-len(some) - 1]
