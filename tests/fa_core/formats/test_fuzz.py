"""A damaged log gives rows, traces, problems, or one of our errors, and never anything else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fa_core.errors import FaError
from fa_core.formats import load_audits, scan
from tests.fa_core.formats import logs

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "any_s1.json"


def read_every_way(path):
    for target in (path, path.parent):
        try:
            found = scan([target])
            table = load_audits([target])
        except FaError as error:
            assert str(path.parent) in str(error)
            assert "\n" not in str(error)
            continue
        assert len(table.flags()) == len(table) == table.judgements().total()
        assert len(table) <= len(found.rows)
        for row in found.rows:
            assert row.report.verdict == row.report.check().verdict
            str(row.report)
        for trace in found.traces:
            assert [epoch.epoch for epoch in trace.epochs] == sorted(
                {epoch.epoch for epoch in trace.epochs}
            )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A log of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    scalars = {1: {"epoch": 1.0, "fa/acc": 0.5}, 2: {"epoch": 2.0, "fa/acc": 0.25}}
    made = [
        logs.put(folder / "a.csv", ",epoch,fa/acc,fa/h_0\n0,1,0.5,2\n1,2,,NaN\n"),
        logs.trainer(folder / "b"),
        logs.lines(folder / "e.jsonl", *[{"epoch": epoch, "test_acc": 0.5} for epoch in (1, 2)]),
        logs.events(folder / "c" / "events", scalars),
        logs.events(folder / "d" / "events", scalars, tensors=True),
    ]
    return [file.read_bytes() for file in made]


@quick
@given(
    st.integers(0, 4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0, 1),
)
def test_any_log_with_bytes_changed_and_cut_anywhere(path, whole, which, changes, cut):
    data = bytearray(whole[which])
    for place, byte in changes:
        data[int(place * (len(data) - 1))] = byte
    path.write_bytes(data[: int(cut * len(data))])
    read_every_way(path)
