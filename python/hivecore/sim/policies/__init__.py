"""The ways to share a cluster that a replay compares, one per module."""

from hivecore.sim.policies.base import Policy
from hivecore.sim.policies.cells import Cells
from hivecore.sim.policies.private import Private
from hivecore.sim.policies.quota import Quota

__all__ = ["Cells", "Policy", "Private", "Quota"]
