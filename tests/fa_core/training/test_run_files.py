"""The weights file of a run folder."""

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from fa_core.report.manifest import WEIGHTS, Manifest
from fa_core.training.run_files import RunWriter


def test_weights_come_back_bit_for_bit_with_what_they_are_of(tmp_path):
    manifest = Manifest(method="bp", arch="resmlp", data="digits", seed=42)
    weights = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3)}
    weights["b"].view(torch.int32)[1] ^= 1
    RunWriter(tmp_path).weights(manifest, weights, {})
    back = load_file(tmp_path / WEIGHTS)
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in weights.items())
    with safe_open(tmp_path / WEIGHTS, "pt") as file:
        assert file.metadata() == {"method": "bp", "seed": "42", "epoch": "0", "arch": "resmlp"}
