"""Families: only runs that differ in the penalty and in nothing else are compared."""

import pytest

from fa_core.analysis.method_groups import conditions, families
from fa_core.formats.rows import axes_of_methods, values_on_axes
from tests.fa_core.analysis.runs import row, seeds_of, table


def setup(**recipe):
    return {
        "recipe": {"epochs": 16, "lam": 0.0, **recipe},
        "arch": "resmlp",
        "arch_args": {"d": 128},
        "data": "digits",
    }


def test_seeds_of_one_penalty_are_one_point():
    assert families(table(*seeds_of("dfa", 1.0, 2.0, axes={"lam": 0.1}))) == []


@pytest.mark.parametrize(
    "other",
    [
        setup(lam=0.01, epochs=30),
        {**setup(lam=0.01), "arch_args": {"d": 512}},
        {**setup(lam=0.01), "data": "cifar10"},
    ],
    ids=["recipe", "network", "data"],
)
def test_a_recorded_difference_that_no_axis_names_parts_runs_too(other):
    plain = row(provenance=setup())
    for provenance, joined in ((setup(lam=0.01), 1), (other, 0)):
        penalised = row(axes={"lam": 0.01}, provenance=provenance)
        assert len(families(table(plain, penalised))) == joined


def test_what_of_a_recipe_differs_in_one_place_names_the_methods_runs_and_parts_them():
    runs = [
        row(seed=seed, source=source, provenance=setup(epochs=epochs))
        for seed, source, epochs in ((1, "a", 2), (2, "a", 8), (3, "b/c", 16), (3, "d/e", 2))
    ]
    assert axes_of_methods(runs[2:]) == {"dfa": []}
    runs.append(row(seed=4, source="a"))
    assert axes_of_methods(runs) == {"dfa": ["epochs"]}
    assert [values_on_axes(run, ["epochs"])["epochs"] for run in runs] == [2, 8, 16, 2, None]
    # two writers of one setting
    runs.insert(1, row(seed=5, source="a", provenance=setup(epochs=2.0)))
    assert [(one.axes, len(rows)) for one, rows in conditions(table(*runs[:3]))] == [
        ({"epochs": 2}, 2),
        ({"epochs": 8}, 1),
    ]


def test_the_same_runs_in_two_folders_are_two_families():
    runs = [
        row(seed=seed, source=f"{home}/dfa_lam{lam}_s{seed}", axes={"lam": lam})
        for home in ("one", "two")
        for lam in (0.0, 0.1)
        for seed in (1, 2)
    ]
    found = families(table(*runs))
    assert [one.collection for one, _ in found] == ["one", "two"]
    assert [rows for _, rows in found] == [[0, 1, 2, 3], [4, 5, 6, 7]]
