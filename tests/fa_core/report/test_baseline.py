"""Which frozen run is the baseline of which run, and what is said of it."""

import pytest
from msgspec.structs import replace

from fa_core.errors import UsageError
from fa_core.formats.frozen_runs import with_measured_baselines
from fa_core.report.baseline import FrozenBaseline, FrozenRun, FrozenRuns, facts_of, rule_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import packed, paired_margin
from fa_core.report.names import split_key
from fa_core.report.notes import basis_text
from tests.fa_core.rows import row_of

NET = {
    "arch": "resmlp",
    "arch_args": {"d": 8, "L": 2},
    "data": "synthetic",
    "data_hash": "sha256:1",
}
RECIPE = {"epochs": 8, "lr": 0.003, "lam": 0.0}


def row(method, acc=0.62, seed=42, *, recorded=None, **facts):
    provenance = {**NET, "recipe": RECIPE, "method_args": {}, **facts}
    report = DiagnosticReport(
        headline_acc=acc, frozen_baseline_acc=recorded, provenance=provenance, method_name=method
    )
    source = f"runs/{method}{''.join(facts.get('method_args', {}).values())}_s{seed}"
    return row_of(source, source, ..., method=method, seed=seed, report=report, axes={})


def frozen(of, acc, **facts):
    return row("frozen", acc, method_args={} if of == "dfa" else {"of": of}, **facts)


def judged(*rows):
    """The report of the first of the rows that were measured together."""
    return with_measured_baselines(rows, rows)[0].report


@pytest.mark.parametrize("order", [1, -1])
def test_the_baseline_is_the_frozen_net_of_the_same_rule_and_the_other_margin_is_shown_too(
    order,
):
    found = judged(row("bp"), *[frozen("dfa", 0.557), frozen("bp", 0.579)][::order])
    assert (found.frozen_baseline_acc, found.margin_pp) == (0.579, pytest.approx(4.1))
    assert found.provenance["frozen_baseline_from"] == "runs/frozenbp_s42"
    assert found.provenance["other_frozen_baselines"] == {"dfa": 0.557}
    assert basis_text(found, "d") == ""
    assert "by frozen blocks of other rules: dfa +6.30 pp" in found.describe()[3]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"source": "evil/frozen", "checkpoint": "evil/frozen"}, "evil/frozen"),
        ({"source": "t.json", "key": "b", "checkpoint": "runs/frozen_s42"}, "t.json: b"),
        ({"source": "runs/frozen_s42", "key": "b", "checkpoint": None}, "runs/frozen_s42: b"),
    ],
)
def test_two_of_one_rule_whose_accuracies_differ_judge_nothing_and_are_both_named(
    fields, named, order
):
    other = replace(frozen("dfa", 0.05), **fields)
    found = judged(row("dfa"), *[frozen("dfa", 0.557), other][::order])
    assert found.frozen_baseline_acc is None
    why, pair = found.unmeasured["d"], ["runs/frozen_s42", named][::-order]
    assert why.startswith(f"of the frozen run {pair[0]} and of {pair[1]}, which fits as well, ")
    assert "accuracies differ" in why and "--frozen-baseline" in why
    alike = replace(frozen("dfa", 0.557), **fields)
    assert judged(row("dfa"), frozen("dfa", 0.557), alike).frozen_baseline_acc == 0.557


def at(place, found, **facts):
    """A frozen run elsewhere; with other facts of its report, such as what changed."""
    report = replace(found.report, **facts)
    return replace(found, source=place, checkpoint=place, report=report)


OWN, OF_BP = at("own", frozen("dfa", 0.557)), at("of-bp", frozen("bp", 0.05))
CHANGED = at("changed", frozen("dfa", 0.557), changed="its files changed since")
UNMEASURED = at("unmeasured", frozen("dfa", None))
UNREADABLE = at("unreadable", frozen("dfa", None), provenance={}, changed="its manifest …")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("runs", "named"),
    [
        ([OWN, CHANGED], "changed"),
        ([OWN, UNMEASURED], "unmeasured"),
        ([OF_BP, CHANGED], "changed"),
        ([OF_BP, UNMEASURED], "unmeasured"),
        ([OF_BP, UNREADABLE], "unreadable"),
        ([CHANGED, UNREADABLE], "changed"),
        ([at("of-bp", OF_BP, headline_acc=None)], "of-bp"),
        ([OWN, UNREADABLE], ""),
        ([OWN, at("of-bp", OF_BP, headline_acc=None)], ""),
        ([OWN, at("s7", frozen("dfa", None, data_hash="sha256:2"))], ""),
        ([OWN, at("own", CHANGED)], "own"),
        ([OWN, at("unhashed", frozen("dfa", 0.5, data_hash=None))], "unhashed"),
        ([OF_BP, at("unhashed", frozen("dfa", 0.5, data_hash=None))], "unhashed"),
        ([OWN, at("unhashed", frozen("dfa", 0.5, data_hash=None, recipe={}))], ""),
        ([OWN, at("unhashed", frozen("bp", 0.5, data_hash=None))], ""),
        ([at("of-bp", OF_BP), at("of-fa", frozen("fa", 0.5))], "of-bp and of of-fa the rules"),
    ],
)
def test_one_that_cannot_judge_is_named_before_others_judge_unless_it_is_of_another_run(
    runs, named, order
):
    found = judged(row("dfa"), *runs[::order])
    assert found.frozen_baseline_acc == (None if named else 0.557)
    assert found.unmeasured.get("d", "").startswith(named and f"of the frozen run {named} ")
    assert "other_frozen_baselines" not in found.provenance


