"""Servers that are no Ray cluster, on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fa_core.engine.cluster import greeting


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """An HTTP/2 frame."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


SETTINGS = frame(greeting.SETTINGS, 0, 0, b"")
NOT_FOUND, OK = (frame(greeting.HEADERS, greeting.END_HEADERS, 1, bytes([status])) for status in (0x8D, 0x88))
RESIZED_OK = frame(greeting.HEADERS, greeting.END_HEADERS, 1, bytes([0x3F, 0xE1, 0x1F, 0x88]))


@contextmanager
def answering_with(words: bytes | None, *, hang_up: bool = False) -> Iterator[str]:
    """The address of a server that says this to everybody, and then nothing; None = it does not even read."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                kept.append(line)
                with contextlib.suppress(OSError):
                    line.recv(1 << 16)
                    line.sendall(words or b"")
                    if hang_up:
                        line.close()

        if words is not None:
            threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for line in kept:
                line.close()
