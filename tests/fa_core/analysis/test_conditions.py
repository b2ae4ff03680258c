"""Conditions: only runs that differ in their seed and in nothing else are seeds of one."""

import pytest

from fa_core.analysis.method_groups import conditions
from fa_core.formats.rows import axes_of_methods, value_on_axis
from tests.fa_core.analysis.runs import row, table


def setup(**recipe):
    return {
        "recipe": {"epochs": 16, "lam": 0.0, **recipe},
        "arch": "resmlp",
        "arch_args": {"d": 128},
        "data": "digits",
    }


@pytest.mark.parametrize(
    "other",
    [
        setup(epochs=30),
        {**setup(), "arch_args": {"d": 512}},
        {**setup(), "data": "cifar10"},
    ],
    ids=["recipe", "network", "data"],
)
def test_a_recorded_difference_that_no_axis_names_parts_runs_too(other):
    plain = row(provenance=setup())
    for provenance, count in ((setup(), 1), (other, 2)):
        assert len(conditions(table(plain, row(seed=2, provenance=provenance)))) == count


def test_what_of_a_recipe_differs_in_one_place_names_the_methods_runs_and_parts_them():
    runs = [
        row(seed=seed, source=source, provenance=setup(epochs=epochs))
        for seed, source, epochs in ((1, "a", 2), (2, "a", 8), (3, "b/c", 16), (3, "d/e", 2))
    ]
    assert axes_of_methods(runs[2:]) == {"dfa": []}
    runs.append(row(seed=4, source="a"))
    assert axes_of_methods(runs) == {"dfa": ["epochs"]}
    assert [value_on_axis(run, "epochs") for run in runs] == [2, 8, 16, 2, None]
    assert [(one.axes, len(rows)) for one, rows in conditions(table(*runs[:2]))] == [
        ({"epochs": 2}, 1),
        ({"epochs": 8}, 1),
    ]


def test_the_same_runs_in_two_folders_are_apart():
    runs = [
        row(seed=seed, source=f"{home}/dfa_s{seed}") for home in ("one", "two") for seed in (1, 2)
    ]
    found = conditions(table(*runs))
    assert [one.collection for one, _ in found] == ["one", "two"]
    assert [rows for _, rows in found] == [[0, 1], [2, 3]]
