"""A network is known from the names and shapes of its tensors."""

import pytest

from fa_core.errors import UnknownNetwork, UsageError
from fa_core.zoo.models import ARCHS, build, recognise


def shapes(net):
    return {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}


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


@pytest.mark.parametrize(("arch", "args"), CASES)
def test_a_network_is_recognised_with_all_its_arguments(arch, args):
    net = build(arch, **args)
    assert recognise(shapes(net)) == (arch, net.arch_args)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_network_without_blocks_is_recognised_as_one_that_loads_its_weights(arch):
    net = build(arch, L=0)
    found, args = recognise(shapes(net))
    build(found, **args).load_state_dict(net.state_dict())


def test_a_tensor_of_another_shape_is_named_with_both_shapes():
    tensors = shapes(build("resmlp", input_dim=16, d=8, L=2))
    tensors["blocks.1.w2.weight"] = (8, 99)
    with pytest.raises(
        UnknownNetwork, match=r"blocks\.1\.w2\.weight has shape \(8, 99\) where \(8, 8\)"
    ):
        recognise(tensors)


@pytest.mark.parametrize(
    "tensors", [{}, {"conv1.weight": (64, 3, 7, 7)}, {"embed.weight": (3,), "head.weight": (2, 3)}]
)
def test_foreign_tensors_are_refused_with_what_was_seen(
    tensors,
):
    with pytest.raises(UnknownNetwork, match=next(iter(tensors), "no tensors")):
        recognise(tensors)


def test_an_unknown_network_lists_the_known_and_the_nearest():
    with pytest.raises(UsageError, match=r"did you mean resmlp.*vit_mini.*studentnet.*smallcnn"):
        build("resmpl")


def test_an_unknown_argument_lists_the_known_and_the_nearest():
    with pytest.raises(UsageError, match=r"did you mean terminal_ln.*input_dim"):
        build("resmlp", terminal_lm=False)
