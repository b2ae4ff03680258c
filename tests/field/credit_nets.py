"""Networks that bring their own backward pass, with their credit a_0..a_L by hand."""

import torch
from torch import nn

from tests.field.residual_nets import C, D, Net


class FeedbackLinear(torch.autograd.Function):
    """W·h; backward through B, as BioTorch's layers have it."""

    @staticmethod
    def forward(ctx, h, weight, feedback):
        ctx.save_for_backward(h, feedback)
        return h @ weight.T

    @staticmethod
    def backward(ctx, g):
        h, feedback = ctx.saved_tensors
        return g @ feedback, g.T @ h, None


class Instead(torch.autograd.Function):
    """Nothing forward; backward a, whatever comes."""

    @staticmethod
    def forward(ctx, h, a):
        ctx.save_for_backward(a)
        return h.view_as(h)

    @staticmethod
    def backward(ctx, g):
        return 1 * ctx.saved_tensors[0], None


class FeedbackNet(Net):
    """Feedback alignment: h ← tanh(W·h), with a feedback matrix for each W."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(5, D), nn.Linear(D, C, bias=False)
        self.blocks = nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(3))
        self.tanh = nn.ModuleList(nn.Tanh() for _ in range(3))
        for layer in (*self.blocks, self.head):
            layer.register_buffer("feedback", torch.randn_like(layer.weight))

    def matrix(self, layer):
        return layer.feedback

    def next_state(self, block, h):
        return torch.tanh(h @ block.weight.T)

    def states(self, x):
        hidden = self.stream(x)
        return hidden[-1] @ self.head.weight.T, hidden

    def forward(self, x):
        h = self.embed(x)
        for block, tanh in zip(self.blocks, self.tanh, strict=True):
            h = tanh(FeedbackLinear.apply(h, block.weight, self.matrix(block)))
        return FeedbackLinear.apply(h, self.head.weight, self.matrix(self.head))

    def credit(self, hidden, error):
        credit = [error @ self.matrix(self.head)]
        for block, h in zip(self.blocks[::-1], hidden[:0:-1], strict=True):
            credit.insert(0, (credit[0] * (1 - h**2)) @ self.matrix(block))
        return credit


class UniformSigns(FeedbackNet):
    """BioTorch's uSF: the weights' signs, a new parameter in every forward."""

    def matrix(self, layer):
        layer._buffers.pop("feedback", None)
        layer.feedback = nn.Parameter(layer.weight.detach().sign(), requires_grad=False)
        return layer.feedback


class ModuleHookFeedback(FeedbackNet):
    """The same by `register_full_backward_hook`."""

    def __init__(self):
        super().__init__()
        for layer in (*self.blocks, self.head):
            layer.register_full_backward_hook(lambda m, _, got: (got[0] @ self.matrix(m),))

    def forward(self, x):
        h = self.embed(x)
        for block, tanh in zip(self.blocks, self.tanh, strict=True):
            h = tanh(block(h))
        return self.head(h)


class DirectNet(FeedbackNet):
    """Direct feedback: a_l = e_T·B_l, the labels in the input's first columns."""

    x = "labelled"

    def __init__(self):
        super().__init__()
        self.direct = nn.ParameterList(torch.randn(C, D) for _ in range(4)).requires_grad_(False)

    def error(self, x):
        with torch.no_grad():
            logits = self.states(x)[0]
        return (logits.softmax(1) - torch.eye(C).to(x)[x[:, :C].argmax(1)]) / len(x)

    def said(self, h, a):
        raise NotImplementedError

    def forward(self, x):
        error = self.error(x)
        h = self.said(self.embed(x), error @ self.direct[0])
        for block, tanh, feedback in zip(self.blocks, self.tanh, self.direct[1:], strict=True):
            h = self.said(tanh(block(h)), error @ feedback)
        return self.head(h)

    def credit(self, hidden, error):
        return [error @ feedback for feedback in self.direct]


class TensorHookDirect(DirectNet):
    """DRTP's hooks, at the tap itself."""

    def said(self, h, a):
        if h.requires_grad:
            h.register_hook(lambda g: 1 * a)
        return h


class MeanErrorDirect(TensorHookDirect):
    """Every sample gets the batch's mean error."""

    def error(self, x):
        return super().error(x).mean(0, keepdim=True).expand(len(x), C)

    def credit(self, hidden, error):
        return super().credit(hidden, error.mean(0, keepdim=True).expand_as(error))


class FunctionDirect(DirectNet):
    """LightOn's identity layer."""

    def said(self, h, a):
        return Instead.apply(h, a)


class StoredError(TensorHookDirect):
    """An error that the last training batch left behind, times the slope of each sample."""

    x = (16, 5)

    def __init__(self):
        super().__init__()
        self.register_buffer("stored", torch.randn(1, C))

    def error(self, x):
        return self.stored

    def said(self, h, a):
        return super().said(h, a * (1 - h.detach() ** 2))


class MovingAverage(TensorHookDirect):
    """Feedback that remembers the vectors of earlier batches."""

    def __init__(self):
        super().__init__()
        self.past = 0.0

    def said(self, h, a):
        def hook(g):
            self.past = 0.5 * self.past + a
            return self.past.clone()

        if h.requires_grad:
            h.register_hook(hook)
        return h


class TurnsWithCalls(TensorHookDirect):
    """In every third call, its feedback has the other sign."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)

    def said(self, h, a):
        return super().said(h, a if self.calls % 3 else -a)
