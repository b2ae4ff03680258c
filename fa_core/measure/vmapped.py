"""Networks of one architecture run together by `vmap`: passes, accuracy and memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fa_core.measure.accuracy import Float64Twin, decide, is_correct, near_ties
from fa_core.measure.batch_input import Batch, as_batch, to_device
from fa_core.measure.gradients import Stream
from fa_core.measure.hooks import Args, Kwargs
from fa_core.measure.isolate import Inputs, call_model, eval_mode, select_samples, target_dtype


def named_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return dict(chain(network.named_parameters(), network.named_buffers()))


class VmappedNetworks:
    """N built-in networks that differ only in the values of their tensors.

    The first axis of all results is the network.

    Args:
        networks: networks of one `kind`; they are only read.
        dtype: the arithmetic; None = their own.
    """

    def __init__(self, networks: Sequence[nn.Module], dtype: torch.dtype | None = None) -> None:
        named = [named_tensors(network) for network in networks]
        self._tensors: dict[str, Tensor] = {}
        for name, first in named[0].items():
            values = [tensors[name].detach() for tensors in named]
            members = torch.stack(values)
            if dtype is not None and first.is_floating_point():
                members = members.to(dtype)
            self._tensors[name] = members.requires_grad_(isinstance(first, nn.Parameter))
        # on the meta device, so that a tensor missing from the stack raises
        skeleton = copy.deepcopy(networks[0])
        self._skeleton = skeleton.to("meta").eval()

    def logits(self, x: Inputs) -> Tensor:
        """Logits of inputs (B, ...): (N, B, C), without a graph."""
        with torch.no_grad():
            logits: Tensor = self._run(x)
        return logits

    def forward(self, x: Inputs) -> Stream:
        """Logits (N, B, C) and states (N, B, ...).

        Their graph starts at the weights, so inputs may be token ids.
        """
        logits, hidden = self._run(x, return_hidden=True)
        names = [f"h_{l}" for l in range(len(hidden))]
        return Stream(logits, hidden, hidden, names)

    def _run(self, x: Inputs, **options: bool) -> Any:
        run_one = partial(functional_call, self._skeleton, kwargs=options)
        return vmap(run_one, in_dims=(0, None))(self._tensors, x)


class VmappedAccuracy:
    """Accuracy of the members of a group, as `AccuracyMeter` counts it for one network.

    Attributes:
        right: (N, B) bool of every batch: whether each prediction is correct.
    """

    def __init__(self) -> None:
        self.right: list[Tensor] = []
        self._near: list[Tensor] = []

    def add(self, logits: Tensor, y: Tensor) -> None:
        """Add one batch: logits (N, B, C), y (B,)."""
        self.right.append(is_correct(logits, y))
        self._near.append(near_ties(logits))

    def decide_near_ties(
        self, networks: Sequence[nn.Module], batch_at: Callable[[int], Batch]
    ) -> None:
        """Run near-ties again in float64, network by network."""
        ends = list(accumulate(near.shape[1] for near in self._near))
        # fetched at once: a transfer per batch would wait for the device each time
        together = torch.cat(self._near, dim=1).cpu().numpy()
        fetched = np.split(together, ends[:-1], axis=1)
        for member, network in enumerate(networks):
            twin = Float64Twin(network)
            for index, near in enumerate(fetched):
                if near[member].any():
                    undecided = torch.from_numpy(near[member])
                    decide(self.right[index][member], undecided, *batch_at(index), twin)


def bytes_per_member(network: nn.Module, batches: Sequence[object], test_batch: int) -> int:
    """Estimate of the memory that one network of a group takes, from running one sample.

    The weights, their copy in the stack, and max(2·A·B, 4·M·T): A = bytes of all tensors that one
    sample's forward pass makes (kept for the backward pass, and once more for the gradients);
    M = bytes of the largest of them; B, T = samples per eval and test batch. The estimate is on the
    safe side; the samples are shared by the group and not included.

    Args:
        network: on its device.
        batches: eval batches.
        test_batch: T.
    """
    weights = 0
    target = target_dtype(network)
    for tensor in named_tensors(network).values():
        converted = target if target and tensor.is_floating_point() else tensor.dtype
        weights += tensor.nbytes + tensor.numel() * converted.itemsize
    made = _Made()
    try:
        with eval_mode(network) as net, torch.no_grad():
            x, _ = to_device(batches[0], 0, net)
            with made:
                call_model(net.model, select_samples(x, slice(1)))
    except Exception:
        # the error shows when the network is measured
        pass
    largest = max((len(as_batch(batch, 0)[1]) for batch in batches), default=0)
    in_eval = 2 * sum(made.sizes) * largest
    in_test = 4 * max(made.sizes, default=0) * test_batch
    return weights + max(in_eval, in_test)


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the sizes in bytes of the tensors that operations make, without views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.sizes.append(tensor.nbytes)
        return output
