"""What parts are made of as plain data for JSON, and back: quotas, nodes, cells."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_tuple
from hivecore.cells import Chain, ClusterSpec
from hivecore.devices import (
    Device,
    NodeDevices,
    Partition,
    PartitionTable,
    ShareTemplate,
    ShareTemplates,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.quotas import Quota
from hivecore.scheduler.plain.fields import Plain, read_fields, told_fields

__all__ = [
    "inventory_of_plain",
    "plain_inventory",
    "plain_node",
    "plain_quota",
    "plain_spec",
    "quota_of_plain",
    "spec_of_plain",
]

_QUOTA = {
    "min": (),
    "weight": None,
    "parent": "",
    "lends": True,
    "scales": True,
    "outside": False,
    "tree": "",
}
_INVENTORY = {
    "partition_policy": "prefer",
    "secondary_well_planned": False,
    "vendor": "",
    "model": "",
    "isolation_provider": "",
    "shareable": True,
}
_DEVICE = {
    "healthy": True,
    "socket": None,
    "numa": None,
    "pcie": None,
    "bus_id": "",
    "uuid": "",
    "module_id": None,
    "labels": (),
}
_PARTITION = {"score": 1, "bandwidth": None, "link": ""}
_CHAIN = "levels", "fanouts", "roots"
_CHAIN_NODES = "node_level", "nodes", "leaf_indices"


# --- quotas


def plain_quota(quota: Quota) -> Plain:
    """A quota as plain data; what is as by default is left out.

    >>> from hivecore.quotas import Quota
    >>> plain_quota(Quota("vision", max={"gpu": 8}, lends=False))
    {'name': 'vision', 'max': {'gpu': 8}, 'lends': False}
    """
    made: Plain = {"name": quota.name, "max": dict(quota.max)}
    made |= told_fields(quota, _QUOTA)
    if quota.weight is not None:
        made["weight"] = dict(quota.weight)
    return made


def quota_of_plain(data: Mapping[str, Any]) -> Quota:
    """The quota of plain data.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    return Quota(**read_fields(data, "quota", ("name", "max"), set(_QUOTA)))


# --- nodes


def plain_node(
    node: str,
    labels: Mapping[str, str] | None,
    free: Mapping[str, int] | None,
    inventory: NodeDevices | None,
) -> Plain:
    """What is told of a node that comes."""
    made: Plain = {"node": node}
    if labels is not None:
        made["labels"] = dict(labels)
    if free is not None:
        made["free"] = dict(free)
    if inventory is not None:
        made["inventory"] = plain_inventory(inventory)
    return made


def plain_inventory(inventory: NodeDevices) -> Plain:
    """What a node has as plain data; what is as by default is left out.

    >>> from hivecore.devices import Device, NodeDevices
    >>> plain_inventory(NodeDevices([Device("gpu", 0, {"core": 100}, numa=0)], model="H20"))
    {'devices': [{'type': 'gpu', 'minor': 0, 'amounts': {'core': 100}, 'numa': 0}], 'model': 'H20'}
    """
    made: Plain = {"devices": [_plain_device(device) for device in inventory.devices]}
    made |= told_fields(inventory, _INVENTORY)
    table, shares = inventory.partitions, inventory.templates
    if table is not None:
        rows = [
            {"members": list(row.members)} | told_fields(row, _PARTITION)
            for row in table.partitions
        ]
        made["partitions"] = {"partitions": rows, "numbers": table.numbers}
    if shares is not None:
        templates = [{"name": one.name, "amounts": dict(one.amounts)} for one in shares.templates]
        made["templates"] = {"templates": templates, "matched": list(shares.matched)}
    return made


