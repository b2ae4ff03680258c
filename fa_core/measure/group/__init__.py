"""Measuring many networks of one architecture in common passes."""

from fa_core.measure.group.shared_passes import Member, measure_together
from fa_core.measure.group.stack import bytes_per_member
from fa_core.measure.tally import Diagnosed

__all__ = ["Diagnosed", "Member", "bytes_per_member", "measure_together"]
