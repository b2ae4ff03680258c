"""Whether a cluster can be asked at all, found out without importing ray."""

from __future__ import annotations

import importlib.util
import os
import socket

from fa_core.engine.cluster.greeting import Answer, greet
from fa_core.errors import FaError, MeasureError, UsageError, missing_package

KNOCK = 4.0
"""Seconds that an address may take to accept a connection, and to answer a call: a head takes milliseconds."""

TLS = "RAY_USE_TLS"
"""Ray's own variable: its servers then answer nobody without a certificate, and we only knock."""

HOW_TO_START = "`ray start --head` starts a cluster on this machine"


def how_to_join(address: str) -> str:
    """The command that makes a machine a node of the cluster there."""
    return f"`ray start --address={address}`"


def check_address(address: str | None) -> None:
    """Refuse what cannot become a cluster, before anything of Ray starts.

    Args:
        address: ``host:port``, ``auto``, or None.

    Raises:
        UsageError: see `named_address`.
        MeasureError: nobody listens there, or what does is no Ray cluster.
    """
    named = named_address(address)
    if named is None:
        return
    host, _, port = named.rpartition(":")
    try:
        if os.environ.get(TLS, "0").lower() in ("1", "true"):
            socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
            return
        answer = greet(host.strip("[]"), int(port), KNOCK)
    except OSError as error:
        raise no_answer(named, error.strerror or str(error)) from error
    if answer is Answer.silent:
        raise no_answer(named, "something listens there and says nothing")
    if answer is Answer.other:
        raise no_cluster(named)


def named_address(address: str | None) -> str | None:
    """The ``host:port`` that somebody named; None = the one that Ray finds here. Nobody is asked.

    Args:
        address: ``host:port``, ``auto``, or None; the last two look at RAY_ADDRESS first, as Ray does.

    Raises:
        UsageError: ray is not installed, or an address that is none.
    """
    if importlib.util.find_spec("ray") is None:
        raise missing_package("ray", "--engine ray")
    named = address if address not in (None, "auto") else os.environ.get("RAY_ADDRESS") or None
    if named is None or named in ("auto", "local"):
        return None
    if named.startswith("ray://"):
        raise UsageError(
            f"--address {named}: Ray's client protocol cannot stream results",
            hint="run on a node of the cluster, with --address auto or --address HEAD:6379",
        )
    host, _, port = named.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--address {named!r} is not HOST:PORT", hint="write e.g. --address 10.0.0.1:6379, or auto")
    return named


def no_entry(address: str, seconds: float) -> FaError:
    """What to say about a cluster that answers and could not be joined; ``""`` = one of this machine's own."""
    if not address:
        return MeasureError(f"Ray did not start on this machine within {seconds:.0f} s", hint=HOW_TO_START)
    return MeasureError(
        f"the Ray cluster at {address} answers, but this machine could not join it within {seconds:.0f} s",
        hint=f"it must be one of its nodes: {how_to_join(address)}",
    )


def no_cluster(address: str) -> FaError:
    """What to say about a server that is no head of a Ray cluster."""
    return MeasureError(
        f"what answers at {address} is not a Ray cluster",
        hint="give host and port as `ray start --head` tells them; the port is 6379 unless it was given another",
    )


def no_answer(address: str | None, why: str = "") -> FaError:
    """What to say about a cluster that is silent."""
    reason = f" ({why})" if why else ""
    if address in (None, "auto"):
        hint = f"`ray stop` forgets one that is gone; {HOW_TO_START}"
        return MeasureError(f"the Ray cluster of this machine does not answer{reason}", hint=hint)
    return MeasureError(f"no Ray cluster answers at {address}{reason}", hint=f"is it up? {HOW_TO_START}")
