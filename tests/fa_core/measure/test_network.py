import sys
import types
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
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
    for prefix in ("", "algo.student.net."):
        state = {prefix + name: tensor for name, tensor in net.state_dict().items()}
        found = loaded(saved(state))[0].eval()
        x = torch.randn(5, 6)
        assert torch.equal(found(x), net(x))
        assert found.arch_args == net.arch_args


@pytest.mark.parametrize(
    ("args", "kind", "said"),
    [
        ({"d": 9}, UnreadableInput, r"shape torch.Size\(\[8, 6\]\) .*\[9, 6\].*"),
        ({"d": 10**7}, UnreadableInput, r"current model is torch.Size\(\[10000000, 6\]\)"),
        (
            {"L": 300_000},
            UnknownNetwork,
            r"manifest\.json: L is 300000, and the file has 12 tensors",
        ),
        ({"d": 10**18}, UnknownNetwork, r"give a whole number from 1 to 16777216"),
        ({"d": None}, UnknownNetwork, r"manifest\.json: resmlp: .*; give whole numbers"),
    ],
)
def test_a_manifest_of_another_network_is_refused_before_it_takes_memory(saved, args, kind, said):
    net = resmlp()
    args = {**net.arch_args, **args}
    manifest = Manifest(method="dfa", arch="resmlp", arch_args=args, data="synthetic", seed=1)
    with pytest.raises(kind, match=said):
        loaded(saved(net.state_dict()), manifest)


@pytest.mark.parametrize("block", ["9" * 30, "300000"])
def test_tensors_of_no_known_network_or_of_a_far_block_say_what_to_do(saved, block):
    tensors = resmlp().state_dict()
    tensors[f"blocks.{block}.w1.weight"] = tensors["blocks.0.w1.weight"].clone()
    for held in (tensors, {"conv.weight": torch.zeros(3, 3)}):
        with pytest.raises(
            UnknownNetwork, match=r"dfa_s42\.safetensors: .*--model module:callable"
        ):
            loaded(saved(held))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision_weights_become_float32_unless_measured_as_they_are(saved, kind):
    net = resmlp().to(kind)
    with torch.no_grad():
        net.head.weight.fill_(1 / 3)
    checkpoint = saved(net.state_dict())
    found = loaded(checkpoint)[0].head.weight
    assert found.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert torch.equal(found, net.head.weight.to(found.dtype))
    assert {p.dtype for p in loaded(checkpoint, as_is=True)[0].parameters()} == {kind}


@pytest.fixture
def lab(monkeypatch):
    module = types.ModuleType("my_lab_nets")
    monkeypatch.setitem(sys.modules, "my_lab_nets", module)
    return module


@pytest.fixture
def load(tmp_path, lab):
    """Save what a network's file holds, and load it into the network."""

    def load(content, make, weights=None):
        torch.save(content, tmp_path / "a.pt")
        lab.make = make
        checkpoint = load_checkpoint(tmp_path / "a.pt", weights)
        network, taken = loaded(checkpoint, None, "my_lab_nets:make", False)
        return network, taken.taken

    return load


class Net(nn.Module):
    def __init__(self, change=lambda layer: None, layer=nn.Linear):
        super().__init__()
        self.embed, self.head = layer(4, 5), nn.Linear(5, 3)
        change(self.embed)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = (
            nn.LazyConv1d(4, 1),
            nn.LazyBatchNorm1d(),
            nn.Linear(4, 3),
        )

    def forward(self, x):
        return self.head(self.norm(self.embed(x)).mean(2))


def ran():
    net = Lazy()
    net(torch.randn(2, 3, 5))
    return net


