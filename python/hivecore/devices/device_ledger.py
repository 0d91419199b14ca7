"""The nodes of a cluster, and what each owner holds of them."""

from collections.abc import Iterable
from threading import RLock
from typing import Literal, Self, get_args

from hivecore._arguments import (
    MOST_SEED,
    as_bool,
    as_choice,
    as_instance,
    as_int,
    as_name,
    as_text,
    as_tuple,
)
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._trial import Trials
from hivecore.devices._learned_mix import LearnedMix
from hivecore.devices._nodes import Nodes
from hivecore.devices._owners import Owners
from hivecore.devices._saved import OwnerRecord, decode, encode
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.recovery import count_in_bytes, recover_owner, recover_reservation
from hivecore.devices.reservation import DeviceReservation, described
from hivecore.devices.task_mix import TaskMix

__all__ = ["POLICIES", "DeviceLedger", "Policy"]

Policy = Literal[
    "bin-pack",
    "spread",
    "best-fit",
    "worst-fit",
    "dot-product",
    "packing",
    "clustering",
    "random",
    "fgd",
]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class DeviceLedger(Trials, Stateful):
    """The part of a `DeviceCluster` that decides nothing: nodes, owners and reservations, their
    recovery after a restart, trials and saved states.
    """

    def _start(self, policy: str, mix: LearnedMix, seed: int, nodes: Nodes) -> None:
        self._policy = POLICIES.index(policy)
        self._mix = mix
        self._seed = seed
        self._lock = RLock()
        self._nodes = nodes
        self._core = nodes.core
        self._owners = Owners(nodes.core, nodes.undo)
        mix.undo = nodes.undo

    def __repr__(self) -> str:
        with self._lock:
            nodes = self._nodes
            return shown(
                self,
                counted(len(nodes.by_name), "node"),
                *(f"{count} {type}" for type, count in nodes.devices().items()),
                counted(len(self._owners.numbers), "owner", unless_none=True),
            )

    # --- nodes

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in their order."""
        with self._lock:
            return self._nodes.in_order

    def add_node(self, name: str, inventory: NodeDevices) -> None:
        """Add a node.

        :raises ValueError: there is one of this name, or the name is empty.
        """
        name = as_name(name, "node")
        as_instance(inventory, "inventory", NodeDevices)
        with self._lock:
            self._equip(self._nodes.add(name, inventory), inventory)

    def remove_node(self, name: str) -> tuple[str, ...]:
        """Remove a node and all owners on it; returns their names, sorted."""
        with self._lock:
            number = self._nodes.number(name)
            owners = self._owners.on(number)
            for owner in owners:
                self._owners.release(owner)
            self._nodes.remove(number)
            return owners

    def set_inventory(self, name: str, inventory: NodeDevices) -> None:
        """Say what a node has now; owners stay charged, for devices that are gone as well. What
        they have in percent of GPUs that only now tell their bytes is counted in bytes from now on.
        """
        as_instance(inventory, "inventory", NodeDevices)
        with self._lock:
            number = self._nodes.number(name)
            self._equip(number, inventory)
            count_in_bytes(self._nodes, self._owners, number)

    def set_health(
        self, name: str, healthy: bool, *, type: str | None = None, minor: int | None = None
    ) -> None:
        """Mark devices of a node as unhealthy, or as healthy again; owners stay.

        :param type: only devices of this type; ``None``: all.
        :param minor: only this one of the type.
        :raises KeyError: there is no such node, or no such device on it.
        :raises ValueError: there is no such type, or a minor without a type.
        """
        healthy = as_bool(healthy, "healthy")
        if type is not None:
            type = as_choice(type, "type", TYPES)
        if minor is not None:
            minor = as_int(minor, "minor", 0, 2**31 - 1)
            if type is None:
                raise ValueError(f"minor={minor}: of which type?")
        with self._lock:
            number = self._nodes.number(name)
            inventory = self._nodes.inventory(number)
            meant = [
                device
                for device in inventory.devices
                if type in (None, device.type) and minor in (None, device.minor)
            ]
            if not meant and type is not None:
                raise KeyError(f"type={type!r}, minor={minor}: node {name!r} has no such device")
            self._equip(number, inventory.with_health(meant, healthy))

    def inventory(self, name: str) -> NodeDevices:
        """What a node has."""
        with self._lock:
            return self._nodes.inventory(self._nodes.number(name))

    def unhealthy_nodes(self) -> tuple[str, ...]:
        """The nodes that have a device which is marked unhealthy, in the order of ``nodes``.

        Cost: that of sorting them.
        """
        with self._lock:
            return self._nodes.unhealthy()

    def _equip(self, number: int, inventory: NodeDevices) -> None:
        if self._nodes.equip(number, inventory):
            self._mix.in_kernel = None  # it may be too heavy now

    # --- owners

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._owners.numbers

    def __len__(self) -> int:
        with self._lock:
            return len(self._owners.numbers)

    def has_all(self, names: Iterable[str]) -> bool:
        """Whether each of these has devices."""
        wanted = names if type(names) is list else as_tuple(names, "names")
        with self._lock:
            return self._owners.numbers.keys() >= set(wanted)

    def node_of(self, name: str) -> str:
        """The node that an owner is on."""
        with self._lock:
            return self._nodes.names[self._owners.node(name)] or ""

    def allocations(self, name: str) -> tuple[DeviceAllocation, ...]:
        """The devices of an owner; of a reservation, what its users have left of it.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._nodes.named(self._owners.node(name), self._owners.charges(name))

    def owners(self, node: str) -> tuple[str, ...]:
        """Names of the owners on a node, sorted."""
        with self._lock:
            return self._owners.on(self._nodes.number(node))

    def release(self, name: str) -> None:
        """Take back all devices of an owner. What a reservation has left is free then, its users
        stay; what a user of one has goes back there.
        """
        with self._lock:
            self._owners.release(name)

    def release_many(self, names: Iterable[str]) -> None:
        """Take back all devices of several owners, see ``release``; or of none, if one has none."""
        given = dict.fromkeys(names if type(names) is list else as_tuple(names, "names"))
        with self._lock:
            self._owners.release_all(given)

    def rename(self, name: str, new: str) -> None:
        """An owner has another name from now on; its devices stay its own. Cost: O(1), of users of
        a reservation O(its users).

        :raises ValueError: it is a reservation, whose users know it by its name; there is an owner
            of the new name, or it is empty.
        """
        new = as_name(new, "new")
        with self._lock:
            self._owners.number(name)
            if name in self._owners.reservations:
                raise ValueError(f"name={name!r}: a reservation keeps its name")
            if new in self._owners.numbers:
                raise ValueError(f"new={new!r}: has devices")
            self._owners.rename(name, new)

    def reservation(self, name: str) -> DeviceReservation:
        """What a reservation holds, and which owners use it."""
        with self._lock:
            return described(self._nodes, self._owners, name)

    @property
    def reservations(self) -> tuple[str, ...]:
        """Names of the owners that are reservations, sorted."""
        with self._lock:
            return tuple(sorted(self._owners.reservations))

    # --- restart

    def recover(
        self,
        name: str,
        node: str,
        allocations: Iterable[DeviceAllocation],
        *,
        priority: int = 0,
        reservation: str = "",
    ) -> None:
        """Charge an owner that has devices already, as its records say, after a restart.

        Owners can be recovered in any order, on devices that are unhealthy or gone by now, and
        beyond what there is; recovered again with the same, one stays as it is.

        :param reservation: the one that it uses, which may be recovered later; "": none.
        :raises ValueError: the owner has other devices or another reservation, which is on another
            node, a device is named twice, or the name is empty.
        """
        reservation = as_text(reservation, "reservation")
        with self._lock:
            recover_owner(self._nodes, self._owners, name, node, allocations, priority, reservation)

    def recover_reservation(
        self,
        name: str,
        node: str,
        allocations: Iterable[DeviceAllocation],
        *,
        priority: int = 0,
        restricted: bool = False,
    ) -> None:
        """Charge a reservation as its records say, after a restart: before or after its users.

        :param allocations: all that it holds, its users' part included.
        :param restricted: see ``reserve``.
        :raises ValueError: as of ``recover``, or a user of it is on another node.
        """
        restricted = as_bool(restricted, "restricted")
        with self._lock:
            recover_reservation(
                self._nodes, self._owners, name, node, allocations, priority, restricted
            )

    # --- the state as a whole

    def _mark(self) -> int:
        mark = self._core.mark()
        self._nodes.undo.mark()
        return mark

    def _rewind(self, mark: int) -> None:
        memory = self._core.most_memory
        self._core.rewind(mark)
        self._nodes.undo.rewind()
        if self._core.most_memory > memory:
            self._mix.in_kernel = None

    def _keep(self, mark: int) -> None:
        self._core.keep(mark)
        self._nodes.undo.end()

    def copy(self) -> Self:
        """An independent what-if branch; `trial` does without it."""
        with self._lock:
            other = object.__new__(type(self))
            mix = self._mix.copy()
            other._start(POLICIES[self._policy], mix, self._seed, self._nodes.copy())
            other._owners = self._owners.copy(other._core, other._nodes.undo)
            return other

    def to_bytes(self) -> bytes:
        """The state as versioned, checksummed bytes, for ``from_bytes``."""
        with self._lock:
            nodes, mix = self._nodes, self._mix
            settings = POLICIES[self._policy], self._seed, mix.is_given, (mix.counts, mix.weights)
            owners = {name: self._record(name) for name in sorted(self._owners.numbers)}
            payload = encode(settings, nodes.names, nodes.inventories, owners)
        return seal(b"HCDC", 1, payload)

    def _record(self, name: str) -> OwnerRecord:
        owners = self._owners
        number, held = owners.node(name), owners.reservations.get(name)
        return OwnerRecord(
            self._nodes.names[number] or "",
            self._nodes.named(number, owners.charges(name) if held is None else held.charges),
            owners.priority(name),
            owners.through.get(name, ""),
            None if held is None else held.restricted,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The cluster whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        """
        payload = unseal(b"HCDC", 1, data)
        with corrupt_if_it_fails():
            settings, names, inventories, owners = decode(payload)
            policy, seed, is_given, counted = settings
            counts, weights = map(TaskMix, counted)
            mix = LearnedMix(counts) if is_given else LearnedMix.learned(counts, weights)
            cluster = object.__new__(cls)
            cluster._start(
                as_choice(policy, "policy", POLICIES),
                mix,
                as_int(seed, "seed", 0, MOST_SEED),
                Nodes(),
            )
            for name, inventory in zip(names, inventories, strict=True):
                if name is None or inventory is None:
                    cluster._nodes.leave_out()
                else:
                    cluster.add_node(name, inventory)
            cluster._nodes.open_holes()
            # The users of a reservation come before an owner that has its name.
            for name, record in sorted(owners.items(), key=lambda item: not item[1].reservation):
                fields = cluster._nodes, cluster._owners, name, *record[:3]
                if record.restricted is None:
                    recover_owner(*fields, as_text(record.reservation, "reservation"))
                else:
                    recover_reservation(*fields, as_bool(record.restricted, "restricted"))
        return cluster

    def check(self) -> None:
        """Audit every invariant.

        :raises InvariantError: one is broken. Cost: O(size).
        """
        with self._lock:
            self._core.check()

    def __sizeof__(self) -> int:
        with self._lock:
            return object.__sizeof__(self) + self._core.__sizeof__()
