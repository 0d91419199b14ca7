"""Nodes and requests of golden files of Koordinator's device allocation, as records and states."""

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)
from hivecore.reference.devices.koordinator import Failure, Restriction
from hivecore.reference.devices.node_state import Charge, NodeState


def state_of(case):
    """The node of a case, with its owners; `after`, if given, is what became of its devices."""
    devices = [device_of(entry) for entry in case["devices"]]
    state = NodeState(inventory_of(case, devices))
    for name, charges in case.get("owners", {}).items():
        state.charge(name, tuple(Charge(*charge) for charge in charges))
    if "after" in case:
        state.set_inventory(inventory_of(case, [device_of(entry) for entry in case["after"]]))
    return state


def device_of(entry):
    type_, minor, amounts, options = entry
    groups = [VirtualFunctionGroup(ids, labels) for ids, labels in options.get("vfs", ())]
    places = {name: options[name] for name in ("socket", "numa", "pcie") if name in options}
    return Device(
        type_,
        minor,
        amounts,
        healthy=options.get("healthy", True),
        labels=options.get("labels", {}),
        module_id=options.get("module"),
        vf_groups=groups,
        **places,
    )


def inventory_of(case, devices):
    table = None
    if "partitions" in case:
        rows = tuple(Partition(tuple(members), *rest) for members, *rest in case["partitions"])
        table = PartitionTable(rows)
    return NodeDevices(
        tuple(devices),
        table,
        case.get("policy", "prefer"),
        case.get("planned", False),
        model=case.get("model", ""),
        vendor=case.get("vendor", ""),
    )


def request_of(case):
    request = dict(case["request"])
    needs = [DeviceNeed(**need) for need in request.pop("needs")]
    return DeviceRequest("pod", needs=needs, **request)


def restriction_of(case):
    given = case.get("restriction", {})

    def amounts(name):
        return None if name not in given else by_minor(given[name])

    return Restriction(
        numa=None if "numa" not in given else frozenset(given["numa"]),
        preemptible=amounts("preemptible"),
        required=amounts("required"),
        required_minors=sets_of(given.get("required_minors", {})),
        preferred_minors=sets_of(given.get("preferred_minors", {})),
        reserving=given.get("reserving", False),
    )


def by_minor(types):
    return {
        type_: {int(minor): amounts for minor, amounts in minors.items()}
        for type_, minors in types.items()
    }


def sets_of(types):
    return {type_: frozenset(minors) for type_, minors in types.items()}


def answer_of(answer):
    """An answer of the twin in the form of the file."""
    if isinstance(answer, Failure):
        return {"failure": [answer.code, answer.resolvable]}
    return {"charges": [[one.type, one.minor, one.amounts, one.function] for one in answer]}
