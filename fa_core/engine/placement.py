"""Where runs are measured and how many at a time, as one value."""

from __future__ import annotations

import msgspec

from fa_core.engine.devices import resolve_devices
from fa_core.errors import UsageError
from fa_core.naming import unknown_name

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)

CLUSTER_DEVICES = ("auto", "cpu", "cuda", "cuda:all")
"""What may be asked of a cluster; which of its devices a job gets is Ray's business."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are measured, and how many at a time. What is None is found out where it is needed.

    Attributes:
        engine: ``"local"`` (worker processes of this machine) or ``"ray"`` (a cluster).
        device: ``"auto"`` (every CUDA device, else the CPU) and what else `resolve_devices` knows; of a cluster
            ``"auto"`` (a GPU per job where it has any, else a core), ``"cpu"`` or ``"cuda"``.
        jobs: workers; None = one per device, on a CPU more for many runs (see `workers_for`). On a cluster, batches
            of jobs that Ray gets at a time; None = twice as many as it has places.
        group: networks that a worker measures at once; None = as its memory allows on CUDA, else 1.
        address: ``host:port`` of the cluster's head; ``"auto"`` = the running one (RAY_ADDRESS, or this machine's);
            None = the running one, or else one that is started on this machine for as long as it is needed.
        patience: seconds without a word after which a cluster's job is tried on another node; None = learned from
            the jobs (see `fa_core.engine.cluster.patience`).
    """

    engine: str = LOCAL
    device: str = "auto"
    jobs: int | None = None
    group: int | None = None
    address: str | None = None
    patience: float | None = None

    def check(self) -> None:
        """Refuse what cannot be meant. No cluster is asked anything.

        Raises:
            UsageError: an engine or a device that is not there, numbers below 1, no patience at all, an address without
                a cluster to go to, or one that is none.
        """
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        for name in ("jobs", "group"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise UsageError(f"--{name} {count}", hint="give at least 1")
        # NaN is above nothing
        if self.patience is not None and not self.patience > 0:
            raise UsageError(f"--patience {self.patience:g}", hint="give seconds above 0")
        if self.engine == LOCAL:
            self._check_local()
        else:
            self._check_cluster()

    def _check_local(self) -> None:
        for name in ("address", "patience"):
            if getattr(self, name) is not None:
                raise UsageError(f"--{name} is of a Ray cluster", hint="add --engine ray")
        if self.device != "auto":
            resolve_devices(self.device)

    def _check_cluster(self) -> None:
        if self.device not in CLUSTER_DEVICES:
            raise UsageError(
                f"--device {self.device} with --engine ray", hint=f"Ray picks it: {', '.join(CLUSTER_DEVICES)}"
            )
        from fa_core.engine.cluster.address import named_address

        named_address(self.address)
