"""A network by what the user typed: of a library, of a model-hub folder, of their own."""

import signal
import socket
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fa_core.errors import UnreadableInput, UsageError
from fa_core.files import limits
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.zoo.models.named import Weights, network_of
from tests.json_files import json_of, put_json

LARGE = Weights(Path("large.pt"), 1_000, 1_000_000_000)
TINY = "img_size=16, patch_size=8, embed_dim=12, depth=2, num_heads=2, num_classes=3"


def test_a_network_of_timm_takes_its_arguments_and_opens_no_connection(no_network):
    net = network_of(f"timm:vit_tiny_patch16_224({TINY})", LARGE)
    assert net(torch.randn(2, 3, 16, 16)).shape == (2, 3)
    assert len(net.blocks) == 2
    assert no_network == []


def test_a_network_of_torchvision_takes_its_arguments_and_opens_no_connection(no_network):
    net = network_of("torchvision:resnet18(num_classes=3)", LARGE)
    assert type(net).__module__.startswith("torchvision.")
    assert net.fc.out_features == 3
    assert no_network == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("timm:vit_tinyy", r"unknown network of timm 'vit_tinyy'; did you mean vit_tiny"),
        ("timm:hf-hub:timm/vit", "unknown network of timm"),
        ("timm:local-dir:/x", "unknown network of timm"),
        ("timm:vit_tiny_patch16_224(pretrained=True)", "pretrained would load other weights"),
        ("timm:vit_tiny_patch16_224(checkpoint_path='x.pt')", "checkpoint_path would load"),
        ("timm:vit_tiny_patch16_224(pretrained_cfg='x')", "pretrained_cfg would load"),
        ("torchvision:resnet18(weights_backbone='DEFAULT')", "weights_backbone would load"),
        ("timm:vit_tiny_patch16_224(dept=3)", "with dept .*unexpected keyword argument 'dept'"),
        (
            "torchvision:resnet19",
            "unknown network of torchvision 'resnet19'; did you mean resnet18",
        ),
        ("torchvision:resnet18(weights='DEFAULT')", "weights would load other weights"),
        ("torchvision:fasterrcnn_resnet50_fpn", "unknown network of torchvision"),
        (
            "resnet19",
            r"'resnet19' is neither a known network nor module:callable; did you mean resnet\d\d",
        ),
        ("resnet20(depth=3)", "unknown argument of resnet20 'depth'"),
        ("json:dumps(obj=print(1))", "no key=value pairs of literals"),
        ("json:dumps(obj=3)", "gave no network but str; return a torch.nn.Module"),
        ("json:dumps(ob=3)", "json:dumps cannot be called with ob "),
        ("json:dumps", "without arguments"),
        ("json:nothing", "has no 'nothing'"),
        ("json:__name__", "not callable"),
        ("no_such_module:make", "cannot import no_such_module"),
    ],
)
def test_what_cannot_be_meant_is_one_line(spec, said):
    with pytest.raises(UsageError, match=said):
        network_of(spec, LARGE)


def test_the_users_own_network_takes_literals(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(
        "import torch\n"
        "def build(depth, name='', sizes=()):\n"
        "    net = torch.nn.Sequential(*(torch.nn.Linear(size, size) for size in sizes for _ in range(depth)))\n"
        "    net.name = name\n"
        "    return net\n"
    )
    monkeypatch.chdir(tmp_path)
    net = network_of("own_nets:build(depth=2, name=')(', sizes=[3, 4])", LARGE)
    assert (len(net), net.name) == (4, ")(")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'timm'", name="timm"),
            r"timm, which is not installed; pip install 'timm",
        ),
        (
            ModuleNotFoundError("No module named 'torchvision'", name="torchvision"),
            r"timm does not import here \(No module named 'torchvision'\); install a build of torchvision for torch",
        ),
        (
            RuntimeError("operator torchvision::nms does not exist\nmore"),
            r"timm does not import here \(operator torchvision::nms does not exist\); install a build of torchvision",
        ),
    ],
)
def test_a_library_that_does_not_import_is_one_line(error, said, monkeypatch):
    def fails(name):
        raise error

    monkeypatch.setattr("fa_core.zoo.models.named.importlib.import_module", fails)
    with pytest.raises(UsageError, match=said) as raised:
        network_of("timm:vit_tiny_patch16_224", LARGE)
    assert "fa-audit" not in str(raised.value)


@pytest.fixture
def hub(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=11, n_positions=8)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "hub")
    return tmp_path / "hub"


def configured(hub, **changes):
    """Change the configuration of a hub folder."""
    config = json_of(hub / "config.json")
    put_json(hub / "config.json", {**config, **changes})


@pytest.mark.parametrize("typed", [True, False])
def test_the_weights_of_a_hub_folder_fit_its_network(hub, typed):
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(hub).eval()
    ours = loaded(load_checkpoint(hub / "model.safetensors"), model=f"hf:{hub}" if typed else None)[
        0
    ].eval()
    x = torch.randint(11, (2, 5))
    assert torch.equal(ours(x).logits, theirs(x).logits)


def test_tensors_that_transformers_stores_under_other_names_are_found(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=16,
        patch_size=8,
        num_labels=3,
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
    checkpoint = load_checkpoint(tmp_path / "model.safetensors")
    ours = loaded(checkpoint)[0]
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path)
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(ours.eval()(x).logits, theirs.eval()(x).logits)
    fewer = dict(list(checkpoint.tensors.items())[1:])
    save_file(fewer, tmp_path / "model.safetensors")
    with pytest.raises(UnreadableInput, match=r"tensors do not fit the network: Missing"):
        loaded(load_checkpoint(tmp_path / "model.safetensors"))


