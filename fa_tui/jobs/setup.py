"""How an explorer measures, as one value. Imports nothing that measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fa_core.engine import MeasureOptions, Placement


class Setup(NamedTuple):
    """How an explorer measures. What is None is as the protocol and the manifests say.

    Attributes:
        placement: where.
        options: which data, network and settings.
        out: results file for checkpoints that lie in no run folder.
        measure: ``module:callable`` that workers measure with (tests bring their own).
    """

    placement: Placement | None = None
    options: MeasureOptions | None = None
    out: Path | None = None
    measure: str | None = None

    def preferring(self, device: str) -> Setup:
        """This one, on the device that the person prefers where nothing but this machine was said."""
        from msgspec.structs import replace

        from fa_core.engine.placement import LOCAL, Placement

        said = Placement() if self.placement is None else self.placement
        if (said.engine, said.device) != (LOCAL, "auto"):
            return self
        return self._replace(placement=replace(said, device=device))
