"""Measuring many networks of one architecture in common passes."""

from fa_core.measure.group.shared_passes import Member, measure_together
from fa_core.measure.group.stack import bytes_per_member

__all__ = ["Member", "bytes_per_member", "measure_together"]
