"""Every surface says the same of a run: letters, judgement, counts and words."""

import contextlib
import csv
import io
import itertools
import json
import math
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.analysis.difference import differences
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivity
from fa_core.analysis.utility import decision_utility
from fa_core.formats import Trace, TraceEpoch
from fa_core.formats.table import AuditTable
from fa_core.report.beside import failure_mode
from fa_core.report.diagnostic_record import range_text, records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS, mask_of
from fa_core.report.method_style import method_style
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.report.verdict_text import flips_of, flips_texts
from fa_core.reporting.blocks import to_html, to_markdown
from fa_core.reporting.figures import Markers
from fa_core.reporting.form import first_page, paper_tables
from fa_tui.commands import check_forms
from fa_tui.commands.check import _first_reading
from fa_tui.commands.verdict_table import print_rows, record
from fa_tui.session import Session
from fa_tui.views.comparison import Group, agreement
from fa_tui.views.differences import difference_grid
from fa_tui.views.filters import Filter
from fa_tui.views.glyphs import UNICODE
from fa_tui.views.looks import letter_tone
from fa_tui.views.words import flip_text
from fa_tui.widgets.detail import RunPage
from fa_tui.widgets.run_cells import verdict_row
from tests.fa_core.analysis.runs import timeline
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import stepped

FACES = ("not measured", "passes", "fires", "undecided")
STYLE = method_style("dfa")
TONES = {"not measured": "dim", "passes": "text", "fires": "bad", "undecided": "warn"}
MARKS = {"walk-back": "✗", "undecided": "~", "trustworthy": "✓", "not measured": "?"}


def states_of(report, limits):
    """Slow reference, by the definition of docs/protocol.md."""
    found = {}
    for letter, one in DIAGNOSTICS.items():
        number, limit = report.numbers[letter], one.limit(limits)
        ends = (number, *(report.interval(letter) or ()))
        if letter in report.nonfinite:
            found[letter] = "fires"
        elif number is None:
            found[letter] = "not measured"
        else:
            fire = [end > limit if one.fires_above else end < limit for end in ends]
            passes = "undecided" if letter in report.inconclusive else "passes"
            found[letter] = "fires" if all(fire) else "undecided" if any(fire) else passes
    return found


def judgement_of(states):
    for state, judgement in (("fires", "walk-back"), ("undecided", "undecided")):
        if state in states.values():
            return judgement
    return "trustworthy" if "passes" in states.values() else "not measured"


def letters(states, state):
    return "".join(letter for letter in LETTERS if states[letter] == state)


# a coarse grid, so that numbers, ends and limits often meet
grid = st.integers(1, 9).map(lambda tenths: tenths / 10)
ends = st.tuples(grid, grid).map(lambda pair: tuple(sorted(pair)))
number = st.none() | grid | st.sampled_from([math.nan, math.inf])
reports = st.builds(
    DiagnosticReport,
    method_name=st.just("dfa"),
    residual_norms=number.map(lambda growth: [] if growth is None else [1.0, growth]),
    bp_grad_norms=number.map(lambda norm: [] if norm is None else [1.0, norm]),
    cross_batch_stability=number,
    headline_acc=number,
    frozen_baseline_acc=st.sampled_from([None, 0.0, 0.1]),
    growth_bound=st.none() | grid,
    evidence=st.sampled_from([{}, {"a": "bound"}]),
    intervals=st.dictionaries(st.sampled_from(["growth", "g_L", "stability", "acc"]), ends),
    partial_stream=st.sampled_from(["", "", "blocks.1"]),
)
LIMITS = st.builds(DiagnosticThresholds, grid, grid, grid, st.integers(0, 90).map(float))


@st.composite
def rows(draw):
    found = []
    for seed, report in enumerate(draw(st.lists(reports, min_size=1, max_size=6))):
        key, report = f"dfa_s{seed}", replace(report, seed=seed)
        found.append(row_of(key, "here", report=report))
    return found


def table_of(text):
    return [*csv.DictReader(io.StringIO(text))]