class Extra(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen = [3, {"a": torch.ones(2)}]

    def get_extra_state(self):
        return self.seen

    def set_extra_state(self, state):
        self.seen = [*state, "set"]


class Versioned(nn.Linear):
    """Its weights of before version 2 are divided by ten."""

    _version = 2

    def _load_from_state_dict(self, state, prefix, versions, *rest):
        if versions.get("version", 1) < 2:
            state[f"{prefix}weight"] = state[f"{prefix}weight"] / 10
        super()._load_from_state_dict(state, prefix, versions, *rest)


class Renamed(Net):
    def _load_from_state_dict(self, state, prefix, *rest):
        for name in [name for name in state if name.startswith(f"{prefix}fc.")]:
            state[name.replace("fc.", "head.")] = state.pop(name)
        super()._load_from_state_dict(state, prefix, *rest)


class OwnLoading(Net):
    def load_state_dict(self, state):  # not lenient, and returns nothing
        super().load_state_dict({name.replace("fc.", "head."): one for name, one in state.items()})


class Uncopied(Net):
    def __init__(self):
        super().__init__()
        self.library, self.kept = sys, self.embed(torch.ones(4))


def fc(state):
    return {name.replace("head.", "fc."): one for name, one in state.items()}


OWN = {
    "weight norm of old names": (
        lambda: Net(weight_norm),
        lambda: Net(parametrizations.weight_norm),
        OrderedDict,
    ),
    "weight norm, old": (lambda: Net(weight_norm), lambda: Net(weight_norm), OrderedDict),
    "spectral norm, old": (lambda: Net(spectral_norm), lambda: Net(spectral_norm), dict),
    "spectral norm": (*[lambda: Net(parametrizations.spectral_norm)] * 2, OrderedDict),
    "lazy layers": (ran, Lazy, OrderedDict),
    "no counters of batches": (
        ran,
        Lazy,
        lambda s: {name: one for name, one in s.items() if "tracked" not in name},
    ),
    "extra states": (*[lambda: Net(layer=Extra)] * 2, OrderedDict),
    "versions": (*[lambda: Net(layer=Versioned)] * 2, lambda state: state),
    "names of an earlier version": (Net, Renamed, fc),
    "a load_state_dict of its own": (Net, OwnLoading, fc),
    "what cannot be copied": (Net, Uncopied, OrderedDict),
}


@pytest.mark.parametrize("around", [lambda net: net, nn.DataParallel])
@pytest.mark.parametrize("kind", OWN)
def test_a_network_loads_what_its_own_load_state_dict_takes(kind, around, load):
    trained, make, change = OWN[kind]
    before = trained()
    theirs = make()
    theirs.load_state_dict(change(before.state_dict()))
    ours, _ = load({"net": change(around(before).state_dict())}, make)
    for name, one in theirs.state_dict().items():
        assert str(one) == str(ours.state_dict()[name]), name


def test_a_mapping_of_other_shapes_leaves_lazy_layers_as_they_are(load):
    right, wrong = ran().state_dict(), ran().state_dict()
    wrong |= {"embed.weight": torch.ones(4, 9, 1), "head.bias": torch.ones(7)}
    net, said = load({"model": wrong, "other": right}, Lazy)
    assert torch.equal(net.embed.weight, right["embed.weight"])
    assert said == "weights from 'other'; not used: model"


def test_an_extra_state_is_handed_over_as_plain_data_or_not_at_all(load):
    make = lambda: Net(layer=Extra)  # noqa: E731
    net, _ = load(make().state_dict(), make)
    assert [type(one) for one in net.embed.seen] == [int, dict, str]
    strange = {**make().state_dict(), "embed._extra_state": types.SimpleNamespace(a=1)}
    net, said = load(strange, make)
    assert said == "not used: embed._extra_state"
    assert load(strange, Net)[1] == said


def prefixed(prefix, state, add=0.0):
    return {prefix + name: tensor + add for name, tensor in state.items()}


class Inside(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Net()


def pair(state):
    return {
        "state": {
            **prefixed("algo.student.net.", state),
            **prefixed("algo.teacher.net.", state, 1),
            "loss.w": torch.ones(2),
        }
    }


TWO = (
    "weights from 'state.algo.student.net'; "
    "'state.algo.teacher.net' fits too (--weights state.algo.teacher.net)"
)
PLACES = [
    (Net, lambda s: s, None, ""),
    (Net, lambda s: prefixed("module.", s), None, "names without 'module.'"),
    (
        Net,
        lambda s: {"model_state": prefixed("module.enc.net.", s)},
        None,
        "weights from 'model_state'; names without 'module.enc.net.'",
    ),
    (
        Net,
        lambda s: {name.replace(".", "._orig_mod."): one for name, one in s.items()},
        None,
        "names without '_orig_mod.'",
    ),
    (
        Inside,
        lambda s: prefixed("module.", s),
        None,
        "names without 'module.'; names with 'backbone.'",
    ),
    (lambda: nn.DataParallel(Net()), lambda s: [s], None, "weights from '0'; names with 'module.'"),
    (
        lambda: nn.ModuleDict({"backbone": nn.ModuleDict({"model": Net(), "last": nn.Tanh()})}),
        lambda s: prefixed("model.", s),
        None,
        "names with 'backbone.'",
    ),
    (Net, pair, None, TWO),
    (Net, pair, "teacher", "weights from 'state.algo.teacher'; names without 'net.'"),
    (
        Net,
        lambda s: {"a": {"student": s, "teacher": {"net": prefixed("", s, 1)}}},
        "teacher",
        "weights from 'a.teacher.net'",
    ),
    (
        Net,
        lambda s: {"state_dict": {**prefixed("model.", s), "loss.w": torch.ones(3)}, "epoch": 3},
        None,
        "weights from 'state_dict.model'; not used: epoch",
    ),
]


@pytest.mark.parametrize(("make", "content", "weights", "said"), PLACES)
def test_weights_are_found_at_every_level_and_what_was_taken_is_said(
    make, content, weights, said, load
):
    state = Net().state_dict()
    net, note = load(content(state), make, weights)
    assert note == said
    found = {
        name.removeprefix("module.").removeprefix("backbone.").removeprefix("model."): one
        for name, one in net.state_dict().items()
    }
    for name, tensor in state.items():
        assert torch.equal(found[name].cpu(), tensor + float(weights == "teacher"))


def test_names_that_would_be_one_without_their_wrappers_are_two(load):
    state = Net().state_dict()
    others = {name: one + 1.0 for name, one in state.items()}
    net, said = load({**prefixed("module.", others), **prefixed("module._orig_mod.", state)}, Net)
    assert said.startswith("weights from 'module._orig_mod'; not used: module.")
    assert all(torch.equal(one, state[name]) for name, one in net.state_dict().items())


def test_a_name_that_is_not_there_says_which_are(load):
    with pytest.raises(UsageError, match=r"no --weights ema; it holds student, teacher"):
        load({**prefixed("student.", Net().state_dict()), "teacher.w": torch.ones(1)}, Net, "ema")


@pytest.mark.filterwarnings("ignore")
def test_other_tensors_than_plain_ones_refuse_a_file_that_torch_loads(load):
    state = Net().state_dict()
    others = {
        "sparse": torch.eye(4).to_sparse(),
        "csr": torch.eye(4).to_sparse_csr(),
        "quantised": torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8),
        "meta": torch.empty(3, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "conj": torch.ones(3, dtype=torch.complex64).conj(),
    }
    jagged = torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)
    plain = {
        "float8": torch.ones(3).to(torch.float8_e4m3fn),
        "expanded": torch.ones(1).expand(1 << 30),
        "empty": torch.empty(0),
    }
    for name, tensor in plain.items():
        for beside in ([tensor], tensor):
            said = load({"model": state, name: beside}, Net)[1]
            assert said == f"weights from 'model'; not used: {name}"
    for name, tensor in others.items():
        with pytest.raises(UnreadableInput, match=rf"a\.pt: holds more than .* texts: {name} is "):
            load({"model": state, name: tensor}, Net)
    with pytest.raises(UnreadableInput, match=r"holds more than .*: embed\.bias is no plain"):
        load({**state, "embed.bias": jagged}, Net)


def without(state, name):
    return {other: tensor for other, tensor in state.items() if other != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: without(s, "head.bias"), r"do not fit.*Missing key\(s\).*: \"head.bias\"$"),
        (lambda s: prefixed("module.", without(s, "head.bias")), r"Missing .*: \"head.bias\"$"),
        (lambda s: {**s, "scale": torch.ones(1)}, r"Unexpected key\(s\).*: \"scale\"$"),
        (lambda s: {**s, "head.bias": torch.ones(9)}, r"size mismatch for head.bias"),
        (lambda s: {**s, "head.bias": torch.ones(3).to(torch.int8)}, "head.bias is stored as int8"),
        (lambda s: {k: one.to(torch.complex64) for k, one in s.items()}, "stored as complex64"),
        (lambda s: {"embed.lora_A.weight": torch.ones(4, 4)}, r"adapter \(LoRA\).*merge_and_un"),
        (
            lambda s: prefixed(
                "base_model.model.", {**s, "embed.lora_B.default.weight": s["head.bias"]}
            ),
            "adapter",
        ),
        (
            lambda s: {
                **s,
                "embed.weight": torch.zeros(10, 1, dtype=torch.uint8),
                "embed.weight.quant_state.bitsandbytes__nf4": torch.zeros(9, dtype=torch.uint8),
            },
            r"quantised \(bitsandbytes nf4.*dequantise",
        ),
        (lambda s: {**s, "embed.qweight": torch.zeros(1, dtype=torch.int32)}, "GPTQ or AWQ"),
        (lambda s: {**s, "embed.weight_scale_inv": torch.ones(1)}, "is quantised; dequantise"),
        (lambda s: Lazy().state_dict(), "of a lazy layer that never ran; .*first pass"),
    ],
)
def test_what_does_not_fit_says_why_and_what_helps(change, said, load):
    state = Net().state_dict()
    with pytest.raises(UnreadableInput, match=said):
        load(change(state), Lazy if "lazy" in said else Net)


