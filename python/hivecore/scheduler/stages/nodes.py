"""Adds nodes to all parts that have nodes, or to none.

A network and devices have the nodes that were added. Cells keep the nodes of their specification,
so that guarantees stay as they are; a removed node is bad, as in HiveD. With devices, cells use no
GPU that the devices do not have.
"""

from collections.abc import Iterable, Mapping

from hivecore._thousandths import Amount
from hivecore.devices import NodeDevices
from hivecore.scheduler.stages.cells import CellStage, chain_nodes
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.topology import TopologyStage

__all__ = ["Place", "add_node", "shun_missing"]

Place = CellStage | TopologyStage


def add_node(
    place: Place | None,
    devices: DeviceStage | None,
    node: str,
    labels: Mapping[str, str] | None,
    free: Mapping[str, Amount] | None,
    inventory: NodeDevices | None,
) -> None:
    """Add a node; see `Scheduler.add_node`."""
    if place is None and devices is None:
        raise ValueError(f"node={node!r}: no part has nodes")
    if not isinstance(place, TopologyStage):
        for name, given in (("labels", labels), ("free", free)):
            if given is not None:
                raise ValueError(f"{name}: there is no network")
    if devices is None and inventory is not None:
        raise ValueError("inventory: there are no devices")
    joins_place = place is not None and not place.knows(node)
    joins_devices = devices is not None and not devices.knows(node)
    if inventory is None and devices is not None and not joins_place and not joins_devices:
        raise ValueError(f"node={node!r}: exists already")
    if inventory is None and joins_devices:
        raise ValueError(f"inventory: missing for {node!r}")
    more = {} if labels is None else labels, {} if free is None else free
    if isinstance(place, TopologyStage):
        if joins_place:
            with place.part.trial():
                place.part.add_node(node, *more)  # refused here if it is invalid
        elif labels is not None or free is not None or not joins_devices:
            raise ValueError(f"node={node!r}: exists already")
    elif place is not None:
        if joins_place:
            raise KeyError(f"node={node!r}: the cells have no such node; reconfigure them first")
        if devices is None and node not in place.unhealthy():
            raise ValueError(f"node={node!r}: exists already")
    if devices is not None and inventory is not None:
        devices.part.add_node(node, inventory)
    if isinstance(place, TopologyStage):
        if joins_place:
            place.part.add_node(node, *more)
        else:
            place.part.set_health(node, True)
    elif place is not None:
        place.part.set_health(node, True)


def shun_missing(place: Place, devices: DeviceStage, nodes: Iterable[str]) -> None:
    """Mark nodes without devices, and cells whose GPU has no device, as bad."""
    names_given = frozenset(nodes)
    for node in names_given:
        if place.knows(node) and not devices.knows(node):
            place.part.set_health(node, False)
    if not isinstance(place, CellStage):
        return
    for name, chain in place.part.spec.chains.items():
        names = chain_nodes(place.part, name)
        rows = chain.leaf_indices or [range(chain.leaves // len(names))] * len(names)
        for node, indices in zip(names, rows, strict=True):
            if node not in names_given or not devices.knows(node):
                continue
            minors = {gpu.minor for gpu in devices.part.inventory(node).of_type("gpu")}
            for index in indices:
                if index not in minors:
                    place.part.set_health(node, False, leaf_index=index)
