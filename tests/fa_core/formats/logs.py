"""Logs as the field's tools write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def lines(path: Path, *entries: Mapping[str, Any]) -> Path:
    """An object a line."""
    return put(path, "\n".join(map(json.dumps, entries)) + "\n")


def trainer(folder: Path, epochs: int = 2) -> Path:
    """The state of transformers' Trainer with the monitor's callback."""
    history: list[dict[str, Any]] = []
    for epoch in range(1, epochs + 1):
        at = {"epoch": float(epoch), "step": 10 * epoch}
        history += [
            {"epoch": epoch - 0.5, "step": 10 * epoch - 5, "loss": 2.0, "grad_norm": 1.5},
            {**at, "eval_accuracy": 0.99},
            {**at, "fa/acc": epoch / 100, "fa/growth": 2.0},
        ]
    state = {"global_step": 10 * epochs, "log_history": history}
    return put(folder / "trainer_state.json", json.dumps(state))


def events(path: Path, at: Mapping[int, Mapping[str, float]], tensors: bool = False) -> Path:
    """An event file in TensorBoard's framing; the checksums, which no reader here looks at, are 0."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [b"\x09" + struct.pack("<d", 1.0) + _bytes(3, b"brain.Event:2")]
    for step, scalars in at.items():
        values = b""
        for tag, value in scalars.items():
            number = struct.pack("<f", value)
            held = _bytes(8, b"\x08\x01" + _bytes(4, number)) if tensors else b"\x15" + number
            values += _bytes(1, _bytes(1, tag.encode()) + held)
        records.append(
            b"\x09" + struct.pack("<d", 2.0) + b"\x10" + _varint(step) + _bytes(5, values)
        )
    path.write_bytes(
        b"".join(struct.pack("<Q", len(data)) + bytes(4) + data + bytes(4) for data in records)
    )
    return path


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data
