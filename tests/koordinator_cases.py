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
from hivecore.reference.devices.koordinator import (
    Failure,
    Reservation,
    Reservations,
    Restriction,
)
from hivecore.reference.devices.node_state import Charge, NodeState


def state_of(case):
    """The node of a case, with its owners, after devices are gone or have turned (un)healthy."""
    devices = [device_of(entry) for entry in case["devices"]]
    state = NodeState(inventory_of(case, devices))
    for name, charges in case.get("owners", {}).items():
        state.charge(name, charges_of(charges))
    if "gone" in case or "turned" in case:
        left = [
            one.replace(healthy=one.healthy != ([one.type, one.minor] in case.get("turned", ())))
            for one in devices
            if [one.type, one.minor] not in case.get("gone", ())
        ]
        state.set_inventory(inventory_of(case, left))
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


def reservations_of(case):
    given = case.get("reservations", {})
    return Reservations(
        *(
            tuple(
                Reservation(owner, tuple(users), policy, by_minor(victims))
                for owner, users, policy, victims in given.get(name, ())
            )
            for name in ("matched", "others")
        ),
        victims=by_minor(given.get("victims", {})),
        must=given.get("must", False),
        ignored=given.get("ignored", False),
        taking_over=given.get("taking_over", False),
    )


def charges_of(groups):
    """The charges of groups of devices of which the same is charged."""
    return tuple(
        Charge(type_, minor, amounts, function)
        for type_, amounts, minors, *functions in groups
        for minor, function in zip(minors, *(functions or [[None] * len(minors)]), strict=True)
    )


def answer_of(answer):
    """An answer of the twin in the form of the file."""
    if isinstance(answer, Failure):
        return {"failure": [answer.code, answer.resolvable]}
    groups = []
    for charge in answer:
        key = [charge.type, charge.amounts]
        if (
            not groups
            or groups[-1][:2] != key
            or (len(groups[-1]) > 3) == (charge.function is None)
        ):
            groups.append([*key, [], []] if charge.function is not None else [*key, []])
        groups[-1][2].append(charge.minor)
        if charge.function is not None:
            groups[-1][3].append(charge.function)
    return {"charges": groups}