@pytest.fixture
def no_network(monkeypatch):
    """Calls that would open a connection, which fail."""
    tried = []

    def connect(*asked, **_):
        tried.append(asked)
        raise OSError("no network here")

    for owner, name in (
        (socket.socket, "connect"),
        (socket.socket, "connect_ex"),
        (socket, "getaddrinfo"),
        (socket, "create_connection"),
    ):
        monkeypatch.setattr(owner, name, connect)
    return tried


BERT = {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 1}
DETR = {"model_type": "detr", "architectures": ["DetrForObjectDetection"]}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (DETR | {"backbone": "evil/backbone"}, "backbone leads to weights or code outside"),
        (DETR | {"use_pretrained_backbone": True}, "use_pretrained_backbone leads to weights"),
        (DETR, "its backbone is a network with weights of its own"),
        (DETR | {"backbone_config": {"model_type": "resnet"}}, "backbone_config leads to"),
        (
            BERT | {"quantization_config": {"quant_method": "evil"}},
            r"weights are quantised \(evil\); dequantise",
        ),
        (BERT | {"vision_tower": "evil/tower"}, "vision_tower is a name, 'evil/tower'"),
        (BERT | {"text_config": {"tower": ["evil"]}}, "tower is a name, 'evil'"),
        ({"model_type": "timm_wrapper", "architecture": "resnet18"}, "architecture is a name"),
        ([BERT], "it holds no object"),
    ],
)
def test_a_configuration_that_leads_out_of_its_folder_is_refused_without_a_connection(
    config, said, tmp_path, no_network
):
    pytest.importorskip("transformers")
    put_json(tmp_path / "config.json", config)
    with pytest.raises(UnreadableInput, match=said):
        network_of(f"hf:{tmp_path}", LARGE)
    assert no_network == []


def test_keys_that_name_code_of_others_are_not_handed_on(hub, no_network):
    attention = {"attn_implementation": "kernels-community/evil", "_attn_implementation": "evil/x"}
    named = {"auto_map": {"AutoConfig": "evil/x--theirs.Config"}, "id2label": {"0": "a/b"}}
    configured(hub, **attention, **named)
    net = network_of(f"hf:{hub}", LARGE)
    assert net.config._attn_implementation in ("eager", "sdpa")
    assert net.config.num_labels == 1
    assert no_network == []


def test_a_key_that_begins_with_a_dash_below_says_which_network_it_is(hub):
    configured(hub, _name_or_path="a/b", _commit_hash="1", _remove_final_layer_norm=True)
    assert network_of(f"hf:{hub}", LARGE).config._remove_final_layer_norm


def test_code_in_a_hub_folder_is_not_run(hub):
    configured(hub, model_type="theirs", auto_map={"AutoConfig": "theirs.Config"})
    (hub / "theirs.py").write_text("import sys\nsys.modules['they_ran'] = sys\n")
    with pytest.raises(
        UnreadableInput, match=r"config\.json: transformers cannot read it .* is not run: import it"
    ):
        network_of(f"hf:{hub}", LARGE)
    assert "they_ran" not in sys.modules


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            {"n_layer": 1_000, "n_embd": 2},
            r"safetensors: has \d+ tensors, and the network more than [\d,]+ parts; the sizes in",
        ),
        (
            {"n_embd": 16_384, "vocab_size": 16_384},
            r"safetensors: needs [\d,]+ MiB of memory, for [\d,]+ KiB in files; the sizes in",
        ),
        *(
            (
                {name: 1 << bits},
                rf"config\.json: is no configuration \({name} is [\d,]+, and no size",
            )
            for name, bits in (("num_labels", 24), ("n_layer", 20), ("num_hidden_layers", 63))
        ),
        (
            {"n_layer": 1_000_000_000},
            r"config\.json: is no configuration \(n_layer is 1,000,000,000, and no size",
        ),
        (
            {"n_layer": 2_000},
            r"config\.json: is no configuration \(n_layer is 2,000, and no size .* beyond 1,024\)",
        ),
        (
            {"depths": [1] * 2_000},
            r"config\.json: is no configuration \(the number of depths entries is 2,000, and no",
        ),
        (
            {"text_config": [{"depths": [2, 1 << 40]}]},
            r"config\.json: is no configuration \(depths is",
        ),
    ],
)
def test_sizes_far_beyond_the_weights_are_refused_before_anything_is_built(hub, sizes, said):
    configured(hub, **sizes)
    with pytest.raises(UnreadableInput, match=said):
        loaded(load_checkpoint(hub / "model.safetensors"))


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("while True: pass", "takes more than 0.1 s of a processor to build"),
        ("kept = []\nwhile True: kept.append(bytes(1 << 24))", "takes far more memory to build"),
    ],
)
def test_work_in_python_far_beyond_the_weights_is_stopped(hub, monkeypatch, work, said):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(limits, "SECONDS", 0.1 if "pass" in work else 60.0)
    monkeypatch.setattr(transformers.GPT2LMHeadModel, "__init__", lambda *_: exec(work))
    configured(hub)
    with pytest.raises(UnreadableInput, match=said):
        loaded(load_checkpoint(hub / "model.safetensors"))
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_configuration_without_end_is_not_read(hub):
    with (hub / "config.json").open("ab") as file:
        file.truncate(1 << 33)
    with pytest.raises(
        UnreadableInput, match=r"config\.json: has 8,388,608 KiB; such a file has at most 4,096"
    ):
        network_of(f"hf:{hub}", LARGE)
