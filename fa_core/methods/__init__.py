"""The credit rules, behind one small interface: what credit, and what loss."""

from fa_core.methods.base import Credit, Method, StepInfo, output_error
from fa_core.methods.registry import METHODS, make_method, method_class, restore_method

__all__ = ["METHODS", "Credit", "Method", "StepInfo", "make_method", "method_class", "output_error", "restore_method"]
