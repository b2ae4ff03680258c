"""The protocol, watching a training loop that is not ours.

    monitor = ProtocolMonitor(model, eval_batches, every=390, on_fire=print)
    for x, y in loader:
        ...
        monitor.step()

`fa_core.monitor.lightning_callback` and `fa_core.monitor.trainer_callback` do the same for Lightning and
for transformers' Trainer; each needs its library, which nothing else here does.
"""

from fa_core.monitor.watch import Firing, ProtocolMonitor

__all__ = ["Firing", "ProtocolMonitor"]
