"""Backward passes of the user's own: with them autograd's gradient need not be the gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction


def custom_functions(output: Tensor) -> list[str]:
    """Names of the custom `torch.autograd.Function`s in the graph of a tensor, sorted; torch's own left out.

    Feedback alignment is often written as a Function whose backward multiplies by a fixed random matrix.
    Autograd through such a network gives the method's credit signal where the BP gradient is wanted:
    Γ would read 1, and (b) and (c) would judge the wrong vector.

    >>> import torch
    >>> class Feedback(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return -g
    >>> custom_functions(Feedback.apply(torch.ones(1, requires_grad=True)) + 1)
    ['Feedback']
    """
    functions = {node._forward_cls for node in backward_functions(output)}
    return sorted({function.__name__ for function in functions if function.__module__.split(".")[0] != "torch"})


def backward_functions(output: Tensor) -> list[Any]:
    """The nodes in the graph of a tensor that a Python `torch.autograd.Function` made, torch's own among them."""
    seen: set[Any] = set()
    waiting: list[Any] = [output.grad_fn]
    found = []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [source for source, _ in node.next_functions]
        if isinstance(node, BackwardCFunction):
            found.append(node)
    return found
