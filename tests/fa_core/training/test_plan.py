"""Which runs a command means, and recipes that cannot be meant."""

import math

import pytest

from fa_core.errors import UsageError
from fa_core.option_values import DATA_SETS
from fa_core.training import plan
from fa_core.training.plan import Recipe, plan_runs
from fa_core.zoo.data import DATA_LOADERS
from fa_core.zoo.methods import METHODS
from fa_core.zoo.models import ARCHS

BASE = {"arch": "resmlp", "data": "synthetic", "recipe": Recipe()}


def test_the_names_that_are_known_without_torch_are_those_of_the_registries():
    assert tuple(METHODS) == plan.METHODS
    assert tuple(ARCHS) == plan.ARCHS
    assert tuple(DATA_LOADERS) == DATA_SETS


def test_every_combination_is_one_run_with_a_name_of_its_own():
    plans = plan_runs(["bp", "dfa"], [1, 2], lams=[0, 1e-3], widths=[8, 16], depths=[2, 4], **BASE)
    assert len({plan.name for plan in plans}) == len(plans) == 2 * 2 * 2 * 2 * 2
    assert "dfa_lam0.001_d16_L4_s2" in {plan.name for plan in plans}


def test_frozen_runs_come_first_and_once_whatever_the_penalties():
    plans = plan_runs(["dfa", "frozen"], [1, 2], lams=[0, 1e-2], **BASE)
    assert [plan.name for plan in plans[:2]] == ["frozen_s1", "frozen_s2"]
    assert [plan.method for plan in plans].count("frozen") == 2
    assert all(plan.recipe.lam == 0 for plan in plans[:2])


def test_cosine_starts_at_the_rate_and_ends_near_zero():
    recipe = Recipe(lr=0.1)
    rates = [recipe.lr_at(step, 100) for step in range(100)]
    assert rates[0] == 0.1
    assert rates == sorted(rates, reverse=True)
    assert rates[99] == pytest.approx(0.05 * (1 + math.cos(0.99 * math.pi)))
    assert Recipe(lr=0.1, schedule="constant").lr_at(99, 100) == 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.0}, "lr is 0.0; give a number above 0"),
        ({"lam": math.nan}, "lam is nan"),
        ({"epochs": -1}, "epochs is -1"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'; did you mean cosine"),
        ({"batch_size": 0}, "batch_size is 0; give a number of at least 1"),
        ({"optimizer": "adamww"}, "unknown optimizer 'adamww'; did you mean adamw"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused(change, message):
    with pytest.raises(UsageError, match=message):
        Recipe(**change)


def test_a_control_beside_a_method_does_not_get_the_methods_options_but_frozen_blocks_are_trained_with_them():
    methods = ["credit_bridge", "frozen", "random_targets"]
    plans = plan_runs(methods, [1], method_args={"variant": "stable"}, **BASE)
    assert {plan.name: plan.method_args for plan in plans} == {
        "frozen_of-credit_bridge_s1": {"of": "credit_bridge", "variant": "stable"},
        "frozen_of-bp_s1": {"of": "bp"},
        "credit_bridge_s1": {"variant": "stable"},
        "random_targets_s1": {},
    }
    (alone,) = plan_runs(["frozen"], [1], method_args={"of": "bp"}, **BASE)
    assert (alone.name, alone.method_args) == ("frozen_of-bp_s1", {"of": "bp"})


def test_frozen_beside_a_rule_is_trained_by_it_and_with_controls_alone_by_dfa():
    names = [plan.name for plan in plan_runs(["dfa", "bp", "frozen"], [1], **BASE)]
    assert names == ["frozen_s1", "frozen_of-bp_s1", "dfa_s1", "bp_s1"]
    assert plan_runs(["frozen", "shallow"], [1], **BASE)[0].name == "frozen_s1"


def test_which_rule_trains_a_control_is_part_of_its_name_and_no_option_of_a_rule():
    plans = plan_runs(["frozen", "bp", "shallow"], [1], method_args={"of": "dfa"}, **BASE)
    assert [(plan.name, plan.method_args) for plan in plans] == [
        ("frozen_of-bp_s1", {"of": "bp"}),
        ("bp_s1", {}),
        ("shallow_of-dfa_s1", {"of": "dfa"}),
    ]
