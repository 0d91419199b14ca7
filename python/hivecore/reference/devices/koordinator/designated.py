"""Devices that were decided elsewhere: the same minors, amounts and virtual functions (1.14)."""

from collections.abc import Iterable

from hivecore.reference.devices.koordinator.allocator import with_all_memory
from hivecore.reference.devices.koordinator.amounts import Amounts
from hivecore.reference.devices.koordinator.node_view import Restriction, of_whole_node
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["designated"]


def designated(state: NodeState, charges: Iterable[Charge]) -> Restriction | Failure:
    """The node restricted to what the charges name; whether it is free is for `allocate` to say.

    A GPU whose memory cannot be filled in, for it is gone or unhealthy, is refused at once.
    """
    gpus = of_whole_node(state)["gpu"].total
    required: dict[str, dict[int, Amounts]] = {}
    functions: dict[str, dict[int, frozenset[str]]] = {}
    for charge in charges:
        if charge.type == "gpu" and gpus and not any(gpus.get(charge.minor, {}).values()):
            return Failure("unhealthy", False, f"GPU {charge.minor} is gone, or not healthy")
        filled = with_all_memory(state, charge)
        required.setdefault(charge.type, {})[charge.minor] = filled.amounts
        if charge.function is not None:
            named = functions.setdefault(charge.type, {})
            named[charge.minor] = frozenset((charge.function,))
    return Restriction(preemptible={}, required=required, functions=functions)