def test_one_of_another_rule_is_taken_where_there_is_no_other_and_said():
    found = judged(row("bp"), frozen("dfa", 0.557))
    assert found.frozen_baseline_acc == 0.557
    assert basis_text(found, "d") == "baseline 0.557 of frozen blocks trained by dfa"
    assert "[baseline 0.557 of frozen blocks trained by dfa]" in found.describe()[3]
    assert "against" not in found.describe()[3]


@pytest.mark.parametrize(
    ("method", "args", "of", "same"),
    [
        ("dfa", {}, {}, True),
        ("random_targets", {}, {"of": "bp"}, True),
        ("random_targets", {"of": "dfa"}, {}, True),
        ("ep", {"arithmetic": "float32"}, {"of": "ep", "arithmetic": "float32"}, True),
        ("ep", {"arithmetic": "float32"}, {"of": "ep"}, False),
        ("bp", {}, {}, False),
    ],
)
def test_a_rule_is_its_name_and_its_options(method, args, of, same):
    found = judged(row(method, method_args=args), row("frozen", 0.5, method_args=of))
    assert found.frozen_baseline_acc == 0.5
    assert ("frozen_baseline_rule" in found.provenance) is not same


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipe": {**RECIPE, "lr": 0.01, "epochs": 9}}, "epochs 9, not 8; lr 0.01, not 0.003"),
        (
            {"data": "digits", "data_hash": "sha256:2"},
            "data digits, not synthetic; data_hash sha256:2, not sha256:1",
        ),
        ({"arch_args": {"d": 9, "L": 2}}, "d 9, not 8"),
        ({"recipe": None}, "epochs (none), not 8"),
    ],
)
def test_one_of_another_recipe_data_or_size_is_never_taken_and_the_reason_names_it(change, said):
    found = judged(row("bp"), frozen("bp", 0.5, **change))
    assert (found.frozen_baseline_acc, "d" in found.coverage) == (None, False)
    reason = found.unmeasured["d"]
    assert reason.startswith("the frozen run runs/frozenbp_s42 has ") and said in reason
    assert reason.endswith("; give its accuracy as the frozen baseline to use it")
    # once there is one that fits, the reason is gone
    assert "d" not in judged(replace(row("bp"), report=found), frozen("bp", 0.5)).unmeasured


def test_the_penalty_makes_no_difference_and_the_seed_does():
    penalised = row("dfa", recipe={**RECIPE, "lam": 0.01})
    assert judged(penalised, frozen("dfa", 0.5)).frozen_baseline_acc == 0.5
    assert judged(row("dfa", seed=1), frozen("dfa", 0.5)).frozen_baseline_acc is None
    written_otherwise = frozen("dfa", 0.5, arch_args={"L": 2.0, "d": 8.0})
    assert judged(row("dfa"), written_otherwise).frozen_baseline_acc == 0.5


def test_a_recorded_baseline_is_kept_and_one_that_was_cut_out_is_that_of_the_frozen_run():
    recorded = row("bp", recorded=0.4, frozen_baseline_from="given")
    assert judged(recorded, frozen("bp", 0.5)).frozen_baseline_acc == 0.4
    cut = row("bp", frozen_baseline_from="frozen_s42")
    assert judged(cut, frozen("bp", 0.5)).frozen_baseline_acc == 0.5


@pytest.mark.parametrize(
    ("own", "other", "why"),
    [
        ({"epochs_done": 8}, {"epochs_done": 3}, "epochs_done 3, not (none)"),
        (
            {"recipe": {**RECIPE, "epochs": 3}, "epochs_done": 3},
            {"epochs_done": 3},
            "epochs 8, not 3; epochs_done 3, not (none)",
        ),
        (
            {"trained_on": "sha256:0"},
            {"trained_on": "sha256:1"},
            "trained_on sha256:1, not sha256:0",
        ),
    ],
)
def test_one_that_is_unfinished_or_was_trained_on_other_data_is_not_taken(own, other, why):
    found = judged(row("bp", **own), frozen("bp", 0.579, **other))
    assert found.frozen_baseline_acc is None and why in found.unmeasured["d"]


