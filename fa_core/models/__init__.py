"""The built-in networks: each exposes its residual stream and is recognised from its tensors."""

from fa_core.models.base import StreamNet
from fa_core.models.registry import ARCHS, build, recognise
from fa_core.models.resmlp import ResMLP

__all__ = ["ARCHS", "ResMLP", "StreamNet", "build", "recognise"]
