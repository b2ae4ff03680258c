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


def lightning(folder: Path) -> Path:
    """CSVLogger: a row for the training steps and one for the validation of each epoch."""
    rows = ["epoch,step,train_loss_epoch,train_loss_step,val_acc,val_loss,lr-AdamW"]
    for epoch in range(3):
        rows += [f"{epoch},{10 * epoch + 5},,{2 - epoch},,,0.001"]
        rows += [
            f"{epoch},{10 * epoch + 9},,,{0.2 + epoch / 10:.1f},1.5,",
            f"{epoch},{10 * epoch + 9},1.9,,,,",
        ]
    return put(folder / "metrics.csv", "\n".join(rows) + "\n")


def timm(folder: Path) -> Path:
    rows = [
        "epoch,train_loss,eval_loss,eval_top1,eval_top5",
        "0,2.3,2.2,20.5,60",
        "1,2.1,2.0,31.25,70",
    ]
    return put(folder / "summary.csv", "\n".join(rows) + "\n")


def trainer(folder: Path, epochs: int = 2) -> Path:
    history: list[dict[str, Any]] = []
    for epoch in range(1, epochs + 1):
        history += [
            {
                "epoch": epoch - 0.5,
                "step": 10 * epoch - 5,
                "loss": 2.0,
                "grad_norm": 1.5,
                "learning_rate": 1e-4,
            }
        ]
        history += [
            {
                "epoch": float(epoch),
                "step": 10 * epoch,
                "eval_accuracy": min(1.0, epoch / 10),
                "eval_runtime": 1.0,
            }
        ]
    state = {
        "best_metric": 0.2,
        "epoch": float(epochs),
        "global_step": 10 * epochs,
        "log_history": history,
    }
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
