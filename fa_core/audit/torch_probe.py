"""The process that asks torch for its version and GPUs; prints a `devices.TorchAnswer`."""

from __future__ import annotations

import json

import torch

if __name__ == "__main__":
    names = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
    gpus = {f"cuda:{index}": name for index, name in enumerate(names)}
    if torch.backends.mps.is_available():
        gpus["mps"] = "Apple GPU"
    print(json.dumps({"version": str(torch.__version__), "gpus": gpus}))
