"""Upper bounds for what fits on nodes, by counting resources.

A pod that needs x units needs x idle units of one node. If pods that need x1, x2, ... units fit on
a node with f idle units, then floor(x1 / g) + floor(x2 / g) + ... <= floor(f / g) for every g.
Therefore the sum over all pods is at most the sum over all nodes, for every g; otherwise the pods
do not fit.
"""

from collections.abc import Callable
from typing import NamedTuple

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role

__all__ = ["Dimension"]


class Dimension(NamedTuple):
    """A resource of nodes."""

    #: idle units by node
    idle: dict[str, int]
    #: the units that a pod of a role needs at least
    need: Callable[[Role], int]
    #: for pods with an unknown need: the units that one frees at most; None: there are no such pods
    held: Callable[[PlacedPod], int] | None = None