def inventory_of_plain(data: Mapping[str, Any]) -> NodeDevices:
    """What a node has, of plain data.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    return NodeDevices(
        **read_fields(
            data,
            "inventory",
            ("devices",),
            {*_INVENTORY, "partitions", "templates"},
            devices=lambda devices: tuple(map(_device, as_tuple(devices, "devices"))),
            partitions=_partitions,
            templates=_templates,
        )
    )


def _plain_device(device: Device) -> Plain:
    made: Plain = {"type": device.type, "minor": device.minor, "amounts": dict(device.amounts)}
    made |= told_fields(device, _DEVICE)
    if device.vf_groups:
        made["vf_groups"] = [
            {
                "functions": [
                    {"bus_id": one.bus_id} | told_fields(one, {"minor": 0})
                    for one in group.functions
                ]
            }
            | told_fields(group, {"labels": ()})
            for group in device.vf_groups
        ]
    return made


def _device(data: Any) -> Device:
    return Device(
        **read_fields(
            data,
            "device",
            ("type", "minor", "amounts"),
            {*_DEVICE, "vf_groups"},
            vf_groups=lambda groups: tuple(map(_functions, as_tuple(groups, "vf_groups"))),
        )
    )


def _functions(data: Any) -> VirtualFunctionGroup:
    given = read_fields(data, "vf_groups", ("functions",), {"labels"})
    functions = [
        VirtualFunction(**read_fields(one, "functions", ("bus_id",), {"minor"}))
        for one in as_tuple(given.pop("functions"), "functions")
    ]
    return VirtualFunctionGroup(functions, **given)


def _partitions(data: Any) -> PartitionTable:
    given = read_fields(data, "partitions", ("partitions",), {"numbers"})
    rows = [
        Partition(**read_fields(row, "partition", ("members",), set(_PARTITION)))
        for row in as_tuple(given.pop("partitions"), "partitions")
    ]
    return PartitionTable(tuple(rows), **given)


def _templates(data: Any) -> ShareTemplates:
    given = read_fields(data, "templates", ("templates",), {"matched"})
    rows = [
        ShareTemplate(**read_fields(row, "template", ("name", "amounts"), set()))
        for row in as_tuple(given.pop("templates"), "templates")
    ]
    return ShareTemplates(tuple(rows), **given)


# --- cells


def plain_spec(spec: ClusterSpec) -> Plain:
    """A specification of cells as plain data.

    >>> from hivecore.cells import Chain, ClusterSpec
    >>> plain_spec(ClusterSpec({"c": Chain(["gpu", "node"], [8], 2)}, {"a": {"c": {"node": 1}}}))
    {'chains': {'c': {'levels': ['gpu', 'node'], 'fanouts': [8], 'roots': 2, \
'node_level': 'node'}}, 'virtual_clusters': {'a': {'c': {'node': 1}}}}
    """
    made: Plain = {
        "chains": {name: _plain_chain(chain) for name, chain in spec.chains.items()},
        "virtual_clusters": {
            tenant: {chain: dict(of) for chain, of in owned.items()}
            for tenant, owned in spec.virtual_clusters.items()
        },
    }
    pinned = {
        tenant: {name: list(pin) for name, pin in pins.items()}
        for tenant, pins in spec.pinned_cells.items()
    }
    if pinned:
        made["pinned_cells"] = pinned
    return made


def spec_of_plain(data: Mapping[str, Any]) -> ClusterSpec:
    """The specification of plain data.

    :raises KeyError: an unknown chain, level or tenant is named.
    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    given = read_fields(data, "spec", ("chains", "virtual_clusters"), {"pinned_cells"})
    chains = given.pop("chains")
    if isinstance(chains, Mapping):
        chains = {
            name: Chain(**read_fields(one, f"chains[{name!r}]", _CHAIN, set(_CHAIN_NODES)))
            for name, one in chains.items()
        }
    return ClusterSpec(chains, **given)


def _plain_chain(chain: Chain) -> Plain:
    made: Plain = {"levels": list(chain.levels), "fanouts": list(chain.fanouts)}
    made |= {"roots": chain.roots, "node_level": chain.node_level}
    if chain.nodes is not None:
        made["nodes"] = list(chain.nodes)
    if chain.leaf_indices is not None:
        made["leaf_indices"] = [list(row) for row in chain.leaf_indices]
    return made
