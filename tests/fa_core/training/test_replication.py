"""What agrees with a published figure, by hand-made runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from fa_core.facts.manifest import read_manifest
from fa_core.formats import Trace, TraceEpoch, scan
from fa_core.report import DiagnosticReport
from fa_core.training.experiments import Claim, Experiment, experiment, experiments
from fa_core.training.replication import Compared, FinishedRun, compared, finished
from fa_tui import typer_app
from fa_tui.commands.train import plans_of
from fa_tui.samples import sample_runs

SEEDS = "--seeds 42,123,456 --out {runs}"
STEP = f"train --method fa,dfa --arch resmlp --d 8 --L 2 --data {{cifar10}} --epochs 12 --lam 0,0.01 {SEEDS}"
CHOSEN = Experiment(name="x", title="x", folder="x", steps=[STEP])


def one(published: list[Any], *runs: FinishedRun | None) -> Compared:
    """The figure of a method next to those of its seeds."""
    chosen = msgspec.structs.replace(
        CHOSEN, steps=[STEP.replace(" --lam 0,0.01", "")], published=[published]
    )
    names = [f"{published[0]}_s{seed}" for seed in (42, 123, 456)]
    (found,) = compared(chosen, {name: run for name, run in zip(names, runs, strict=False) if run})
    return found


def run(method: str = "dfa", **numbers: Any) -> FinishedRun:
    return FinishedRun(DiagnosticReport(method_name=method, **numbers))


def accs(*values: float) -> list[FinishedRun]:
    return [run(headline_acc=value) for value in values]


def test_a_mean_agrees_within_three_deviations_of_the_difference_of_two_means() -> None:
    found = one(["dfa", "acc", 0.335, 0.01], *accs(0.30, 0.32, 0.31))
    assert found.here == (0.30, 0.32, 0.31)
    assert found.band == pytest.approx(
        (0.335 - 0.03 * math.sqrt(2 / 3), 0.335 + 0.03 * math.sqrt(2 / 3))
    )
    assert found.outcome == "differs"
    assert one(["dfa", "acc", 0.335, 0.011], *accs(0.30, 0.32, 0.31)).outcome == "agrees"


def test_a_figure_without_a_deviation_has_the_band_of_its_number() -> None:
    assert one(["dfa", "acc", 0.329], *accs(0.30, 0.32, 0.31)).outcome == "agrees"
    assert one(["dfa", "acc", 0.331], *accs(0.30, 0.32, 0.31)).outcome == "differs"
    assert one(["dfa", "margin_pp", 1.1]).band[1] < 2 < one(["dfa", "margin_pp", 2.31]).band[0]


def test_figures_of_the_seeds_give_mean_and_deviation() -> None:
    found = one(["fa", "acc", 0.347, 0.346, 0.341])
    assert sum(found.band) / 2 == pytest.approx(1.034 / 3)
    assert found.band[1] - sum(found.band) / 2 == pytest.approx(
        3 * 0.00321455 * math.sqrt(2 / 3), rel=1e-4
    )
    assert found.published == (0.347, 0.346, 0.341) and found.outcome == "no figure yet"


def test_a_norm_agrees_within_a_factor_of_its_geometric_mean() -> None:
    runs = [run(residual_norms=[1.0, norm]) for norm in (1e7, 1e8, 1e9)]
    assert one(["dfa", "h_L", 2.9e8], *runs).outcome == "agrees"
    assert one(["dfa", "h_L", 3.1e8], *runs).outcome == "differs"


def test_seeds_that_spread_over_everything_check_nothing() -> None:
    runs = [run(cross_batch_stability=0.9)] * 3
    assert one(["dfa", "drift", 0.05, 0.44, 0.0], *runs).outcome == "not checked"
    assert one(["dfa", "drift", 0.10, 0.09, 0.11], *runs).outcome == "differs"


def test_a_missing_seed_is_said_and_never_agrees() -> None:
    found = one(["dfa", "acc", 0.31], *accs(0.31, 0.31))
    assert (
        found.here == (0.31, 0.31, None)
        and found.agrees is None
        and found.outcome == "2 of 3 seeds"
    )
    unmeasured = one(["dfa", "fires", "", "abd"], *accs(0.31, 0.31, 0.31))
    assert unmeasured.agrees is None and unmeasured.outcome == "no figure yet"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(("number", "value"), [("h_L", 8.0), ("growth", 8.0), ("acc", 0.3)])
def test_a_number_that_is_not_finite_agrees_with_nothing(
    number: str, value: float, bad: float
) -> None:
    def with_value(x: float) -> FinishedRun:
        return run(headline_acc=x) if number == "acc" else run(residual_norms=[1.0, x])

    assert one(["dfa", number, value], *map(with_value, (value, value, value))).outcome == "agrees"
    assert one(["dfa", number, value], *map(with_value, (value, bad, value))).outcome == "differs"


def test_letters_are_compared_seed_by_seed() -> None:
    fires, passes = (
        run(residual_norms=[1.0, norm], bp_grad_norms=[1.0, 1.0]) for norm in (100.0, 2.0)
    )
    assert one(["dfa", "fires", "a", "ab"], fires, fires, fires).outcome == "agrees"
    assert one(["dfa", "fires", "", "ab"], passes, passes, passes).outcome == "agrees"
    found = one(["dfa", "fires", "", "ab"], passes, fires, passes)
    assert found.here == ("", "a", "") and found.outcome == "differs"
    assert one(["dfa", "fires", "a", "ab"], passes, fires, passes).outcome == "differs"


def test_the_gamma_of_fa_is_compared_with_its_free_layer() -> None:
    runs = [run("fa", credit={"gamma": [0.5, 0.1, 0.5], "free_layers": [2]})] * 3
    assert one(["fa", "deep_gamma_with_free", 0.3], *runs).here == pytest.approx((0.3,) * 3)
    assert one(["fa", "deep_gamma", 0.3], *runs).here == pytest.approx((0.1,) * 3)
    assert one(["fa", "gamma_0", 0.5], *runs).outcome == "agrees"
    for name in ("fa", "cifar100"):
        assert [
            figure[1]
            for figure in experiment(name).published
            if figure[0] == "fa" and "deep" in figure[1]
        ] == ["deep_gamma_with_free"]


def first_fires(*epochs: int) -> list[FinishedRun]:
    """Runs of which (a) fires from an epoch on; 0 for never."""

    def trace(at: int) -> Trace:
        norms = [[1.0, 1e3 if 0 < at <= epoch else 1.0] for epoch in range(1, 21)]
        entries = [
            TraceEpoch(epoch=i, residual_norms=h, bp_grad_norms=[1.0, 1.0])
            for i, h in enumerate(norms, 1)
        ]
        return Trace(source="t", key="dfa_s1", method="dfa", epochs=entries)

    return [FinishedRun(DiagnosticReport(), trace(at)) for at in epochs]


def test_epochs_are_compared_by_their_mean_and_by_how_many_seeds_fire() -> None:
    assert one(["dfa", "first_a", 4, 4, 3], *first_fires(4, 5, 3)).outcome == "agrees"
    assert one(["dfa", "first_a", 4, 4, 3], *first_fires(6, 5, 5)).outcome == "differs"
    assert one(["dfa", "first_a", 1, 1, 1], *first_fires(2, 2, 2)).outcome == "agrees"
    assert one(["dfa", "first_a", 1, 1, 1], *first_fires(3, 2, 2)).outcome == "differs"
    assert one(["dfa", "first_a", 4, 4, 3], *first_fires(4, 4, 0)).outcome == "differs"
    assert one(["dfa", "first_a", 0, 0, 0], *first_fires(0, 0, 0)).outcome == "agrees"
    assert one(["dfa", "first_a", 0, 0, 0], *first_fires(0, 20, 0)).outcome == "differs"


def test_of_an_order_the_figures_are_not_checked_and_ties_are_not_ordered() -> None:
    step = STEP.replace(" --lam 0,0.01", "").replace("fa,dfa", "bp,usf,dfa")
    published = [["bp", "acc", 0.9], ["usf", "acc", 0.89], ["dfa", "acc", 0.7]]
    chosen = Experiment(
        name="x",
        title="x",
        folder="x",
        steps=[step],
        published=published,
        order=[["bp", "usf"], ["dfa"]],
    )

    def outcomes(bp: float, usf: float, dfa: float) -> list[str]:
        values = {"bp": bp, "usf": usf, "dfa": dfa}
        runs = {
            f"{name}_s{seed}": accs(value)[0]
            for name, value in values.items()
            for seed in (42, 123, 456)
        }
        return [found.outcome for found in compared(chosen, runs)]

    assert outcomes(0.5, 0.6, 0.4) == ["not checked"] * 3 + ["agrees"]
    assert outcomes(0.6, 0.4, 0.5)[-1] == outcomes(0.6, 0.6, math.nan)[-1] == "differs"
    alone = {f"bp_s{seed}": accs(0.5)[0] for seed in (42, 123, 456)}
    assert compared(chosen, alone)[-1].outcome == "1 of 3 runs"


@pytest.mark.parametrize(
    "chosen", [one for one in experiments() if one.table], ids=lambda chosen: chosen.name
)
def test_a_published_audit_agrees_with_itself(chosen: Experiment) -> None:
    published = scan([sample_runs() / chosen.table])
    names = {(plan.method, plan.seed): name for name, plan in chosen.plans().items()}
    found = compared(
        chosen,
        {names[row.method, row.seed or 0]: FinishedRun(row.report) for row in published.rows},
        published,
    )
    assert found and all(figure.agrees or figure.unchecked for figure in found)
    assert all(figure.published == figure.here for figure in found)


@pytest.mark.parametrize("chosen", experiments(), ids=lambda chosen: chosen.name)
def test_the_planned_runs_are_those_that_the_commands_train(chosen: Experiment) -> None:
    trained = {}
    for words in chosen.commands("DIR", "DIR", "replication"):
        train = typer.main.get_command(typer_app.build(["train"])).commands["train"]
        given = train.make_context("train", words[1:]).params
        trained |= {plan.name: plan for plan in plans_of(given)}

    def without_place(plan: Any) -> Any:
        return msgspec.structs.replace(plan, data=plan.data.partition(":")[0].strip("{}"))

    planned = chosen.plans()
    assert {name: without_place(plan) for name, plan in planned.items()} == {
        name: without_place(plan) for name, plan in trained.items()
    }
    assert {run for run, *_ in chosen.published} <= {
        " ".join(_named(plan)) for plan in planned.values()
    }


def _named(plan: Any) -> list[str]:
    axes = {name: value for name, value in plan.axes.items() if name != "arch"}
    return [
        plan.method,
        *(
            f"{name}={value:g}" if name == "lam" else f"{name}={value}"
            for name, value in axes.items()
        ),
    ]


def write_run(folder: Path, **changes: Any) -> None:
    """A run of `CHOSEN`: dfa, λ = 0.01, finished, unless something of its manifest is changed."""
    recipe = {
        "epochs": 12,
        "lr": 1e-3,
        "weight_decay": 0.01,
        "schedule": "cosine",
        "batch_size": 128,
        "lam": 0.01,
    }
    manifest = {
        "method": "dfa", "arch": "resmlp", "arch_args": {"input_dim": 3072, "d": 8, "L": 2}, "data": "cifar10:/x",
        "seed": 42, "axes": {"lam": 0.01}, "recipe": {**recipe, "optimizer": "adamw"}, "epochs_done": 12,
    }  # fmt: skip
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    report = DiagnosticReport(method_name="dfa", headline_acc=0.3, residual_norms=[1.0, 2.0])
    (folder / "audit.json").write_bytes(msgspec.json.encode(report))
    read_manifest(folder)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"data": "cifar10:/y"}, ""),
        ({"stopped": "diverged: the loss is nan", "epochs_done": 3}, ""),
        ({"epochs_done": 11}, "11 of 12 epochs"),
        ({"recipe": {"epochs": 1}}, "epochs 1, not 12"),
        ({"arch_args": {"d": 4, "L": 2}}, "d 4, not 8"),
        ({"data": "cifar10:/x,raw"}, "data cifar10,raw, not cifar10"),
        ({"data": "digits"}, "data digits, not cifar10"),
        ({"stopped": "(b) fired at epoch 3 of 12", "epochs_done": 3}, "3 of 12 epochs"),
    ],
)
def test_only_finished_runs_of_the_experiments_own_recipe_are_compared(
    changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    name = "dfa_lam0.01_s42"
    write_run(tmp_path / name, **changes)
    runs, left_out = finished(CHOSEN, scan([tmp_path / name]))
    assert (list(runs) == [name] and not left_out) if not why else (not runs and why in left_out[0])


def test_a_run_without_an_audit_is_not_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "dfa_lam0.01_s42")
    (tmp_path / "dfa_lam0.01_s42" / "audit.json").unlink()
    assert finished(CHOSEN, scan([tmp_path]))[1] == [
        "dfa_lam0.01_s42 is not compared: not measured"
    ]


def test_the_page_of_the_experiments_holds_every_command_and_figure() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cifar.md").read_text(encoding="utf-8")
    for chosen in experiments():
        assert f"## {chosen.title}\n" in page
        for command in chosen.commands("DIR", "DIR", "replication"):
            assert f"    fa-tui {' '.join(command)}\n" in page
        assert all(f"| {figure[0]} | {figure[1]} " in page for figure in chosen.published)
        assert chosen.notes in page


def test_a_claim_agrees_to_the_digits_that_are_published() -> None:
    assert Claim("", "", "", 63.357).agrees(63.35724) and not Claim("", "", "", 63.357).agrees(
        63.358
    )
    assert Claim("", "", "", 5).agrees(5) and not Claim("", "", "", 5).agrees(6)
    assert Claim("", "", "", 0).agrees(0) and not Claim("", "", "", 0).agrees(1)