def test_one_with_a_hash_of_its_data_may_fit_a_run_that_records_none():
    own = row("dfa", data_hash=None)
    other = frozen("dfa", 0.5, data_hash=None)
    assert judged(own, other).frozen_baseline_acc == 0.5
    for frozen_runs in ([OWN], [OWN, other], [other, OWN]):
        found = judged(own, *frozen_runs)
        assert found.frozen_baseline_acc is None
        assert found.unmeasured["d"].startswith("of the frozen run own no hash says that its data")


def test_controls_get_none():
    rows = [frozen("dfa", 0.5), frozen("bp", 0.4), row("shallow"), row("random_init")]
    assert with_measured_baselines(rows, rows) == rows


def test_on_the_same_samples_the_margin_has_the_interval_of_paired_differences():
    """Digits' BP: 6 more right than the frozen net's, of 360, with 9 + 3 samples on which they differ."""
    right = [index < 309 for index in range(360)]
    baseline = [9 <= index < 312 for index in range(360)]
    ours = row("bp", 309 / 360)
    ours = replace(ours, report=replace(ours.report, right=packed(right)))
    theirs = frozen("bp", 303 / 360)
    assert "margin_pp" not in judged(ours, theirs).intervals
    theirs = replace(theirs, report=replace(theirs.report, right=packed(baseline)))
    found = judged(ours, theirs)
    assert found.margin_pp == pytest.approx(100 * 6 / 360)
    assert found.intervals["margin_pp"] == paired_margin(packed(right), packed(baseline))
    assert "margin_pp" not in found.with_frozen_baseline(0.5).intervals
    alone = replace(frozen("bp", 303 / 360), source="accuracy alone", checkpoint="accuracy alone")
    assert judged(ours, alone, theirs).intervals == found.intervals


def test_nothing_is_taken_for_a_run_whose_network_or_seed_is_not_known():
    assert facts_of({}, 42) == facts_of(NET, None) == {}
    report = DiagnosticReport(headline_acc=0.5)
    runs = FrozenRuns([FrozenRun("x", rule_of("frozen", {}), {}, 0.4)])
    assert runs.judge(report, "dfa", {}) == report


def test_a_baseline_for_a_known_method_that_is_not_there_is_no_error():
    baseline = FrozenBaseline(by_method={"dfa": 0.3, "state_bridge": 0.3})
    baseline.check(["dfa"])
    with pytest.raises(UsageError, match="no run of method 'state_brige'"):
        FrozenBaseline(by_method={"state_brige": 0.3}).check(["dfa"])


def named(key, acc, **facts):
    """A run of a bare checkpoint of the user's network: only its name says what it is."""
    settings = {"model": "my_nets:Net"}
    provenance = {
        "network": "my_nets.Net",
        "data_hash": "sha256:1",
        "settings": settings,
        **facts,
    }
    report = DiagnosticReport(
        headline_acc=acc, provenance=provenance, method_name=split_key(key)[0]
    )
    return row_of(key, f"nets/{key}.pt", ..., report=report)


NONE = "none of my_nets.Net, seed 1, can be read here or beside it"


def test_checkpoints_of_ones_own_are_paired_by_their_names():
    found = judged(named("mine_s1", 0.9), named("frozen_of-mine_s1", 0.5))
    assert found.margin_pp == pytest.approx(40.0)
    assert basis_text(found, "d") == "baseline that was paired by its file's name"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (named("frozen_of-mine_s2", 0.5), NONE),
        (named("frozen_of-mine_d512_s1", 0.5), "d 512, not (none)"),
        (named("frozen_of-mine_s1", 0.5, data_hash="sha256:2"), "data_hash sha256:2"),
        (named("frozen_of-mine_s1", 0.5, network="my_nets.Other"), NONE),
        (
            named("frozen_of-mine_s1", 0.5, settings={"model": "my_nets:Net(width=8)"}),
            "model my_nets:Net(width=8), not my_nets:Net",
        ),
        (named("frozen_of-bp_s1", 0.5), "rule bp, not mine; to use it, name it frozen_of-mine"),
        (named("frozen_s1", 0.5), "rule dfa, not mine; to use it, name it frozen_of-mine"),
    ],
)
def test_none_of_another_name_network_or_data_is_taken(other, reason):
    found = judged(named("mine_s1", 0.9), other)
    assert found.frozen_baseline_acc is None
    assert reason in found.unmeasured["d"]


@pytest.mark.parametrize("own", ["", "frozen_mine"])
def test_a_record_that_does_not_call_itself_frozen_is_no_runs_baseline(own):
    named = frozen("bp", 0.5)
    other = replace(named, report=replace(named.report, method_name=own))
    found = judged(row("bp"), other)
    assert found.frozen_baseline_acc is None
    assert (
        "of the frozen run runs/frozenbp_s42 its record or manifest does not call it frozen"
        in (found.unmeasured["d"])
    )
    assert judged(row("bp"), other, named).frozen_baseline_acc == 0.5
    # nor is it a control itself, and so it is judged as the others are
    assert (other.is_control, named.is_control) == (False, True)
    assert judged(other, named).frozen_baseline_acc == 0.5
