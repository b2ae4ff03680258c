"""What training scripts leave behind, each measured to the numbers of its plain state dict."""

import argparse
import collections
import pickle
import sys
import types
from pathlib import Path
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fa_core.audit.jobs import Job, JobProgress, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.errors import UnreadableInput
from fa_core.formats import scan
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.report.names import homes
from fa_core.zoo.models.residual_mlp import ResMLP
from tests.json_files import put_json

from .runs_for_tests import ARGS, DATA, small_net

torch.set_num_threads(1)

LAB = "vanished_lab"


def measured(path, **options):
    job = Job(id="1", checkpoint=str(path), options=MeasureOptions(data=DATA, **options))
    return measure_run(job, "cpu", JobProgress())


def numbers(report):
    return (
        report.residual_norms,
        report.bp_grad_norms,
        report.cross_batch_stability,
        report.error_norm,
        report.headline_acc,
        report.right,
    )


@pytest.fixture(scope="module")
def net():
    return small_net()


@pytest.fixture(scope="module")
def plain(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "net.pt"
    torch.save(net.state_dict(), path)
    return numbers(measured(path))


class Bag(dict):
    """A dict of its own class, as config libraries have them."""


class Holder:
    def __init__(self, **held):
        self.__dict__.update(held)


class Whole(ResMLP):
    """A network whose class does not exist where it is read."""

    def __init__(self):
        super().__init__(**ARGS)
        self.register_buffer("seen", torch.zeros(3), persistent=False)
        self.helper = lambda x: x

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "helper"}


@pytest.fixture(autouse=True)
def lab():
    """A module that holds these classes while files are written, and is gone when they are read."""
    module = types.ModuleType(LAB)
    for kind in (Bag, Holder, Whole):
        setattr(module, kind.__name__, kind)
        kind.__module__ = LAB
    sys.modules[LAB] = module
    yield
    sys.modules.pop(LAB, None)


def whole(weights):
    made = Whole()
    made.load_state_dict(weights)
    return made


def trained(weights):
    made = whole(weights)
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.0, weight_decay=0.0)
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    made.zero_grad()
    return made, optimizer


def other(weights):
    return {name: tensor + 1 for name, tensor in weights.items()}


def prefixed(weights, prefix, on=lambda name: True):
    return {prefix + name if on(name) else name: tensor for name, tensor in weights.items()}


def strided(weights):
    """The same values: matrices as transposed, offset views, all of them in one storage."""
    store = torch.zeros(sum(tensor.numel() for tensor in weights.values()) + 5)
    found, at = {}, 5
    for name, tensor in weights.items():
        view = (
            store[at : at + tensor.numel()]
            .view(tensor.shape[::-1])
            .permute(*range(tensor.dim())[::-1])
        )
        view.copy_(tensor)
        found[name], at = view, at + tensor.numel()
    return found


def with_attribute(weights):
    found = {name: nn.Parameter(tensor) for name, tensor in weights.items()}
    for parameter in found.values():
        parameter.lr_scale = 0.5
    return found


def averaged(weights):
    return torch.optim.swa_utils.AveragedModel(whole(weights)).state_dict()


def lightning(weights):
    _, optimizer = trained(weights)
    return {
        "epoch": 3,
        "global_step": 100,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": collections.OrderedDict(prefixed(weights, "net.")),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"current": {"ready": 3}}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': None}": {
                "best_model_score": torch.tensor(0.3),
                "best_k_models": {},
            }
        },
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": Bag(config=Holder(width=16, path=Path("/data")), lr=1e-3),
    }


CONTENTS = {
    "two deep": lambda w: {"state": {"weights": w}, "iteration": 7},
    "Namespace beside": lambda w: {
        "args": argparse.Namespace(lr=0.1, path=Path("/x")),
        "state_dict": w,
    },
    "optimizer beside": lambda w: {
        "model": w,
        "optimizer": trained(w)[1].state_dict(),
        "scheduler": {"last": 1},
    },
    "feedback beside": lambda w: {"model": w, "Bs": [torch.randn(10, 16) for _ in range(3)]},
    "whole module": lambda w: whole(w),
    "whole module in an object": lambda w: Holder(
        model=whole(w), device=torch.device("cpu"), dtype=torch.float32
    ),
    "parameters with attributes": with_attribute,
    "strided views of one storage": strided,
    "model. and module. before some names": lambda w: prefixed(
        prefixed(w, "module.", lambda name: "weight" in name), "model.", lambda name: "head" in name
    ),
    "averaged model with its counter": averaged,
    "Lightning": lightning,
}


