"""The readable twin of Koordinator's device allocation, defects included.

To be read in the order in which a request meets them: `demands` (how many of what), `node_view`
(what of the node it may use), `choices` (which devices), `allocator` (all of it, and the memory
that is charged), `scores`; then what is built on top: `designated`, `reservations`, `numa_hints`,
`numa_policies`.
`outcome` names the defects that can be switched off, `amounts` has the arithmetic.

Sets of minors, of switches and of NUMA nodes stand for masks, and amounts by name for one column
each; where a name that is missing differs from 0, a device has a mask of its names beside them.
"""

from hivecore.reference.devices.koordinator.allocator import allocate, filter_nodes, score_node
from hivecore.reference.devices.koordinator.designated import designated
from hivecore.reference.devices.koordinator.node_view import WHOLE, Restriction
from hivecore.reference.devices.koordinator.numa_hints import (
    NumaHint,
    designated_hint,
    numa_hints,
)
from hivecore.reference.devices.koordinator.numa_policies import merge_hints
from hivecore.reference.devices.koordinator.outcome import QUIRKS, Failure
from hivecore.reference.devices.koordinator.reservations import (
    Reservation,
    Reservations,
    allocate_reserved,
    score_reserved,
)
from hivecore.reference.devices.koordinator.scores import normalised

__all__ = [
    "QUIRKS",
    "WHOLE",
    "Failure",
    "NumaHint",
    "Reservation",
    "Reservations",
    "Restriction",
    "allocate",
    "allocate_reserved",
    "designated",
    "designated_hint",
    "filter_nodes",
    "merge_hints",
    "normalised",
    "numa_hints",
    "score_node",
    "score_reserved",
]
