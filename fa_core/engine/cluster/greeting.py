"""What listens at an address: a server of gRPC, as the head of a Ray cluster is one, or something else.

One call of gRPC's health service, written by hand: Ray's own client takes seconds to import, waits for a minute where
nobody answers, and names no reason. Any answer in gRPC will do, also that it has no such service or wants a token.

Source: RFC 9113 (HTTP/2 frames), RFC 7541 (HPACK), and gRPC's "gRPC over HTTP2".
"""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
KNOWN = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITY, ACK = 0x1, 0x4, 0x8, 0x20, 0x1
STATUS_200 = 0x88
"""HPACK's one byte for ``:status: 200``, which every answer in gRPC has."""

LARGEST_FRAME = 1 << 14
"""Bytes a frame may have before anybody has agreed to more."""


class Answer(enum.Enum):
    """Who listens there."""

    grpc = "a server of gRPC"
    other = "something else"
    silent = "something that says nothing"


def greet(host: str, port: int, seconds: float) -> Answer:
    """Call the server there, and see how it answers.

    Args:
        host, port: where.
        seconds: how long connecting and answering may take together.

    Raises:
        OSError: nobody accepts a connection.
    """
    until = time.monotonic() + seconds
    with socket.create_connection((host, port), timeout=seconds) as line:
        try:
            line.sendall(PREFACE + _frame(SETTINGS, 0, 0, b"") + _call(f"{host}:{port}"))
            return _listen(line, until)
        except TimeoutError:
            return Answer.silent
        except OSError:
            return Answer.other  # it hung up on what it does not understand


def _listen(line: socket.socket, until: float) -> Answer:
    heard = b""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return Answer.silent
        line.settimeout(left)
        more = line.recv(1 << 16)
        if not more:
            return Answer.other
        heard += more
        while len(heard) >= 9:
            size, kind, flags = int.from_bytes(heard[:3], "big"), heard[3], heard[4]
            if kind not in KNOWN or size > LARGEST_FRAME:
                return Answer.other  # "HTTP/1.1 400" reads as a frame of 4 MB
            if len(heard) < 9 + size:
                break
            frame, heard = heard[9 : 9 + size], heard[9 + size :]
            if kind == HEADERS:
                return Answer.grpc if _is_200(frame, flags) else Answer.other
            if kind in (RST_STREAM, GOAWAY):
                return Answer.other
            if kind == SETTINGS and not flags & ACK:
                with contextlib.suppress(OSError):
                    line.sendall(_frame(SETTINGS, ACK, 0, b""))


def _is_200(frame: bytes, flags: int) -> bool:
    block = frame[flags & PADDED and 1 :][flags & PRIORITY and 5 :]
    # a change of the size of its table may go first: 001xxxxx, and more bytes where these five bits are all set
    while block and block[0] & 0xE0 == 0x20:
        more = block[0] & 0x1F == 0x1F
        block = block[1:]
        while more and block:
            more = bool(block[0] & 0x80)
            block = block[1:]
    return block[:1] == bytes([STATUS_200])


def _call(authority: str) -> bytes:
    """Frames of ``/grpc.health.v1.Health/Check`` with an empty request, on stream 1."""
    fields = {":path": "/grpc.health.v1.Health/Check", ":authority": authority, "te": "trailers"}
    fields["content-type"] = "application/grpc"
    # 0x83, 0x86: ``:method: POST`` and ``:scheme: http`` of HPACK's table; the others as they are, not to be indexed
    block = b"\x83\x86" + b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields.items())
    nothing = struct.pack(">BI", 0, 0)
    return _frame(HEADERS, END_HEADERS, 1, block) + _frame(DATA, END_STREAM, 1, nothing)


def _text(text: str) -> bytes:
    raw = text.encode()[:126]
    return bytes([len(raw)]) + raw


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + content
