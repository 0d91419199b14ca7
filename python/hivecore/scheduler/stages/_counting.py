"""What stages count by node: an upper bound of what fits, whatever the stages choose.

A pod that needs x units needs x idle units of one node. Of a node with f idle units, pods of
x1, x2, ... units fit together only if floor(x1 / g) + floor(x2 / g) + ... <= floor(f / g), for
every g. So for every g the sum over the pods is at most the sum over the nodes: else they do not
fit.
"""

from collections.abc import Callable
from typing import NamedTuple

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role

__all__ = ["Dimension"]


class Dimension(NamedTuple):
    """A resource of nodes."""

    #: by node, the idle units
    idle: dict[str, int]
    #: the units that a pod of a role needs of its node, at least
    need: Callable[[Role], int]
    #: the units that are idle again, at most, when a pod leaves that needs none; None: none
    held: Callable[[PlacedPod], int] | None = None
