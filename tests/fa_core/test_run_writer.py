"""The weights file of a run folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from fa_core.data import SPECS
from fa_core.engine.jobs import DATA_SETS
from fa_core.run_writer import RunWriter
from fa_core.runs import WEIGHTS, Manifest


def test_equal_weights_are_equal_files_and_one_bit_makes_another(tmp_path: Path) -> None:
    manifest = Manifest(method="bp", arch="resmlp", data="digits", seed=42)
    weights = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3)}
    files = set()
    for number in range(12):
        writer = RunWriter(tmp_path / str(number))
        writer.weights(manifest, weights, {})
        files.add((writer.folder / WEIGHTS).read_bytes())
    (content,) = files
    assert content.index(b'"arch"') < content.index(b'"epoch"') < content.index(b'"method"') < content.index(b'"seed"')
    back = load_file(tmp_path / "0" / WEIGHTS)
    assert all(torch.equal(back[name], tensor) for name, tensor in weights.items())
    weights["b"].view(torch.int32)[1] ^= 1
    RunWriter(tmp_path).weights(manifest, weights, {})
    assert (tmp_path / WEIGHTS).read_bytes() != content


def test_the_data_sets_known_without_torch_are_those_that_load() -> None:
    assert list(DATA_SETS) == list(SPECS)
