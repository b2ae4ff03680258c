"""Choice of the taps: the caller's, the network's own stream, or a guess."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.gradients import Stream
from fa_core.measure.graph import node_of, unlinked
from fa_core.measure.guess import guess_taps
from fa_core.measure.hooks import READS
from fa_core.measure.isolate import Inputs
from fa_core.measure.patterns import split_patterns
from fa_core.measure.taps import (
    ModuleTaps,
    ReadTaps,
    ReturnedStream,
    Tapped,
    Taps,
    own_stream,
    plain_logits,
)


class GuessedTaps:
    """Taps that are guessed from the first batch.

    Args:
        on_note: called with a note on the guess, before the first pass.

    Attributes:
        taps: the guess; empty before the first batch.
    """

    def __init__(self, on_note: Callable[[str], None] | None = None) -> None:
        self.taps: list[str] = []
        self._on_note = on_note

    def choose(self, model: nn.Module, x: Inputs) -> Tapped:
        """Guess the taps by a forward pass (see `guess_taps`)."""
        self.taps = guess_taps(model, x)
        if self._on_note is not None:
            self._on_note(guess_note(self.taps))
        return _by_names(model, self.taps)

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        """The logits alone, (B, C), without a graph."""
        return plain_logits(model, x)


def guess_note(taps: Sequence[str]) -> str:
    """The report's note on guessed taps."""
    note = f"taps guessed: '{','.join(taps)}'"
    if len(taps) > 1:
        return note
    return f"{note}; no module gives what feeds the first block: h_0 is its output"


def resolve_taps(
    model: nn.Module, taps: Taps = None, on_note: Callable[[str], None] | None = None
) -> Tapped | GuessedTaps:
    """The taps of `model` for a caller's ``taps``.

    Args:
        model: the network.
        taps: None for the model's own ``model(x, return_hidden=True) -> (logits, [h_0..h_L])``, or
            without one for a guess (`guess_taps`). Module-name patterns (``*`` and ``?`` within one
            part of a dotted name) tap the modules' outputs, in the order of the forward pass; with
            ``:in`` their inputs (``blocks.*:in, head:in``). Or a function (model, x) -> (logits,
            states).
        on_note: called with a note on guessed taps, before the first pass.

    Raises:
        TapError: a pattern that names no module; lists candidates.

    Source: docs/formats.md, "Taps".
    """
    if taps is None:
        if _returns_hidden(model):
            return ReturnedStream(own_stream, "return_hidden=True")
        return GuessedTaps(on_note)
    if callable(taps):
        return ReturnedStream(taps, getattr(taps, "__name__", "taps"))
    return _by_names(model, taps)


def _by_names(model: nn.Module, taps: str | Sequence[str]) -> Tapped:
    """Taps by pattern: at the modules' outputs, or with ``:in`` at their inputs."""
    if any(part.endswith(READS) for part in split_patterns(taps)):
        return ReadTaps(model, taps)
    return ModuleTaps(model, taps)


def _returns_hidden(model: nn.Module) -> bool:
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return False
    if "return_hidden" in parameters:
        return True
    # a wrapper that forwards all arguments, such as DataParallel
    wrapped = getattr(model, "module", None)
    passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return passes_on and isinstance(wrapped, nn.Module) and _returns_hidden(wrapped)


def bypass_note(stream: Stream) -> str:
    """Note on a returned stream with more than half of its states bypassed; else ""."""
    unread, bypassed = _links(stream)
    if unread or not bypassed:
        return ""
    l = bypassed[0]
    after = f"h_{l + 1}" if l + 1 < len(stream.names) else "the logits"
    return f"{after} depends on h_{l - 1} past h_{l}: the states may be outputs of branches"


def _links(stream: Stream) -> tuple[list[int], list[int]]:
    """The states that the next one does not read; the bypassed ones, if more than half are."""
    states = len(stream.cuts)
    if states < 2 or states != len(stream.names):
        return [], []
    unread, bypassed = unlinked(node_of(stream.logits), stream.cuts)
    if 2 * len(bypassed) < states:
        bypassed = []
    return unread, bypassed


def check_stream(stream: Stream) -> None:
    """Refuse module taps that are no stream: more than half of the states are bypassed.

    Examples: outputs of blocks that the network adds itself, ``h + block(h)``, and outputs of norms
    in front of blocks. A single long skip connection is accepted.

    Raises:
        TapError: names two taps.

    Source: docs/formats.md, "Taps".
    """
    unread, bypassed = _links(stream)
    names = [f"h_{l} ({name})" for l, name in enumerate(stream.names)] + ["what follows"]
    # logits that do not depend on a tap are refused in the backward pass
    if unread and unread[0] + 1 < len(stream.names):
        l = unread[0]
        what = f"{names[l + 1]} does not depend on {names[l]}"
    elif bypassed:
        l = bypassed[0]
        what = f"past {names[l]}, {names[l + 1]} depends on {names[l - 1]}"
    else:
        return
    raise TapError(
        f"the taps are no stream: {what}",
        hint="where the network adds h + block(h), tap what its blocks and the module behind them "
        "read: 'blocks.*:in,head:in'; else tap the states themselves, or give a function "
        "(model, x) -> (logits, [h_0..h_L])",
    )
