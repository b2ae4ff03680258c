"""How much memory one more member of a group takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fa_core.measure.borrow import borrow, target_dtype


def bytes_per_member(network: nn.Module, batches: Sequence[tuple[Tensor, Tensor]], test_batch: int) -> int:
    """Memory that measuring `network` in a group takes; free memory divided by it is the size of a group.

        weights: as they are and once more in the stack;
        + max(2·A·B, 4·M·T): A = bytes that one sample's forward pass makes, kept for the backward pass and once
          more for its gradients; M = the largest of its tensors; B, T = samples per eval and test batch.

    Found by running one sample; an estimate, on the safe side. The samples themselves are shared, and not in it.

    Args:
        network: on its device.
        batches: eval batches.
        test_batch: T.
    """
    tensors = [*network.parameters(), *network.buffers()]
    held = sum(tensor.nbytes for tensor in tensors)
    target = target_dtype(network)
    stacked = sum(t.numel() * (target.itemsize if target and t.is_floating_point() else t.itemsize) for t in tensors)
    made = _Made()
    try:
        with borrow(network) as net, torch.no_grad(), made:
            x = torch.as_tensor(batches[0][0])[:1]
            net.model(x.to(device=net.device, dtype=net.dtype if x.is_floating_point() else None))
    except Exception:
        # what it needs will show when it is measured, if it can be
        pass
    largest = max((len(y) for _, y in batches), default=0)
    return held + stacked + max(2 * sum(made.sizes) * largest, 4 * max(made.sizes, default=0) * test_batch)


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sizes in bytes of the tensors that operations made; views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        output = func(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.sizes.append(tensor.nbytes)
        return output
