import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fa_core.errors import UnreadableInput, UnsafeCheckpoint
from fa_core.measure.checkpoint import load_checkpoint


def test_safetensors_come_with_their_metadata(tmp_path):
    weight = torch.arange(6.0).reshape(2, 3)
    path = tmp_path / "dfa.safetensors"
    save_file({"head.weight": weight}, path, {"method": "dfa", "seed": "42"})
    checkpoint = load_checkpoint(path)
    assert torch.equal(checkpoint.tensors["head.weight"], weight)
    assert checkpoint.metadata == {"method": "dfa", "seed": "42"}
    with pytest.raises(UnreadableInput, match=r"another name; rename it: dfa\.safetensors"):
        load_checkpoint(path.rename(tmp_path / "dfa.bin"))


def test_a_torchscript_program_is_not_run(tmp_path):
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), path)
    with pytest.raises(UnsafeCheckpoint, match=r"TorchScript.*torch\.jit\.load"):
        load_checkpoint(path)


def test_a_program_of_torch_export_names_the_line_that_saves_its_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = nn.Linear(2, 2)
    torch.export.save(torch.export.export(net, (torch.zeros(1, 2),)), "a.pt2")
    with pytest.raises(UnreadableInput, match=r"is a program of torch\.export") as caught:
        load_checkpoint(tmp_path / "a.pt2")
    exec(caught.value.hint.removeprefix("save its weights: "))
    saved = load_checkpoint(tmp_path / "weights.pt").tensors
    assert torch.equal(saved["weight"], net.weight)


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
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"", "is empty"),
        (b"weights\n", "is no checkpoint"),
        (b"\x00\x00\x00 ftypisom", "is no checkpoint"),
        (struct.pack("<Q", 1 << 30) + b"{" + b" " * 100, r"header.*too large"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer, .*; .*git lfs pull"),
        (b"/annex/objects/SHA256E-s9--0.pt\n", "git-annex pointer.*git annex get"),
        (b"<!DOCTYPE html><html>", "web page.*download it again"),
        (b"GGUF\x03\0\0\0", "GGUF"),
        (b"\x89HDF\r\n\x1a\n", "HDF5.*from_numpy"),
        (b"\x08\x07\x12\x07pytorch\x1a", "ONNX graph"),
        (b"\x1f\x8b\x08\0", "archive; unpack it"),
    ],
)
def test_what_is_no_checkpoint_says_from_its_head_what_it_is_and_what_helps(tmp_path, head, words):
    with (tmp_path / "a.pt").open("wb") as file:
        file.write(head)
        file.truncate(2 << 30 if head else 0)
    with pytest.raises(UnreadableInput, match=words):
        load_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize(("entry", "words"), [("a.txt", "torch.save did not"), ("w.npy", "NumPy")])
def test_another_zip_archive_says_what_it_is(tmp_path, entry, words):
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr(entry, "x")
    with pytest.raises(UnreadableInput, match=words):
        load_checkpoint(tmp_path / "a.pt")


ONE, TWO = {"w": torch.ones(2)}, {"w": torch.zeros(2)}


@pytest.mark.parametrize("content", [{**ONE, "": TWO}, {"a.b": ONE, "a": {"b": TWO}}])
def test_two_mappings_of_one_name_are_refused(content, tmp_path):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(UnreadableInput, match="two of its mappings are called '"):
        load_checkpoint(tmp_path / "a.pt")


def test_a_mapping_with_the_keys_of_a_module_is_none(tmp_path):
    torch.save({**ONE, "_parameters": TWO, "_buffers": {}, "_modules": {}}, tmp_path / "a.pt")
    assert torch.equal(load_checkpoint(tmp_path / "a.pt").tensors["w"], ONE["w"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "holds an empty state dict; save it on the process that has the weights"),
        ({"model": {}, "epoch": 1}, "holds an empty state dict"),
        ([torch.zeros(1)], "holds a list, not a state dict"),
        ({"epoch": 1, "lr": 0.1}, r"no state dict \(it holds 'epoch', 'lr'\)"),
        (nn.Parameter(torch.ones(2)), "holds a parameter, not a state dict"),
        ({"w": np.ones(3)}, "turn its NumPy arrays into tensors"),
        ({"w": torch.eye(3).to_sparse()}, r"w is sparse; .*to_dense"),
        ({"w": torch.ones(1).expand(1 << 30)}, "w is no plain tensor .*larger than its file"),
    ],
)
def test_a_file_without_tensors_that_can_be_used_says_what_it_holds(content, message, tmp_path):
    torch.save(content, tmp_path / "dfa_s1.pt")
    with pytest.raises(UnreadableInput, match=message) as caught:
        load_checkpoint(tmp_path / "dfa_s1.pt")
    assert str(caught.value).startswith(str(tmp_path / "dfa_s1.pt"))
