import struct
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fa_core.errors import UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import fitted


@pytest.fixture
def weights():
    return {"head.weight": torch.arange(6.0).reshape(2, 3), "head.bias": torch.zeros(2)}


def test_safetensors_come_with_their_metadata(tmp_path, weights):
    path = tmp_path / "dfa.bin"
    save_file(weights, path, {"method": "dfa", "seed": "42"})
    checkpoint = load_checkpoint(path)
    assert torch.equal(checkpoint.tensors["head.weight"], weights["head.weight"])
    assert checkpoint.metadata == {"method": "dfa", "seed": "42"}


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_orig_mod.module."])
def test_prefixes_of_wrapped_networks_are_taken_off(tmp_path, weights, prefix):
    torch.save({prefix + name: tensor for name, tensor in weights.items()}, tmp_path / "a.pt")
    checkpoint = load_checkpoint(tmp_path / "a.pt")
    assert set(fitted(checkpoint, weights).tensors) == set(weights)
    assert fitted(checkpoint, {**weights, "more": weights["head.bias"] + 1}) is checkpoint


def test_a_torchscript_program_is_not_run(tmp_path):
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), path)
    with pytest.raises(UnsafeCheckpoint, match=r"TorchScript.*torch\.jit\.load"):
        load_checkpoint(path)


@pytest.mark.parametrize("kept", [9, 20, 40, -1, -60])
@pytest.mark.parametrize("kind", ["zip format", "old format", "safetensors"])
def test_a_truncated_file_is_one_line(tmp_path, kind, kept):
    path = tmp_path / "a.pt"
    content = {"w": torch.randn(64, 64)}
    if kind == "safetensors":
        save_file(content, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=kind == "zip format")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UnreadableInput) as caught:
        load_checkpoint(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x00\x00\x00 ftypisom", "is no checkpoint"),
        (struct.pack("<Q", 1 << 30) + b"{" + b" " * 100, "header.*too large"),
    ],
)
def test_a_large_file_that_is_no_checkpoint_is_refused_from_its_head(tmp_path, head, words):
    path = tmp_path / "video.pt"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(2 << 30)
    with pytest.raises(UnreadableInput, match=words):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("weights\n" * 9), "is no checkpoint"),
        (
            lambda path: zipfile.ZipFile(path, "w").writestr("a.txt", "x"),
            "torch.save did not write",
        ),
    ],
    ids=["empty", "text", "other zip"],
)
def test_what_is_no_checkpoint_says_what_it_is(tmp_path, make, words):
    path = tmp_path / "a.pt"
    make(path)
    with pytest.raises(UnreadableInput, match=words):
        load_checkpoint(path)


class TestParts:
    """Several modules in one flat mapping."""

    def test_a_network_next_to_its_loss_is_taken_from_lightning(self, tmp_path, weights):
        flat = {f"model.{name}": tensor for name, tensor in weights.items()} | {
            "loss.weight": torch.ones(3)
        }
        torch.save({"state_dict": flat, "epoch": 3}, tmp_path / "a.ckpt")
        found = fitted(load_checkpoint(tmp_path / "a.ckpt"), weights)
        assert list(found.tensors) == list(weights)
        assert found.taken == "weights from 'state_dict.model'; not used: state_dict.loss, epoch"
        named = fitted(load_checkpoint(tmp_path / "a.ckpt", "model"), weights)
        assert (named.tensors.keys(), named.taken) == (found.tensors.keys(), found.taken)

    def test_of_a_student_and_its_teacher_either_may_be_named(self, tmp_path, weights):
        flat = {f"teacher.{name}": tensor + 1 for name, tensor in weights.items()}
        flat |= {f"student.net.{name}": tensor for name, tensor in weights.items()}
        save_file(flat, tmp_path / "a.safetensors")
        found = fitted(load_checkpoint(tmp_path / "a.safetensors"), weights)
        assert torch.equal(found.tensors["head.weight"], weights["head.weight"])
        said = (
            "weights from 'student'; 'teacher' fits too (--weights teacher); names without 'net.'"
        )
        assert found.taken == said
        named = fitted(load_checkpoint(tmp_path / "a.safetensors", "teacher"), weights)
        assert torch.equal(named.tensors["head.weight"], weights["head.weight"] + 1)
        assert named.taken == "weights from 'teacher'; not used: student"
        with pytest.raises(UsageError, match=r"holds no --weights ema; it holds student, teacher"):
            load_checkpoint(tmp_path / "a.safetensors", "ema")
