"""Logs as the field's tools write them."""

import json
import struct


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def lines(path, *entries):
    """An object a line."""
    return put(path, "\n".join(map(json.dumps, entries)) + "\n")


def trainer(folder, epochs=2):
    """The state of transformers' Trainer with the monitor's callback."""
    history = []
    for epoch in range(1, epochs + 1):
        at = {"epoch": float(epoch), "step": 10 * epoch}
        history += [
            {"epoch": epoch - 0.5, "step": 10 * epoch - 5, "loss": 2.0, "grad_norm": 1.5},
            {**at, "eval_accuracy": 0.99},
            {**at, "fa/acc": epoch / 100, "fa/growth": 2.0},
        ]
    state = {"global_step": 10 * epochs, "log_history": history}
    return put(folder / "trainer_state.json", json.dumps(state))


def events(path, at, tensors=False):
    """An event file in TensorBoard's framing, with checksums of 0; None begins a session there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [b"\x09" + struct.pack("<d", 1.0) + _bytes(3, b"brain.Event:2")]
    for step, scalars in at.items():
        values = b""
        for tag, value in (scalars or {}).items():
            number = struct.pack("<f", value)
            held = _bytes(8, b"\x08\x01" + _bytes(4, number)) if tensors else b"\x15" + number
            values += _bytes(1, _bytes(1, tag.encode()) + held)
        rest = _bytes(4, b"\x08\x01") if scalars is None else _bytes(5, values)
        records.append(b"\x09" + struct.pack("<d", 2.0) + b"\x10" + _varint(step) + rest)
    path.write_bytes(
        b"".join(struct.pack("<Q", len(data)) + bytes(4) + data + bytes(4) for data in records)
    )
    return path


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _bytes(field, data):
    return _varint(field << 3 | 2) + _varint(len(data)) + data
