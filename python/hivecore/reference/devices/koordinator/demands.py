"""How many devices of each type a request needs on this node, and what of each (section 1.2)."""

from dataclasses import dataclass
from typing import Any

from hivecore.reference.devices.koordinator.amounts import Amounts
from hivecore.reference.devices.koordinator.node_view import View
from hivecore.reference.devices.koordinator.outcome import TYPES, Failure
from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import NodeState

__all__ = ["Demand", "demands_of"]


@dataclass(frozen=True, slots=True)
class Demand:
    """Devices of one type."""

    need: Any
    count: int
    amounts: Amounts


def demands_of(
    state: NodeState, whole: View, request: Any, reserving: bool
) -> dict[str, Demand] | Failure:
    """The demands by type, in the order of the types.

    Types that are chosen jointly with whole GPUs are left to the node's agent where the node is
    well planned, until the node is reserved. `every` counts unhealthy devices, too, which then fail
    it; of GPUs it means nothing upstream.
    """
    planned = state.inventory.secondary_well_planned and not reserving
    gpus = request.need("gpu")
    primary = request.joint[0] if request.joint else None
    demands = {}
    for type in TYPES:
        need = request.need(type)
        if need is None:
            continue
        if planned and primary not in (None, type) and gpus is not None and not gpus.shared:
            continue
        count = need.count
        if need.every and type != "gpu":
            count = len(whole[type].total)
            if need.selector:
                devices = state.devices.get(type, {}).values()
                count = sum(selects(need.selector, device.labels) for device in devices)
        if not whole[type].total or not count:
            return Failure("no_devices", False, f"the node has no such device of type {type}")
        demands[type] = Demand(need, count, dict(need.amounts))
    for type, demand in demands.items():
        devices = state.devices.get(type, {}).values()
        if demand.need.vf_selector is not None and not any(one.vf_groups for one in devices):
            return Failure(
                "no_virtual_functions", False, f"no device of type {type} has virtual functions"
            )
    return demands