def printed(form, found, limits):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_rows(found, form, limits)
    return out.getvalue()


def epochs_of(found):
    """A run over its epochs with the numbers and intervals of these runs."""
    shared = set(TraceEpoch.__struct_fields__) & set(DiagnosticReport.__struct_fields__)
    reports = [(row.seed, row.report) for row in found]
    return [
        TraceEpoch(
            epoch=seed,
            test_acc=report.headline_acc,
            **{name: getattr(report, name) for name in shared},
        )
        for seed, report in reports
    ]


@settings(deadline=None, max_examples=60)
@given(rows(), LIMITS)
def test_every_surface_has_the_same_letters_counts_and_words(found, limits):
    judged = [replace(row, report=row.report.with_thresholds(limits)) for row in found]
    states = [states_of(row.report, limits) for row in judged]
    values = [judgement_of(one) for one in states]
    fires = [letters(one, "fires") for one in states]
    undecided = [letters(one, "undecided") for one in states]
    for row, own, value, fired, open_ in zip(judged, states, values, fires, undecided, strict=True):
        report = row.report
        assert report.states == own
        assert report.judgement == value
        assert ("".join(sorted(report.flags)), "".join(sorted(report.undecided))) == (fired, open_)
        assert [one.state for one in records_of(report)] == list(own.values())
        signs = {"fires": "", "passes": "-", "undecided": "~", "not measured": "·"}
        cell = "".join(signs[own[letter]] or letter for letter in LETTERS)
        assert row.report.cell() == MARKS[value] + cell
        words = report.words
        assert [one.phrase in words for one in DIAGNOSTICS.values()] == [
            x in fired for x in LETTERS
        ]
        assert words.startswith(
            {"walk-back": "needs walk-back: ", "undecided": "undecided on "}.get(value, value)
        )
        assert (f"undecided on {', '.join(open_)}" in words) == bool(open_)
        assert words in str(report).partition("\n")[0]
        said = record(row)
        names = ("flags", "undecided", "judgement", "verdict")
        assert [said[name] for name in names] == [fired, open_, value, words]
        assert said["by_numbers"] == "".join(sorted(report.by_numbers))
        assert report.to_dict()["verdict"] == report.verdict
        cause = failure_mode(report)
        if "depth unused" in cause:
            assert own["d"] == "fires" and "undecided" not in (own["a"], own["b"])
        if "drift" in cause or "noise" in cause:
            assert own["c"] != "undecided"

    counted, session = Counter(values), Session(found, thresholds=limits)
    agreeing = "".join(text for text, _ in agreement(session, Group.of("all", range(len(found)))))
    table = AuditTable.from_rows(found)
    flags, open_letters = table.flags(limits).tolist(), table.undecided(limits).tolist()
    assert (flags, open_letters) == ([*map(mask_of, fires)], [*map(mask_of, undecided)])
    assert table.judgements(limits) == counted
    in_paper = paper_tables(table, limits)
    for group in over_seeds(table, limits).groups:
        own = [values[seed] for seed in group.seeds]
        assert group.verdicts == Counter(own)
        assert (group.verdict == "MIXED") == ({"walk-back", "trustworthy"} <= set(own))
        for letter in LETTERS:
            own = Counter(states[seed][letter] for seed in group.seeds)
            assert group.fired[letter] == own["fires"]
            assert group.undecided.get(letter, 0) == own["undecided"]
            assert (letter in group.disagree) == bool(own["fires"] and own["passes"])
            measured = len(group.seeds) - own["not measured"]
            index = f"$_{{{own['fires']}}}$" if 0 < own["fires"] < measured else ""
            shown = r"$\sim$" * bool(own["undecided"]) + letter + index
            assert shown in in_paper or not (own["fires"] or own["undecided"])
    faces = Markers(table, limits, {}, {}, None, None)._looks
    for letter in LETTERS:
        drawn = [None] * len(found)
        for name, (_, are) in zip(FACES, faces(STYLE, letter), strict=True):
            for place in are.nonzero()[0]:
                assert drawn[place] is None
                drawn[place] = name
        assert drawn == [one[letter] for one in states]
        hits = sum(letter in one for one in fires)
        left = sum(letter in one for one in undecided)
        every = sensitivity(table, letter, limits).every
        assert (every.fired, every.undecided) == (hits, left)
        own = [one[letter] for one in states]
        assert [letter_tone(session, place, letter) for place in range(len(own))] == [
            *map(TONES.get, own)
        ]
        measured, doubt = len(own) - own.count("not measured"), f" ({left} undecided)" * bool(left)
        agrees = f"{letter} {hits} of {measured}{doubt}" if measured else f"{letter} not measured"
        assert agrees in agreeing or len(found) == 1
        for term, wanted in (("flag", fires), ("undecided", undecided)):
            passing = [place for place, one in enumerate(wanted) if letter in one]
            assert Filter(f"{term}:{letter}").rows(session) == passing
    trace = Trace(source="here", key="dfa", method="dfa", epochs=epochs_of(found))
    for point, epoch in zip(timeline(trace, limits).points, trace.epochs, strict=True):
        own = states_of(epoch.report("dfa"), limits)
        assert (point.flags, point.undecided) == (letters(own, "fires"), letters(own, "undecided"))
    full = decision_utility(table, limits, chance=-1.0).strategies[-1]
    assert len(full.walked_back) == counted["walk-back"]
    assert {one.state for one in differences(judged, judged)} == {"same"}

    for records in (
        json.loads(printed("json", found, limits)),
        table_of(printed("csv", found, limits)),
    ):
        assert [one["judgement"] for one in records] == values
        assert [one["flags"] for one in records] == fires
    page = first_page(table, limits)
    for name, text in {
        "show": printed("table", found, limits),
        "Markdown without counts": printed("markdown", found, limits),
        "the reporting form": to_markdown(page),
        "HTML": to_html(page),
    }.items():
        assert all(row.report.cell() in text.replace("\\", "") for row in judged), name
        assert f"{counted['trustworthy']} trustworthy" in text or "without" in name, name
    went = differences(judged, [])
    assert [line[1] for line in difference_grid(went).rows] == [row.report.cell() for row in judged]
    assert [one.to_dict()["before"]["judgement"] for one in went] == values

    cases, _, summary = _first_reading(found, limits, frozenset())
    outcomes = {"walk-back": "failed", "trustworthy": "passed"}
    assert [case.outcome for case in cases] == [
        outcomes.get(value, "undecided") for value in values
    ]
    for case, row, open_ in zip(cases, judged, undecided, strict=True):
        said = "\n".join(case.lines)
        assert all(range_text(row.report, letter) in said for letter in open_)
    checked = check_forms.Checked(runs=cases, problems=[], summary="")
    open_runs = counted["undecided"] + counted["not measured"]
    assert checked.exit_code == (1 if counted["walk-back"] else 4 if open_runs else 0)
    suite = ElementTree.fromstring(check_forms.to_junit(checked))
    assert suite.get("failures") == str(len(found) - counted["trustworthy"])
    for word in ("trustworthy", "undecided"):
        assert (f"{counted[word]} {word}" in summary) or not counted[word]

    tones = {"walk-back": "bad", "undecided": "warn", "trustworthy": "good"}
    for place, value in enumerate(values):
        assert (session.judgement(place), session.judged(place)) == (value, judged[place].report)
        ((sign, tone), *_) = verdict_row(session, place, UNICODE)
        assert (sign[0], tone) == (MARKS[value], tones.get(value, "dim"))
        report, masks = judged[place].report, (flags[place], open_letters[place])
        card = RunPage(found[place], 400, UNICODE).lines(limits, masks)
        assert card[0][-1] == (report.cell(), tone)
        said = "\n".join("".join(text for text, _ in line) for line in card)
        assert report.words in said or not report.coverage
        red = [text for line in card for text, tone in line if tone == "bad"]
        assert states[place]["a"] == "fires" or not any(text.startswith("×") for text in red)
    for name, value in (("walkback", "walk-back"), ("undecided",) * 2, ("trustworthy",) * 2):
        expected = [place for place, own in enumerate(values) if own == value]
        assert Filter(f"is:{name}").rows(session) == expected


