"""What training scripts leave behind, each measured to the numbers of its plain state dict."""

from __future__ import annotations

import argparse
import collections
import json
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from fa_core.engine.jobs import Job, MeasureOptions
from fa_core.engine.measuring import measure_run
from fa_core.errors import UnreadableInput, UsageError
from fa_core.facts.names import homes
from fa_core.formats import scan
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.models.residual_mlp import ResMLP
from fa_core.report import DiagnosticReport

from .runs_for_tests import ARGS, DATA, small_net

torch.set_num_threads(1)

Weights = dict[str, Tensor]
LAB = "vanished_lab"


class Silent:
    def update(self, done: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...


def measured(path: Path, **options: Any) -> DiagnosticReport:
    job = Job(id="1", checkpoint=str(path), options=MeasureOptions(data=DATA, **options))
    return measure_run(job, "cpu", Silent())


def numbers(report: DiagnosticReport) -> tuple[Any, ...]:
    return (
        report.residual_norms,
        report.bp_grad_norms,
        report.cross_batch_stability,
        report.error_norm,
        report.headline_acc,
        report.right,
    )


@pytest.fixture(scope="module")
def net() -> ResMLP:
    made = small_net()
    assert isinstance(made, ResMLP)
    return made


@pytest.fixture(scope="module")
def plain(net: ResMLP, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    path = tmp_path_factory.mktemp("plain") / "net.pt"
    torch.save(net.state_dict(), path)
    return numbers(measured(path))


class Bag(dict[str, Any]):
    """A dict of its own class, as config libraries have them."""


class Holder:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class Listed(list[Any]):
    """A list of its own class."""


class Whole(ResMLP):
    """A network whose class does not exist where it is read."""

    def __init__(self) -> None:
        super().__init__(**ARGS)
        self.register_buffer("seen", torch.zeros(3), persistent=False)
        self.helper = lambda x: x

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "helper"}


@pytest.fixture(autouse=True)
def lab() -> Iterator[None]:
    """A module that holds these classes while files are written, and is gone when they are read."""
    module = types.ModuleType(LAB)
    for kind in (Bag, Holder, Listed, Whole):
        setattr(module, kind.__name__, kind)
        kind.__module__ = LAB
    sys.modules[LAB] = module
    yield
    sys.modules.pop(LAB, None)


def whole(weights: Weights) -> Whole:
    made = Whole()
    made.load_state_dict(weights)
    return made


def trained(weights: Weights) -> tuple[nn.Module, torch.optim.Optimizer]:
    made = whole(weights)
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.0, weight_decay=0.0)
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    made.zero_grad()
    return made, optimizer


def other(weights: Weights) -> Weights:
    return {name: tensor + 1 for name, tensor in weights.items()}


def prefixed(
    weights: Weights, prefix: str, on: Callable[[str], bool] = lambda name: True
) -> Weights:
    return {prefix + name if on(name) else name: tensor for name, tensor in weights.items()}


def strided(weights: Weights) -> Weights:
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


def with_attribute(weights: Weights) -> dict[str, nn.Parameter]:
    found = {name: nn.Parameter(tensor) for name, tensor in weights.items()}
    for parameter in found.values():
        parameter.lr_scale = 0.5  # type: ignore[attr-defined]
    return found


def averaged(weights: Weights) -> dict[str, Any]:
    return torch.optim.swa_utils.AveragedModel(whole(weights)).state_dict()


def lightning(weights: Weights) -> dict[str, Any]:
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


