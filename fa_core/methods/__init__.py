"""The credit rules, behind one small interface: what credit, and what loss."""

from fa_core.methods.base import Credit, Method, StepInfo, feedback_generator, output_error
from fa_core.methods.registry import METHODS, known_methods, make_method, method_class, restore_method

__all__ = [
    "METHODS",
    "Credit",
    "Method",
    "StepInfo",
    "feedback_generator",
    "known_methods",
    "make_method",
    "method_class",
    "output_error",
    "restore_method",
]
