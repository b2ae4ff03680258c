"""What every command that measures takes: where, and how many runs at a time."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from fa_core.engine.placement import Placement
from fa_tui.shell.bundles import Bundle, unbundled


class Engine(str, enum.Enum):
    """Where measuring happens."""

    local = "local"
    ray = "ray"


OPTIONS: dict[str, Any] = {
    "device": Annotated[
        str, typer.Option("--device", help="auto, cpu, cuda:all, cuda:1, or several with commas: one worker each.")
    ],
    "jobs": Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Workers at a time.", show_default="one per device")
    ],
    "group": Annotated[
        int | None,
        typer.Option(
            "--group",
            metavar="N",
            min=1,
            help="Networks of one architecture measured at once by a worker; 1: one by one. The numbers are the same.",
            show_default="as memory allows on a GPU, 1 on a CPU",
        ),
    ],
    "engine": Annotated[
        Engine, typer.Option("--engine", help="Where: worker processes of this machine, or a Ray cluster (extra ray).")
    ],
    "address": Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster's head, or auto: the one that runs here (RAY_ADDRESS).",
            show_default="auto; if there is none, Ray on this machine",
        ),
    ],
    "patience": Annotated[
        float | None,
        typer.Option(
            "--patience",
            metavar="SECONDS",
            min=1,
            help="On a cluster: a run is tried on another node too after this long without a word.",
            show_default="10 times the longest pause so far, at least 30",
        ),
    ],
}
"""The options by the attributes of a `Placement`."""


def placing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that declares ``placement: Placement`` the options that make one, in its place."""
    defaults = {**{name: getattr(Placement(), name) for name in OPTIONS}, "engine": Engine.local}
    options = {name: (annotation, defaults[name]) for name, annotation in OPTIONS.items()}
    return unbundled(command, {"placement": Bundle(options, placement_in)})


def placement_in(values: Mapping[str, Any]) -> Placement:
    """The placement among a command's values."""
    given = {name: values[name] for name in OPTIONS}
    return Placement(**{**given, "engine": Engine(given["engine"]).value})
