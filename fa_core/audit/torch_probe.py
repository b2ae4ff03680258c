"""The process that asks torch for its version and GPUs; prints them as JSON."""

from __future__ import annotations

import json

import torch


def main() -> None:
    """Print ``[version, [name, …]]``."""
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    print(json.dumps([torch.__version__, names]))


if __name__ == "__main__":
    main()