def old_format(content, path):
    torch.save(content, path, _use_new_zipfile_serialization=False)


def bare_pickle(content, path):
    path.write_bytes(pickle.dumps(content))


def of_a_gpu(content, path):
    with mock.patch("torch.serialization.location_tag", lambda storage: "cuda:7"):
        torch.save(content, path)


WRITERS = {
    "zip": of_a_gpu,
    "zip, protocol 5": lambda content, path: torch.save(content, path, pickle_protocol=5),
    "old format": old_format,
    "bare pickle": bare_pickle,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_every_kind_is_read_to_the_bit_in_every_container(kind, writer, net, tmp_path):
    WRITERS[writer](CONTENTS[kind](dict(net.state_dict())), tmp_path / "net.pt")
    del sys.modules[LAB]
    found = loaded(load_checkpoint(tmp_path / "net.pt"))[0].state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in net.state_dict().items())
    assert LAB not in sys.modules


def test_other_precisions_are_read_to_the_bit(net, tmp_path):
    for kind, write in zip(
        (torch.float16, torch.bfloat16, torch.float64), WRITERS.values(), strict=False
    ):
        weights = {name: tensor.to(kind) for name, tensor in net.state_dict().items()}
        write({"net": weights}, tmp_path / "net.pt")
        for name, tensor in load_checkpoint(tmp_path / "net.pt").tensors.items():
            assert tensor.dtype == kind and torch.equal(tensor, weights[name])


def test_an_average_and_how_to_take_it_are_said(net, plain, tmp_path):
    path = tmp_path / "net.pt"
    torch.save({"state": {"model": net.state_dict(), "ema": other(net.state_dict())}}, path)
    report = measured(path)
    assert numbers(report) == plain
    said = "weights from 'state.model'; 'state.ema' fits too (--weights state.ema)"
    assert report.provenance["weights_taken"] == said
    assert report.notes.startswith("taken to be a resmlp by the names of its tensors")
    chosen = measured(path, weights="ema")
    assert numbers(chosen) != plain
    assert chosen.provenance["weights_taken"] == "weights from 'state.ema'"
    assert chosen.provenance["settings"]["weights"] == "ema"


