"""The readable twin of Koordinator's device allocation, defects included."""

from hivecore.reference.devices.koordinator.allocator import allocate, filter_nodes, score_node
from hivecore.reference.devices.koordinator.node_view import WHOLE, Restriction
from hivecore.reference.devices.koordinator.outcome import QUIRKS, Failure
from hivecore.reference.devices.koordinator.scores import normalised

__all__ = [
    "QUIRKS",
    "WHOLE",
    "Failure",
    "Restriction",
    "allocate",
    "filter_nodes",
    "normalised",
    "score_node",
]
