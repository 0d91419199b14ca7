"""The readable twin of Koordinator's device allocation, defects included."""

from hivecore.reference.devices.koordinator.allocator import allocate, filter_nodes, score_node
from hivecore.reference.devices.koordinator.designated import designated
from hivecore.reference.devices.koordinator.node_view import WHOLE, Restriction
from hivecore.reference.devices.koordinator.numa_hints import (
    NumaHint,
    designated_hint,
    numa_hints,
)
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
    "normalised",
    "numa_hints",
    "score_node",
    "score_reserved",
]