CONTENTS: dict[str, Callable[[Weights], Any]] = {
    "bare": lambda w: w,
    "model": lambda w: {"model": w, "epoch": 3},
    "any other name": lambda w: {"student_v2": w, "lr": 0.1},
    "two deep": lambda w: {"state": {"weights": w}, "iteration": 7},
    "Namespace beside": lambda w: {
        "args": argparse.Namespace(lr=0.1, path=Path("/x")),
        "state_dict": w,
    },
    "inside a Namespace": lambda w: argparse.Namespace(model=w, epoch=1),
    "inside a dict of its own class": lambda w: Bag(model=Bag(w)),
    "inside a list of its own class": lambda w: Listed([3, w]),
    "optimizer beside": lambda w: {
        "model": w,
        "optimizer": trained(w)[1].state_dict(),
        "scheduler": {"last": 1},
    },
    "average beside": lambda w: {"model": w, "ema": other(w)},
    "feedback beside": lambda w: {"model": w, "Bs": [torch.randn(10, 16) for _ in range(3)]},
    "whole module": lambda w: whole(w),
    "whole module and its optimizer": lambda w: list(trained(w)),
    "whole module in an object": lambda w: Holder(
        model=whole(w), device=torch.device("cpu"), dtype=torch.float32
    ),
    "parameters with attributes": with_attribute,
    "strided views of one storage": strided,
    "module. before all names": lambda w: prefixed(w, "module."),
    "net. before some names": lambda w: prefixed(w, "net.", lambda name: name.startswith("blocks")),
    "model. and module. before some names": lambda w: prefixed(
        prefixed(w, "module.", lambda name: "weight" in name), "model.", lambda name: "head" in name
    ),
    "_orig_mod. inside names": lambda w: {
        name.replace("blocks.1", "blocks.1._orig_mod"): t for name, t in w.items()
    },
    "an attribute's name before all names": lambda w: prefixed(w, "classifier."),
    "averaged model with its counter": averaged,
    "Lightning": lightning,
}


def old_format(content: Any, path: Path) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def bare_pickle(content: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(content))


WRITERS = {
    "zip": torch.save,
    "zip, protocol 5": lambda content, path: torch.save(content, path, pickle_protocol=5),
    "old format": old_format,
    "bare pickle": bare_pickle,
}


@pytest.mark.parametrize("kind", ["two deep", "average beside", "Lightning"])
def test_a_kind_is_measured_as_its_plain_state_dict(
    kind: str, net: ResMLP, plain: tuple[Any, ...], tmp_path: Path
) -> None:
    torch.save(CONTENTS[kind](dict(net.state_dict())), tmp_path / "net.pt")
    del sys.modules[LAB]
    assert numbers(measured(tmp_path / "net.pt")) == plain


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_every_kind_is_read_to_the_bit_in_every_container(
    kind: str, writer: str, net: ResMLP, tmp_path: Path
) -> None:
    from fa_core.measure.checkpoint_network import network_for

    WRITERS[writer](CONTENTS[kind](dict(net.state_dict())), tmp_path / "net.pt")
    del sys.modules[LAB]
    found = network_for(load_checkpoint(tmp_path / "net.pt")).state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in net.state_dict().items())
    assert LAB not in sys.modules


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("writer", WRITERS)
def test_other_precisions_are_read_to_the_bit(
    writer: str, kind: torch.dtype, net: ResMLP, tmp_path: Path
) -> None:
    weights = {name: tensor.to(kind) for name, tensor in net.state_dict().items()}
    WRITERS[writer]({"net": weights}, tmp_path / "net.pt")
    save_file(weights, tmp_path / "net.safetensors")
    found, same = measured(tmp_path / "net.pt"), measured(tmp_path / "net.safetensors")
    assert numbers(found) == numbers(same)
    assert found.provenance["weights_dtype"] == str(kind)[6:]
    for name, tensor in load_checkpoint(tmp_path / "net.pt").tensors.items():
        assert tensor.dtype == kind and torch.equal(tensor, weights[name])


@pytest.mark.parametrize("writer", ["zip", "old format"])
def test_weights_saved_on_a_gpu_are_read_without_one(
    writer: str, net: ResMLP, plain: tuple[Any, ...], tmp_path: Path
) -> None:
    with mock.patch("torch.serialization.location_tag", lambda storage: "cuda:7"):
        WRITERS[writer](net.state_dict(), tmp_path / "net.pt")
    assert numbers(measured(tmp_path / "net.pt")) == plain


def test_an_exported_program_is_measured_by_the_weights_in_it(
    net: ResMLP, plain: tuple[Any, ...], tmp_path: Path
) -> None:
    torch.export.save(torch.export.export(net.eval(), (torch.zeros(2, 8),)), tmp_path / "net.pt2")
    assert numbers(measured(tmp_path / "net.pt2")) == plain


