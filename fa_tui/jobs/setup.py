"""How an explorer measures, as one value. Imports nothing that measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from fa_core.engine import MeasureOptions, Placement


class Setup(msgspec.Struct, frozen=True):
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

    def as_options(self) -> list[str]:
        """The options of `fa-tui open` that measure so, those that are as without them left out.

        >>> from fa_core.engine import MeasureOptions, Placement
        >>> Setup(Placement(device="cpu"), MeasureOptions(data="digits", taps=["embed", "blocks.*"])).as_options()
        ['--device', 'cpu', '--data', 'digits', '--taps', 'embed,blocks.*']
        """
        from fa_core.engine.devices import Placement

        said = self.placement or Placement()
        usual = {name: getattr(Placement(), name) for name in said.__struct_fields__}
        given = {name: value for name in usual if (value := getattr(said, name)) != usual[name]}
        if self.options is not None:
            given |= {"data": self.options.data, "model": self.options.model, "taps": ",".join(self.options.taps)}
        return [word for name, value in given.items() if value for word in (f"--{name}", str(value))]

    def preferring(self, device: str) -> Setup:
        """This one, on the device that the person prefers where nothing but this machine was said."""
        from fa_core.engine.devices import LOCAL, Placement

        said = Placement() if self.placement is None else self.placement
        if (said.engine, said.device) != (LOCAL, "auto"):
            return self
        return msgspec.structs.replace(self, placement=msgspec.structs.replace(said, device=device))