def sharded(weights, folder, stem, save):
    """Two shards and their index, as model hubs have them."""
    name, suffix = stem.split(".")
    names, places = list(weights), {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        file = f"{name}-{part:05}-of-00002.{suffix}"
        save({n: weights[n] for n in chosen}, folder / file)
        places.update(dict.fromkeys(chosen, file))
    put_json(folder / f"{stem}.index.json", {"metadata": {"total_size": 1}, "weight_map": places})


class TestHubFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        """What a trainer leaves in a folder besides weights."""
        folder = tmp_path / "dfa_s7" / "checkpoint-500"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"model_type": "gpt2"}')
        (folder / "generation_config.json").write_text("{}")
        (folder / "tokenizer.json").write_text("{}")
        state = {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": []}
        for name in [
            "optimizer.pt",
            "scheduler.pt",
            "scaler.pt",
            "rng_state.pth",
            "rng_state_0.pth",
        ]:
            torch.save(state, folder / name)
        torch.save(argparse.Namespace(lr=0.1), folder / "training_args.bin")
        return folder

    @pytest.mark.parametrize(
        ("stem", "save"),
        [("model.safetensors", save_file), ("pytorch_model.bin", torch.save)],
        ids=["safetensors", "bin"],
    )
    @pytest.mark.parametrize("parts", [1, 2])
    def test_is_one_run(self, stem, save, parts, folder, net, plain):
        if parts == 1:
            save(net.state_dict(), folder / stem)
        else:
            sharded(net.state_dict(), folder, stem, save)
        found = scan([folder.parent])
        (row,) = found.rows
        assert not found.problems
        assert (row.key, row.method, row.seed) == ("dfa_s7/checkpoint-500", "dfa", 7)
        assert homes([row.source]) == [str(folder.parent)]
        assert numbers(measured(Path(row.checkpoint))) == plain

    def test_the_hash_is_of_its_shards_too(self, folder, net):
        sharded(net.state_dict(), folder, "pytorch_model.bin", torch.save)
        index = folder / "pytorch_model.bin.index.json"
        before = measured(index).provenance["hashes"]
        sharded(other(net.state_dict()), folder, "pytorch_model.bin", torch.save)
        assert measured(index).provenance["hashes"] != before

    @pytest.mark.parametrize("name", ["optimizer.pt", "training_args.bin", "rng_state_0.pth"])
    def test_a_trainers_file_that_is_named_says_what_it_is(self, folder, name):
        with pytest.raises(
            UnreadableInput, match=rf"{name}: holds the state of a trainer, not weights"
        ):
            scan([folder / name])

    def test_a_shard_that_is_named_says_what_it_belongs_to(self, folder, net):
        sharded(net.state_dict(), folder, "model.safetensors", save_file)
        with pytest.raises(
            UnreadableInput, match=r"is a part of the checkpoint .*model\.safetensors\.index\.json"
        ):
            scan([folder / "model-00001-of-00002.safetensors"])

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (lambda folder: part_of(folder).unlink(), "00002-of-00002.*no such file"),
            (lambda folder: save_file({"w": torch.ones(1)}, part_of(folder)), "holds w, which its"),
            (lambda folder: nested(part_of(folder)), "shards lack 12 tensors"),
            (
                lambda folder: repeated(folder),
                "00002-of-00002.* holds blocks.*, which its index does not have",
            ),
            (lambda folder: pointed(folder, "../../x.pt"), "no files of its folder"),
            (lambda folder: pointed(folder, ".."), "no files of its folder"),
            (lambda folder: pointed(folder, ""), "no files of its folder"),
            (lambda folder: index_of(folder).write_text('{"weight_map": {}'), "is no index"),
        ],
        ids=[
            "gone",
            "another",
            "beside other weights",
            "twice",
            "outside",
            "the folder above",
            "no name",
            "cut off",
        ],
    )
    def test_a_damaged_one_is_one_line(self, damage, words, folder, net):
        sharded(net.state_dict(), folder, "model.safetensors", save_file)
        damage(folder)
        with pytest.raises(UnreadableInput, match=words):
            measured(index_of(folder))


def part_of(folder):
    return folder / "model-00002-of-00002.safetensors"


def nested(path):
    """The weights of a shard under another name, in a file that holds more than weights."""
    weights = {name: one.clone() for name, one in load_file(path).items()}
    torch.save({"model": weights, "other": {}}, path)


def repeated(folder):
    """A tensor of the first shard stands in the second one, too."""
    first, second = (
        {name: one.clone() for name, one in load_file(path).items()}
        for path in sorted(folder.glob("model-*"))
    )
    name = next(name for name in first if name.startswith("blocks"))
    save_file({**second, name: -first[name]}, part_of(folder))


def pointed(folder, file):
    put_json(index_of(folder), {"weight_map": {"a": file}})


def index_of(folder):
    return folder / "model.safetensors.index.json"


class TestDistributed:
    @pytest.fixture
    def folder(self, net, tmp_path):
        import torch.distributed.checkpoint as dcp

        folder = tmp_path / "dfa_s7"
        with pytest.warns(UserWarning):
            dcp.save({"model": net.state_dict()}, checkpoint_id=folder)
        return folder

    def test_is_one_row_that_says_how_to_convert_it(self, folder, plain):
        (row,) = scan([folder.parent]).rows
        assert (row.key, row.method, row.seed) == ("dfa_s7", "dfa", 7)
        assert homes([row.source]) == [str(folder.parent)]
        with pytest.raises(UnreadableInput) as caught:
            measured(Path(row.checkpoint))
        command = str(caught.value).partition("convert it, which runs what it names: python ")[2]
        words = command.split()
        assert words[:2] == ["-m", "torch.distributed.checkpoint.format_utils"]
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        dcp_to_torch_save(*words[3:])
        assert numbers(measured(Path(words[4]))) == plain

    def test_its_metadata_are_never_unpickled(self, folder):
        class Trap:
            def __reduce__(self):
                return (Path.touch, (folder / "sprung",))

        (folder / ".metadata").write_bytes(pickle.dumps(Trap()))
        (row,) = scan([folder]).rows
        with pytest.raises(UnreadableInput, match="dcp_to_torch"):
            measured(Path(row.checkpoint))
        assert not (folder / "sprung").exists()
