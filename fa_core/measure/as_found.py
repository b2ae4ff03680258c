"""A borrowed network comes back exactly as it was found, whatever happened in between."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def as_found(model: nn.Module) -> Iterator[nn.Module]:
    """Lend `model` out and restore it: modes, requires_grad, .grad, buffers, and the random state.

    Restored also when the body raises:
        - ``training`` of every submodule by itself (a frozen BatchNorm inside a training net stays frozen),
        - ``requires_grad`` and the identity of ``.grad`` of every parameter,
        - identity and content of every buffer,
        - the random generators of torch (CPU and every CUDA device in use), NumPy and Python.

    Source: DESIGN, library contract ("the model comes back as it went in").

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> _ = net[1].eval()
    >>> with as_found(net):
    ...     _ = net.eval().requires_grad_(False)
    >>> net.training, net[1].training, net[0].weight.requires_grad
    (True, False, True)
    """
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer._version, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    with _same_random_state():
        try:
            yield model
        finally:
            for module, training in modes:
                module.training = training
            for parameter, requires_grad, grad in parameters:
                parameter.requires_grad_(requires_grad)
                parameter.grad = grad
            for module, name, buffer, version, content in buffers:
                module._buffers[name] = buffer
                _restore(buffer, version, content)


def _restore(buffer: Tensor, version: int, content: Tensor) -> None:
    # writing bumps the version, which would break a graph of the caller's that saved this buffer
    if buffer._version != version or not torch.equal(buffer, content):
        with torch.no_grad():
            buffer.copy_(content)


@contextmanager
def _same_random_state() -> Iterator[None]:
    numpy: Any = sys.modules.get("numpy")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state(legacy=False) if numpy else {}
    cuda: Any = torch.cuda
    devices = range(torch.cuda.device_count()) if cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy_state.get("bit_generator") == "MT19937":
                numpy.random.set_state(numpy_state)
            elif numpy:
                # one that the caller put in its place: `set_state` refuses those
                numpy.random.get_bit_generator().state = numpy_state