class TestSaid:
    def taken(self, path: Path, **options: Any) -> str:
        return str(measured(path, **options).provenance.get("weights_taken", ""))

    def test_what_was_taken_stripped_and_not_used(self, net: ResMLP, tmp_path: Path) -> None:
        torch.save(
            {"net": prefixed(net.state_dict(), "module."), "acc": 0.9, "epoch": 3},
            tmp_path / "net.pt",
        )
        said = "weights from 'net'; names without 'module.'; not used: acc, epoch"
        assert self.taken(tmp_path / "net.pt") == said

    def test_an_average_and_how_to_take_it(
        self, net: ResMLP, plain: tuple[Any, ...], tmp_path: Path
    ) -> None:
        path = tmp_path / "net.pt"
        torch.save({"state": {"model": net.state_dict(), "ema": other(net.state_dict())}}, path)
        report = measured(path)
        assert numbers(report) == plain
        said = "weights from 'state.model'; 'state.ema' fits too (--weights state.ema)"
        assert report.provenance["weights_taken"] == said
        torch.save(other(net.state_dict()), tmp_path / "ema.pt")
        for name in ("ema", "state.ema"):
            chosen = measured(path, weights=name)
            assert numbers(chosen) == numbers(measured(tmp_path / "ema.pt"))
            assert chosen.provenance["weights_taken"].startswith("weights from 'state.ema'")
            assert chosen.provenance["settings"]["weights"] == name

    def test_a_name_that_is_not_there(self, net: ResMLP, tmp_path: Path) -> None:
        torch.save({"model": net.state_dict(), "ema": other(net.state_dict())}, tmp_path / "net.pt")
        with pytest.raises(
            UsageError, match=r"net\.pt: holds no --weights swa; it holds model, ema"
        ):
            measured(tmp_path / "net.pt", weights="swa")


def test_prefixes_stay_where_taking_them_off_does_not_make_all_names_fit(
    net: ResMLP, tmp_path: Path
) -> None:
    weights = {**prefixed(net.state_dict(), "net."), "net.loss.weight": torch.ones(3)}
    torch.save(weights, tmp_path / "net.pt")
    assert list(load_checkpoint(tmp_path / "net.pt").tensors) == list(weights)
    with pytest.raises(UnreadableInput, match=r"net\.pt: .*net\."):
        measured(tmp_path / "net.pt")


def sharded(
    weights: Weights, folder: Path, stem: str, save: Callable[[Weights, Path], None]
) -> None:
    """Two shards and their index, as model hubs have them."""
    name, suffix = stem.split(".")
    names, places = list(weights), {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        file = f"{name}-{part:05}-of-00002.{suffix}"
        save({n: weights[n] for n in chosen}, folder / file)
        places.update(dict.fromkeys(chosen, file))
    (folder / f"{stem}.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": places})
    )


class TestHubFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """What a trainer leaves in a folder besides weights."""
        folder = tmp_path / "dfa_s7" / "checkpoint-500"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"model_type": "gpt2"}')
        (folder / "generation_config.json").write_text("{}")
        (folder / "tokenizer.json").write_text("{}")
        state = {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": []}
        for name in (
            "optimizer.pt",
            "scheduler.pt",
            "scaler.pt",
            "rng_state.pth",
            "rng_state_0.pth",
        ):
            torch.save(state, folder / name)
        torch.save(argparse.Namespace(lr=0.1), folder / "training_args.bin")
        return folder

    @pytest.mark.parametrize(
        ("stem", "save"),
        [("model.safetensors", save_file), ("pytorch_model.bin", torch.save)],
        ids=["safetensors", "bin"],
    )
    @pytest.mark.parametrize("parts", [1, 2])
    def test_is_one_run(
        self, stem: str, save: Any, parts: int, folder: Path, net: ResMLP, plain: tuple[Any, ...]
    ) -> None:
        if parts == 1:
            save(net.state_dict(), folder / stem)
        else:
            sharded(net.state_dict(), folder, stem, save)
        found = scan([folder.parent])
        (row,) = found.rows
        assert not found.problems
        assert (row.key, row.method, row.seed) == ("dfa_s7/checkpoint-500", "dfa", 7)
        assert homes([row.source]) == [str(folder.parent)]
        assert row.checkpoint is not None
        assert numbers(measured(Path(row.checkpoint))) == plain

    def test_with_both_formats_is_one_run_of_its_safetensors(
        self, folder: Path, net: ResMLP
    ) -> None:
        torch.save(net.state_dict(), folder / "pytorch_model.bin")
        sharded(net.state_dict(), folder, "model.safetensors", save_file)
        (row,) = scan([folder]).rows
        assert row.checkpoint == str(folder / "model.safetensors.index.json")
        (named,) = scan([folder / "pytorch_model.bin"]).rows
        assert named.checkpoint == str(folder / "pytorch_model.bin")

    def test_the_hash_is_of_its_shards_too(self, folder: Path, net: ResMLP) -> None:
        sharded(net.state_dict(), folder, "pytorch_model.bin", torch.save)
        index = folder / "pytorch_model.bin.index.json"
        before = measured(index).provenance["hashes"]
        sharded(other(net.state_dict()), folder, "pytorch_model.bin", torch.save)
        assert measured(index).provenance["hashes"] != before

    @pytest.mark.parametrize("name", ["optimizer.pt", "training_args.bin", "rng_state_0.pth"])
    def test_a_trainers_file_that_is_named_says_what_it_is(self, folder: Path, name: str) -> None:
        with pytest.raises(
            UnreadableInput, match=rf"{name}: holds the state of a trainer, not weights"
        ):
            scan([folder / name])

    def test_a_shard_that_is_named_says_what_it_belongs_to(self, folder: Path, net: ResMLP) -> None:
        sharded(net.state_dict(), folder, "model.safetensors", save_file)
        with pytest.raises(
            UnreadableInput, match=r"is a part of the checkpoint .*model\.safetensors\.index\.json"
        ):
            scan([folder / "model-00001-of-00002.safetensors"])

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (lambda folder: part_of(folder).unlink(), "00002-of-00002.*no such file"),
            (lambda folder: save_file({"w": torch.ones(1)}, part_of(folder)), "shards lack"),
            (
                lambda folder: index_of(folder).write_text('{"weight_map": {"a": "../../x.pt"}}'),
                "outside its folder",
            ),
            (lambda folder: index_of(folder).write_text('{"weight_map": {}'), "is no index"),
        ],
        ids=["gone", "another", "outside", "cut off"],
    )
    def test_a_damaged_one_is_one_line(
        self, damage: Callable[[Path], None], words: str, folder: Path, net: ResMLP
    ) -> None:
        sharded(net.state_dict(), folder, "model.safetensors", save_file)
        damage(folder)
        with pytest.raises(UnreadableInput, match=words) as caught:
            measured(index_of(folder))
        assert "\n" not in str(caught.value)


def part_of(folder: Path) -> Path:
    return folder / "model-00002-of-00002.safetensors"


def index_of(folder: Path) -> Path:
    return folder / "model.safetensors.index.json"


class TestDistributed:
    @pytest.fixture
    def folder(self, net: ResMLP, tmp_path: Path) -> Path:
        import torch.distributed.checkpoint as dcp

        folder = tmp_path / "dfa_s7"
        with pytest.warns(UserWarning):
            dcp.save({"model": net.state_dict()}, checkpoint_id=folder)
        return folder

    def test_is_one_row_that_says_how_to_convert_it(
        self, folder: Path, plain: tuple[Any, ...]
    ) -> None:
        (row,) = scan([folder.parent]).rows
        assert (row.key, row.method, row.seed) == ("dfa_s7", "dfa", 7)
        assert homes([row.source]) == [str(folder.parent)]
        assert row.checkpoint is not None
        with pytest.raises(UnreadableInput) as caught:
            measured(Path(row.checkpoint))
        command = str(caught.value).partition("convert it: python ")[2]
        words = command.split()
        assert words[:2] == ["-m", "torch.distributed.checkpoint.format_utils"]
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        dcp_to_torch_save(*words[3:])
        assert numbers(measured(Path(words[4]))) == plain

    def test_its_metadata_are_never_unpickled(self, folder: Path) -> None:
        class Trap:
            def __reduce__(self) -> Any:
                return (Path.touch, (folder / "sprung",))

        (folder / ".metadata").write_bytes(pickle.dumps(Trap()))
        (row,) = scan([folder]).rows
        assert row.checkpoint is not None
        with pytest.raises(UnreadableInput, match="dcp_to_torch"):
            measured(Path(row.checkpoint))
        assert not (folder / "sprung").exists()

    def test_hidden_files_of_other_programs_are_no_checkpoints(self, tmp_path: Path) -> None:
        (tmp_path / ".metadata").mkdir()
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / ".metadata").write_text("made by another program")
        found = scan([tmp_path])
        assert not found.rows and [problem.path for problem in found.problems] == [str(tmp_path)]
