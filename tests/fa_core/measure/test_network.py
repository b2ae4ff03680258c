import sys

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import load_tensors, network_for
from fa_core.report.manifest import Manifest
from fa_core.zoo.models import build


@pytest.fixture
def saved(tmp_path):
    def save(tensors):
        path = tmp_path / "dfa_s42.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        return load_checkpoint(path)

    return save


def resmlp(**options):
    return build("resmlp", input_dim=6, d=8, L=1, num_classes=4, seed=0, **options)


@pytest.mark.parametrize("terminal_ln", [True, False])
def test_a_built_in_network_is_recognised_from_its_tensors(saved, terminal_ln):
    net = resmlp(terminal_ln=terminal_ln).eval()
    found = network_for(saved(net.state_dict())).eval()
    x = torch.randn(5, 6)
    assert torch.equal(found(x), net(x))
    assert found.arch_args == net.arch_args


@pytest.mark.parametrize(
    ("args", "kind", "said"),
    [
        (
            {"d": 9},
            UnreadableInput,
            r"\(8, 6\) in the file and \(9, 6\) in the network \(and \d+ more",
        ),
        ({"d": 10**7}, UnreadableInput, r"\(8, 6\) in the file and \(10000000, 6\) in the network"),
        (
            {"L": 300_000},
            UnknownNetwork,
            r"manifest\.json: L is 300000, and the file has 12 tensors",
        ),
        (
            {"d": 10**18},
            UnknownNetwork,
            r"d is 1000000000000000000; give a whole number from 1 to 16777216",
        ),
        ({"d": None}, UnknownNetwork, r"manifest\.json: resmlp: .*; give whole numbers"),
    ],
)
def test_a_manifest_of_another_network_is_refused_before_it_takes_memory(saved, args, kind, said):
    net = resmlp()
    manifest = Manifest(
        method="dfa", arch="resmlp", arch_args={**net.arch_args, **args}, data="synthetic", seed=1
    )
    with pytest.raises(kind, match=said):
        network_for(saved(net.state_dict()), manifest)


@pytest.mark.parametrize("block", ["9" * 30, "300000"])
def test_tensors_of_no_known_network_or_of_a_far_block_say_what_to_do(saved, block):
    tensors = resmlp().state_dict()
    tensors[f"blocks.{block}.w1.weight"] = tensors["blocks.0.w1.weight"].clone()
    for held in (tensors, {"conv.weight": torch.zeros(3, 3)}):
        with pytest.raises(
            UnknownNetwork, match=r"dfa_s42\.safetensors: .*--model module:callable"
        ):
            network_for(saved(held))


def test_a_manifest_of_an_unknown_network_names_the_manifest(saved):
    manifest = Manifest(method="dfa", arch="resmpl", data="synthetic", seed=1)
    with pytest.raises(UnknownNetwork, match=r"manifest\.json: unknown network 'resmpl'.*resmlp"):
        network_for(saved({"w": torch.zeros(1)}), manifest)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision_weights_become_float32_unless_measured_as_they_are(saved, kind):
    net = resmlp().to(kind)
    with torch.no_grad():
        net.head.weight.fill_(1 / 3)
    checkpoint = saved(net.state_dict())
    found = network_for(checkpoint).head.weight
    assert found.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert torch.equal(found, net.head.weight.to(found.dtype))
    assert {p.dtype for p in network_for(checkpoint, as_is=True).parameters()} == {kind}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (torch.int8, "no scale is known"),
        (torch.complex64, "no imaginary part"),
    ],
)
def test_weights_that_are_no_floats_are_refused_and_never_taken_by_their_value(saved, kind, why):
    net = resmlp()
    weights = {name: (100 * tensor).to(kind) for name, tensor in net.state_dict().items()}
    said = rf"embed.weight is stored as {str(kind)[6:]} \(and \d+ more.*{why}"
    with pytest.raises(UnreadableInput, match=said) as raised:
        network_for(saved(weights))
    assert raised.value.hint and "\n" not in str(raised.value)


def test_buffers_and_parameters_that_are_integers_in_the_network_too_stay_so(tmp_path):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.table = nn.Parameter(torch.tensor([1, 2]), requires_grad=False)

    trained, fresh = Counting(), Counting()
    trained.norm.num_batches_tracked += 7
    trained.table.add_(1)
    load_tensors(fresh, trained.state_dict(), tmp_path)
    assert int(fresh.norm.num_batches_tracked) == 7 and fresh.table.tolist() == [2, 3]


def test_missing_and_unknown_tensors_are_named(tmp_path):
    tensors = {"weight": torch.zeros(2, 2), "scale": torch.zeros(1)}
    said = r"1 missing \(bias\), 1 that the network does not have \(scale\)"
    with pytest.raises(UnreadableInput, match=said):
        load_tensors(nn.Linear(2, 2), tensors, tmp_path)


def test_tied_weights_and_batch_counters_may_be_missing(tmp_path):
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2))
    net[1].weight = net[0].weight
    tensors = {
        name: torch.ones_like(tensor)
        for name, tensor in net.state_dict().items()
        if name != "1.weight" and "tracked" not in name
    }
    load_tensors(net, tensors, tmp_path)
    assert torch.equal(net[1].weight, torch.ones(2, 2))


class TestTheUsersOwnNetwork:
    @pytest.fixture(autouse=True)
    def lab(self, tmp_path, monkeypatch):
        (tmp_path / "my_lab_nets.py").write_text(
            "import torch\n"
            "def make(): return torch.nn.Linear(3, 2)\n"
            "def needs(width): return torch.nn.Linear(width, 2)\n"
            "def wrong(): return 7\n"
            "def features():\n"
            "    net = make()\n"
            "    net.register_buffer('drawn', torch.randn(4), persistent=False)\n"
            "    return net\n"
        )
        monkeypatch.chdir(tmp_path)
        yield
        sys.modules.pop("my_lab_nets", None)

    def test_draws_what_is_not_saved_the_same_each_time_and_leaves_the_callers_generator(
        self, saved
    ):
        checkpoint = saved({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        drawn = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            drawn.append(network_for(checkpoint, model="my_lab_nets:features").drawn)
            assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(*drawn)

    def test_goes_before_the_manifest(self, saved):
        manifest = Manifest(method="dfa", arch="resmlp", data="synthetic", seed=1)
        checkpoint = saved({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        network = network_for(checkpoint, manifest, "my_lab_nets:make")
        assert torch.equal(network.weight, torch.ones(2, 3))

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("my_lab_nets:needs", "without arguments"),
            ("my_lab_nets:wrong", "gave a int"),
            ("my_lab_nets:nothing", "has no 'nothing'"),
            ("no_such_module:make", "cannot import no_such_module"),
            ("my_lab_nets.make", "not module:callable"),
        ],
    )
    def test_that_cannot_be_built_says_why(self, saved, name, words):
        with pytest.raises(UsageError, match=words):
            network_for(saved({"weight": torch.ones(2, 3)}), model=name)
