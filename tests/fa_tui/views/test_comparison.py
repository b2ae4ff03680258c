"""What is compared with what: groups of runs, their names, where they part, on what they agree."""

import math

from msgspec.structs import replace

from fa_core.analysis.seeds import across_runs
from fa_core.formats import scan
from fa_core.report.quantities import BY_NAME
from fa_tui.session import Session
from fa_tui.views.comparison import (
    MARKED,
    MOST,
    ComparedLine,
    Group,
    are_seeds,
    column_labels,
    compared_lines,
    groups_of,
    place_of,
    spread_words,
)
from fa_tui.views.words import disambiguate
from tests.fa_core.rows import row_of as named
from tests.fa_tui.compared_runs import row_of


def test_without_marks_every_method_over_its_seeds_is_a_group(published_table):
    groups = groups_of(Session(scan([published_table]).rows))
    assert [group.name for group in groups] == ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]
    assert [len(group.rows) for group in groups] == [3] * 5


def test_two_marks_are_a_group_of_their_own_and_one_is_not():
    session = Session([row_of("bp", seed, 1.0, 2.0) for seed in range(3)])
    session = session.but(marked=frozenset({1}))
    assert [group.name for group in groups_of(session)] == ["bp"]
    session = session.but(marked=frozenset({0, 2}))
    assert groups_of(session)[0] == (MARKED, (0, 2), "", 0)


def test_of_very_many_marked_runs_the_first_are_compared():
    session = Session([named(f"bp_s{seed}") for seed in range(MOST + 5)])
    session = session.but(marked=frozenset(range(len(session))))
    assert groups_of(session)[0] == (MARKED, tuple(range(MOST)), "", 5)


def test_a_group_is_found_again_by_name_then_by_a_run_then_by_its_place():
    dfa, dfa_apart, bp = Group("dfa", (0, 1)), Group("dfa lam=0.1", (1,)), Group("bp", (2, 3))
    assert place_of(dfa, [bp, dfa], 0) == 1
    assert place_of(dfa, [bp, dfa_apart], 0) == 1
    assert place_of(dfa, [bp], 3) == 0
    assert place_of(dfa, [], 3) == 0


def test_labels_are_seeds_where_only_seeds_differ_and_numbered_where_names_repeat():
    session = Session(
        [row_of("bp", 1, 1.0), row_of("bp", 2, 1.0), row_of("bp", 1, 1.0), row_of("dfa", None, 1.0)]
    )
    assert column_labels(session, groups_of(session)[0]) == ["s1", "s2"]
    session = session.but(marked=frozenset({0, 2, 3}))
    assert column_labels(session, groups_of(session)[0]) == ["bp s1", "bp s1#2", "dfa"]


def test_runs_of_one_name_are_told_apart_by_the_axes_that_differ_then_by_where_they_are():
    def on(source, **axes):
        return replace(row_of("dfa", 42, 1.0), source=source, axes={"L": 4, **axes})

    def names(*rows):
        return disambiguate(rows)

    sweep = [on("a.json", lam=lam, d=d) for lam, d in ((0.1, 64), (0.1, 128), (0.01, 128))]
    assert names(*sweep) == ["dfa s42 d=64 λ=0.1", "dfa s42 d=128 λ=0.1", "dfa s42 d=128 λ=0.01"]
    assert names(on("a.json", d=64), on("a.json", arch="cnn", d=64)) == [
        "dfa s42",
        "dfa s42 arch=cnn",
    ]
    rare = names(on("a.json", d=64), on("a.json", d=32), on("a.json", arch="cnn", d=32))
    assert rare == ["dfa s42 d=64", "dfa s42 d=32", "dfa s42 arch=cnn d=32"]
    assert names(*sweep[:2], row_of("bp", 42, 1.0)) == ["dfa s42 d=64", "dfa s42 d=128", "bp s42"]
    assert names(on("x/main/dfa_s42"), on("x/wide/dfa_s42")) == ["dfa s42 (main)", "dfa s42 (wide)"]
    assert names(on("x/a.json"), on("x/b.json")) == ["dfa s42 (a.json)", "dfa s42 (b.json)"]
    assert names(on("x/a.json"), on("x/main/dfa_s42")) == ["dfa s42 (a.json)", "dfa s42 (main)"], (
        "not x"
    )


def test_a_spread_reads_as_in_tables_over_seeds_and_rounding_is_none():
    def said(*values):
        [spread] = across_runs([[value] for value in values])
        return spread_words(ComparedLine("number", "drift", spread, quantity=BY_NAME["drift"]))

    assert said(1.51, math.nextafter(1.51, 2)) == "1.51 ± 0.00"
    assert said(1.0, 3.0) == "2.00 ± 1.41"
    norms = across_runs([[2.0], [8.0], [math.nan]])[0]
    assert spread_words(ComparedLine("h", "0", norms)) == "4.00 (×2.7) (1 NaN/inf)"
    assert said(0.0, 0.0) == "0 ± 0" and said(2.0) == "2.000" and said(math.inf) == ""


def test_the_heading_names_the_first_layer_at_which_runs_part():
    reports = [row_of("x", 1, *norms).report for norms in ([8.0, 9.0, 10.0], [8.0, 9.5, 1000.0])]
    headings = [line.label for line in compared_lines(reports) if line.kind == "heading"]
    assert headings[0].endswith("diverge at layer 2")
    assert headings[1].endswith("diverge at block 1→2")
    assert "within ×1" in headings[2]
    assert [line.label for line in compared_lines(reports) if line.parts] == ["2", "1→2"]


def test_only_runs_of_one_network_have_a_mean():
    rows = [
        row_of("bp", 1, 1.0, 2.0),
        row_of("bp", 2, 1.0, 2.0),
        row_of("dfa", 1, 1.0, 2.0),
        row_of("bp", 3, 1.0),
    ]
    for epochs in (3, 3, 1):
        facts = {"arch": "x", "epochs_done": epochs}
        rows.append(replace(rows[0], report=replace(rows[0].report, provenance=facts)))
    session = Session(rows)
    assert are_seeds(session, (4, 5)) and not are_seeds(session, (5, 6))
    assert are_seeds(session, (0, 1))
    assert not are_seeds(session, (0, 2)) and not are_seeds(session, (0, 3))
