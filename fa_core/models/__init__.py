"""The built-in networks: each exposes its residual stream and is recognised from its tensors."""

from fa_core.models.base import StreamNet
from fa_core.models.registry import ARCHS, build, recognise
from fa_core.models.residual_mlp import ResMLP, StudentNet
from fa_core.models.smallcnn import SmallCNN
from fa_core.models.vit_mini import ViTMini

__all__ = ["ARCHS", "ResMLP", "SmallCNN", "StreamNet", "StudentNet", "ViTMini", "build", "recognise"]
