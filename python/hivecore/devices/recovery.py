"""Owners and reservations as their records say, after a restart, in any order."""

from collections.abc import Iterable

from hivecore._arguments import as_int, as_name, as_tuple, tuple_of
from hivecore.devices._nodes import Nodes
from hivecore.devices._owners import Charges, Held, Owners, left_of
from hivecore.devices._pairs import MOST
from hivecore.devices.device import AMOUNTS, TYPES, share_of_memory
from hivecore.devices.device_allocation import DeviceAllocation

__all__ = [
    "are_of_templates",
    "check_allocations",
    "count_in_bytes",
    "hold",
    "recover_owner",
    "recover_reservation",
]

_GPU = TYPES.index("gpu")
_MEMORY, _RATIO = map(AMOUNTS["gpu"].index, ("memory", "memory_ratio"))


def recover_owner(
    nodes: Nodes,
    owners: Owners,
    name: str,
    node: str,
    allocations: Iterable[DeviceAllocation],
    priority: int,
    reservation: str,
) -> None:
    """What `DeviceCluster.recover` does."""
    name, number, charges, priority = _recorded(nodes, name, node, allocations, priority)
    if reservation == name:
        raise ValueError(f"reservation={reservation!r}: is the owner itself")
    if name in owners.numbers:
        _check_same(
            name,
            owners.reservation_of(name) == reservation
            and name not in owners.reservations
            and owners.node(name) == number
            and sorted(owners.charges(name)) == charges,
        )
        return
    if reservation in owners.numbers and (
        reservation not in owners.reservations or owners.node(reservation) != number
    ):
        raise ValueError(f"reservation={reservation!r}: is none on node {node!r}")
    owners.book(name, owners.core.charge(number, charges), priority)
    if reservation:
        owners.enter(name, reservation)
        if reservation in owners.reservations:
            owners.settle(reservation)


def recover_reservation(
    nodes: Nodes,
    owners: Owners,
    name: str,
    node: str,
    allocations: Iterable[DeviceAllocation],
    priority: int,
    restricted: bool,
) -> None:
    """What `DeviceCluster.recover_reservation` does."""
    name, number, charges, priority = _recorded(nodes, name, node, allocations, priority)
    if name in owners.numbers:
        held = owners.reservations.get(name)
        _check_same(
            name,
            held is not None
            and held.restricted == restricted
            and owners.node(name) == number
            and sorted(held.charges) == charges,
        )
        return
    users = owners.waiting.get(name, ())
    for user in users:
        if owners.node(user) != number:
            raise ValueError(f"node={node!r}: {user!r} uses {name!r} on another one")
    hold(owners, name, number, Held(charges, restricted, users), priority)


def hold(owners: Owners, name: str, number: int, held: Held, priority: int) -> None:
    """Charge a new reservation on a node, whether or not there is so much."""
    left = left_of(held.charges, [owners.charges(user) for user in held.users])
    owners.book(name, owners.core.charge(number, left), priority)
    owners.reserve(name, held)


def count_in_bytes(nodes: Nodes, owners: Owners, number: int) -> None:
    """What owners have in percent of GPUs of a node that say only now how many bytes they have is
    counted in bytes from now on.
    """
    gpus = nodes.inventory(number).of_type("gpu")
    memory = {gpu.minor: dict(gpu.amounts).get("memory", 0) for gpu in gpus}

    def counted(charges: Charges) -> Charges:
        return [
            (type, minor, _counted(amounts, memory[minor]), function, exclusive, template)
            if type == _GPU and minor in memory
            else (type, minor, amounts, function, exclusive, template)
            for type, minor, amounts, function, exclusive, template in charges
        ]

    touched = []
    for name in owners.on(number):
        held = owners.reservations.get(name)
        before = owners.charges(name) if held is None else held.charges
        after = counted(before)
        if after == before:
            continue
        if held is None:
            owners.core.recharge(owners.number(name), after)
            touched.append(owners.through.get(name, ""))
        else:
            owners.hold(name, held._replace(charges=after))
            touched.append(name)
    for name in touched:
        if name in owners.reservations:
            owners.settle(name)


def _counted(amounts: tuple[int, ...], memory: int) -> tuple[int, ...]:
    """Of a GPU of so many bytes; 0: they are not known."""
    if not memory or not amounts[_RATIO]:
        return amounts
    values = list(amounts)
    # More than any card has makes no difference.
    values[_MEMORY] = amounts[_MEMORY] or min(share_of_memory(amounts[_RATIO], memory), MOST)
    values[_RATIO] = 0
    return tuple(values)


def check_allocations(
    given: tuple[DeviceAllocation, ...], name: str
) -> tuple[DeviceAllocation, ...]:
    """They are what they should be, of each device at most one."""
    tuple_of(given, name, DeviceAllocation)
    if len({(allocation.type, allocation.minor) for allocation in given}) != len(given):
        raise ValueError(f"{name}: a device is named twice")
    return given


def are_of_templates(charges: Charges, designated: Charges) -> bool:
    """Whether each GPU among the charges is of the template that is designated for it, if it is."""
    wanted = {(type, minor): template for type, minor, *_, template in designated}
    return all(
        wanted.get((type, minor), template) == template for type, minor, *_, template in charges
    )


def _recorded(
    nodes: Nodes,
    name: str,
    node: str,
    allocations: Iterable[DeviceAllocation],
    priority: int,
) -> tuple[str, int, Charges, int]:
    """The checked facts of an owner's record, in numbers."""
    name = as_name(name, "name")
    priority = as_int(priority, "priority", -(2**31), 2**31 - 1)
    given = check_allocations(as_tuple(allocations, "allocations"), "allocations")
    number = nodes.number(node)
    given = nodes.inventory(number).in_bytes(given)
    return name, number, sorted(nodes.numbers.charges(given)), priority


def _check_same(name: str, is_same: bool) -> None:
    if not is_same:
        raise ValueError(f"name={name!r}: has other devices already, or another reservation")
