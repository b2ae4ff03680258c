"""A network is known from the names and shapes of its tensors."""

from pathlib import Path

import pytest
import torch

from fa_core.errors import UnknownNetwork, UsageError
from fa_core.files.tensor_mappings import State
from fa_core.measure.checkpoint import Checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.zoo.models import ARCHS, build


def recognised(state):
    return loaded(Checkpoint(Path("a.pt"), {"": State(state)}))[0]


CASES = [
    ("resmlp", {"input_dim": 16, "d": 24, "L": 7, "terminal_ln": False, "num_classes": 3}),
    (
        "resmlp_wide",
        {"input_dim": 16, "d": 24, "L": 7, "hidden": 10, "terminal_ln": False, "num_classes": 3},
    ),
    ("resmlp", {"input_dim": 16, "d": 24, "L": 0}),
    (
        "vit_mini",
        {"image": 12, "channels": 1, "patch": 3, "d": 24, "L": 2, "heads": 3, "terminal_ln": False},
    ),
    ("studentnet", {"input_dim": 5, "d": 6, "L": 1, "terminal_ln": True}),
    (
        "smallcnn",
        {"image": 16, "channels": 1, "width": 3, "d": 7, "terminal_ln": True, "num_classes": 4},
    ),
    ("small_resnet", {}),
    ("resnet20", {"channels": 1, "width": 3, "L": 6, "terminal_ln": True, "num_classes": 4}),
    ("resnet56", {"width": 4}),
]


@pytest.mark.parametrize(("arch", "args"), [*CASES, *((arch, {"L": 0}) for arch in ARCHS)])
def test_a_network_is_recognised_with_all_its_arguments(arch, args):
    net = build(arch, **args)
    found = recognised(net.state_dict())
    assert [*found.state_dict()] == [*net.state_dict()]
    if args != {"L": 0}:
        assert (found.arch, found.arch_args) == (arch, net.arch_args)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            build("resmlp", input_dim=16, d=8, L=2).state_dict()
            | {"blocks.1.w2.weight": torch.zeros(8, 99)},
            r"looks like resmlp, but .*blocks\.1\.w2\.weight.*\[8, 99\].*\[8, 8\]",
        ),
        ({"conv1.weight": torch.zeros(64, 3, 7, 7)}, r"no known network \(conv1"),
        ({"embed.weight": torch.zeros(3), "head.weight": torch.zeros(2, 3)}, "embed.weight, head"),
    ],
)
def test_other_tensors_are_refused_with_what_was_seen(state, said):
    with pytest.raises(UnknownNetwork, match=said):
        recognised(state)


@pytest.mark.parametrize(
    ("arch", "args", "says"),
    [
        ("resmpl", {}, r"did you mean resmlp.*vit_mini.*studentnet.*smallcnn"),
        ("resmlp", {"terminal_lm": False}, r"did you mean terminal_ln.*input_dim"),
    ],
)
def test_an_unknown_name_lists_the_known_and_the_nearest(arch, args, says):
    with pytest.raises(UsageError, match=says):
        build(arch, **args)