@settings(deadline=None)
@given(reports, LIMITS)
def test_the_thresholds_of_a_flip_give_its_judgement_and_no_nearer_ones_do(report, limits):
    report = report.with_thresholds(limits)
    for flip in flips_of(report):
        assert flip.judgement != report.judgement
        reached = flip.moved(limits)
        assert report.with_thresholds(reached).judgement == flip.judgement
        for letter, (sign, end) in flip.limits.items():
            short = math.copysign(math.inf, -1 if sign[0] == ">" else 1)
            outside = math.nextafter(end, short) if "=" in sign else end
            nearer = DIAGNOSTICS[letter].moved(reached, outside)
            assert report.with_thresholds(nearer).judgement != flip.judgement


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"residual_norms": [1.0, 60.3]}, ["trustworthy where a ≥ 60.3"]),
        (
            {"residual_norms": [1.0, 2043.32], "headline_acc": 0.3, "frozen_baseline_acc": 0.34},
            ["trustworthy where a ≥ 2044 and d ≤ -4 pp"],
        ),
        (
            {"cross_batch_stability": 0.4, "intervals": {"stability": (0.2, 0.5)}},
            ["trustworthy where c ≥ 0.5", "walk-back where c < 0.2"],
        ),
        ({"growth_bound": 60.0, "evidence": {"a": "bound"}}, ["undecided where a ≥ 60"]),
        (
            {"cross_batch_stability": 0.11115, "intervals": {"stability": (0.11113, 0.11117)}},
            ["undecided where c < 0.11116", "walk-back where c < 0.1111"],
        ),
        ({"residual_norms": [1.0, float("nan")]}, []),
        ({}, []),
    ],
)
def test_a_flip_is_said_with_limits_on_the_side_that_flips(fields, text):
    assert flips_texts(DiagnosticReport(**fields)) == text