def test_integers_of_a_network_stay_so_and_tied_weights_may_be_missing(load):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(2, 2, bias=False) for _ in range(3))
            self.b.weight, self.c.weight.data = self.a.weight, self.a.weight.data
            self.table = nn.Parameter(torch.tensor([1, 2]), requires_grad=False)

    net, _ = load({"a.weight": torch.ones(2, 2), "table": torch.tensor([2, 3])}, Tied)
    assert torch.equal(net.c.weight, torch.ones(2, 2)) and net.table.tolist() == [2, 3]
    diverged = {name: torch.full((2, 2), torch.nan) for name in ("a.weight", "b.weight")}
    net, _ = load({**diverged, "table": torch.tensor([2, 3])}, Tied)
    assert net.b.weight.isnan().all()
    for value in (1.0, torch.nan, torch.inf):
        apart = {"a.weight": torch.full((2, 2), value), "b.weight": torch.zeros(2, 2)}
        with pytest.raises(UnreadableInput, match="a parameter that is tied to it have two values"):
            load({**apart, "table": torch.tensor([2, 3])}, Tied)


class TestTheUsersOwnNetwork:
    def test_draws_what_is_not_saved_the_same_each_time_and_leaves_the_callers_generator(
        self, saved, lab
    ):
        def features():
            net = nn.Linear(3, 2)
            net.register_buffer("drawn", torch.randn(4), persistent=False)
            return net

        lab.features = features
        checkpoint = saved({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        drawn = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            drawn.append(loaded(checkpoint, model="my_lab_nets:features")[0].drawn)
            assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(*drawn)

    def test_goes_before_the_manifest(self, saved, lab):
        lab.make = lambda: nn.Linear(3, 2)
        manifest = Manifest(method="dfa", arch="resmlp", data="synthetic", seed=1)
        checkpoint = saved({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        network = loaded(checkpoint, manifest, "my_lab_nets:make")[0]
        assert torch.equal(network.weight, torch.ones(2, 3))
