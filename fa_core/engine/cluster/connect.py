"""Finding the cluster, or starting one on this machine. Runs in the driver."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from fa_core.engine.cluster.address import HOW_TO_START, how_to_join, no_cluster
from fa_core.engine.cluster.knocking import Door, answering
from fa_core.errors import FaError, MeasureError

AUTH_MODE = "RAY_AUTH_MODE"

ASK = 4
"""Seconds that the head may take to name its nodes."""

ALIVE = 0
"""Ray's number for a node that is (`GcsNodeInfo.GcsNodeState`)."""

UNIMPLEMENTED = 12
"""gRPC's number for a call that a server does not know."""

STORE = 100 << 20
"""Bytes of Ray's object store where it is started here: reports are a few KB, and go through no store."""


def connect(address: str | None, reached: Callable[[str], None]) -> str:
    """Join a cluster as its driver.

    Args:
        address: ``host:port``; ``auto`` = the running one; None = that, or else one started here, which ends with us.
        reached: told once the head of the cluster has answered, and where it is; ``""`` = Ray is started here.

    Returns:
        Which cluster it is, in words.

    Raises:
        FaError: there is none, or it will not have us.
    """
    running = _find(address)
    if running is None and address is not None:
        raise MeasureError("no Ray cluster runs here", hint=f"{HOW_TO_START}; --address HOST:PORT names another one")
    if running is None:
        reached("")
        ray.init(
            "local", include_dashboard=False, object_store_memory=STORE, log_to_driver=False, configure_logging=False
        )
        return "Ray started on this machine, until this ends"
    try:
        nodes = _living(_await_head(running))
        reached(running)
        if nodes is not None and not any(answering(nodes)):
            raise _no_node(running)
        ray.init(running, log_to_driver=False, configure_logging=False)
    except FaError:
        raise
    except Exception as error:
        raise _unwelcome(running, error) from error
    return f"Ray cluster at {running}"


def _find(address: str | None) -> str | None:
    """``host:port`` of the running cluster; None if there is none. RAY_ADDRESS goes first, as everywhere in Ray.

    Whoever runs a cluster can run code in its drivers: one of another user is joined only when somebody asked for it,
    and the processes of this machine are not searched for one, which Ray would do.
    """
    from ray._private.utils import get_ray_address_file

    named = address if address not in (None, "auto") else os.environ.get("RAY_ADDRESS")
    if named and named != "auto":
        return named if named != "local" else None
    note = Path(get_ray_address_file(None))
    try:
        of_another_user = hasattr(os, "getuid") and note.stat().st_uid != os.getuid()
        return None if address is None and of_another_user else note.read_text().strip() or None
    except OSError:
        return None


def _await_head(address: str) -> Any:
    """The head of the cluster. Hangs where nobody answers; whoever started this process ends it then."""
    raylet: Any = importlib.import_module("ray._raylet")
    _check_token()
    try:
        return raylet.GcsClient(address=address)
    except ray.exceptions.RayError:
        # `ray start` asks for a token where there is one; who connects takes it up only if RAY_AUTH_MODE says so
        if AUTH_MODE in os.environ:
            raise
        tokens: Any = importlib.import_module("ray._private.authentication.authentication_token_setup")
        if not tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False):
            raise
        return raylet.GcsClient(address=address)


def _check_token() -> None:
    """Refuse to go without the token that was promised, which would end this process with a page of C++."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):  # of a Ray that knows no tokens, or others
        tokens: Any = importlib.import_module("ray._private.authentication.authentication_token_setup")
        try:
            tokens.ensure_token_if_auth_enabled(create_token_if_missing=False)
        except (RuntimeError, ray.exceptions.RayError) as error:
            raise MeasureError(
                f"there is no token here, and {AUTH_MODE} is {os.environ.get(AUTH_MODE)}",
                hint="~/.ray/auth_token must be the same on every machine; `ray get-auth-token --generate` makes one",
            ) from error


def _living(head: Any) -> list[Door] | None:
    """The nodes that the head calls alive; None = a Ray that cannot be asked so, and finds out by itself."""
    try:
        nodes = head.get_all_node_info(timeout=ASK).values()
        return [(node.node_manager_address, node.node_manager_port) for node in nodes if node.state == ALIVE]
    except (AttributeError, TypeError, ray.exceptions.RayError):
        return None


def _no_node(address: str) -> FaError:
    return MeasureError(
        f"the Ray cluster at {address} answers but has no live node", hint=f"start one with {how_to_join(address)}"
    )


def _unwelcome(address: str, error: Exception) -> FaError:
    if getattr(error, "rpc_code", None) == UNIMPLEMENTED or "http2 header with status" in str(error):
        return no_cluster(address)  # another server of gRPC, or one that passes calls on to nobody
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = lines[0][:300] if lines else type(error).__name__
    return MeasureError(
        f"the Ray cluster at {address} will not have this machine ({why})",
        hint=f"it must be one of its nodes ({how_to_join(address)}), with the same Ray, Python and token",
    )
