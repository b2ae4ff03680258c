"""The process that asks torch for its version and GPUs; prints them as JSON."""

from __future__ import annotations

import json

import torch


def main() -> None:
    """Print ``[version, [[name, bytes, UUID], …]]``."""
    found = []
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        # some builds for ROCm have no UUIDs
        found.append([gpu.name, gpu.total_memory, str(getattr(gpu, "uuid", ""))])
    print(json.dumps([torch.__version__, found]))


if __name__ == "__main__":
    main()