def test_an_undecided_epoch_ends_a_fire():
    known = {"cross_batch_stability": 0.4, "intervals": {"stability": (0.2, 0.6)}}
    epochs = [TraceEpoch(epoch=1, cross_batch_stability=0.4), TraceEpoch(epoch=2, **known)]
    found = timeline(Trace(source="runs", key="dfa_s1", method="dfa", epochs=epochs))
    assert (found.first_fire, found.lasting, found.undecided) == ({"c": 1}, {"c": None}, "c")


@settings(deadline=None, max_examples=60)
@given(rows(), LIMITS, st.sampled_from(LETTERS))
def test_judgements_change_at_the_deciding_points_alone(found, limits, letter):
    session = Session(found, thresholds=limits)
    one, places = DIAGNOSTICS[letter], range(len(found))
    # the middles of the grid; of (d) in percentage points, from below 0
    middles = [tenth / 10 - 0.05 for tenth in range(1, 12)]
    if letter == "d":
        middles = [-5.0, *(100 * middle for middle in middles)]
    for low, high in itertools.pairwise(middles):
        sides = [session.but(thresholds=one.moved(limits, side)) for side in (low, high)]
        then, now = ([at.judgement(row) for row in places] for at in sides)
        assert any(low < point < high for point in session.deciding(letter)) == (then != now)


def test_a_flip_is_named_by_the_state_after_it():
    known = {"cross_batch_stability": 0.4, "intervals": {"stability": (0.2, 0.6)}}
    report = DiagnosticReport(method_name="dfa", residual_norms=[1.0, 2.0], **known)
    session = Session([row_of("dfa", report=report)])
    said = []
    for ceiling in (0.7, 0.3, 0.1, 0.3, 0.7):
        limits = replace(session.thresholds, stability_drift_ceiling=ceiling)
        session = stepped(session, thresholds=limits)
        said.append(flip_text(session))
    signs = ("−c → ✓", "~c → ~", "+c → ✗", "~c → ~", "−c → ✓")
    assert said == [f"{sign} dfa" for sign in signs]
