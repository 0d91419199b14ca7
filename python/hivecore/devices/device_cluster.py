"""The devices of all nodes: which pod may have which, and who has what."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from threading import RLock
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from hivecore import _devices
from hivecore._arguments import as_bool, as_choice, as_int, as_mapping, as_name, as_text, as_tuple
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._trial import Transaction, Trials
from hivecore.devices._learned_mix import LearnedMix
from hivecore.devices._nodes import Nodes
from hivecore.devices._numbers import Masks
from hivecore.devices._owners import Charges, Held, Owners
from hivecore.devices._saved import OwnerRecord, decode, encode
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_decision import DeviceDecision, made_decision
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.explanation import DeviceExplanation, explain
from hivecore.devices.feasibility import CODES, Feasibility, count_codes
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.numa_hints import NumaHint, numa_hints, visible_masks
from hivecore.devices.preemption import cheapest_leavers
from hivecore.devices.proof import check_placement
from hivecore.devices.recovery import (
    are_of_templates,
    check_allocations,
    count_in_bytes,
    recover_owner,
    recover_reservation,
)
from hivecore.devices.reservation import (
    DeviceReservation,
    Reserved,
    Wish,
    add_reserved,
    best_through,
    described,
    is_within,
    reserve_after,
)
from hivecore.devices.task_mix import TaskMix
from hivecore.devices.together import why_impossible
from hivecore.errors import CertificateError, StaleDecisionError

__all__ = ["POLICIES", "DeviceCluster", "Policy"]

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
_NUMBERS: dict[str, int] = {policy: number for number, policy in enumerate(POLICIES)}
_RANDOM, _FGD = _NUMBERS["random"], _NUMBERS["fgd"]
_NO_WISH = Wish((), "first")
_NOBODY: frozenset[str] = frozenset()


class DeviceCluster(Trials, Stateful):
    """Decides which node a pod goes to and which of its GPUs, NICs and other devices it gets.

    :param nodes: name -> inventory of each node.
    :param policy: for requests that do not say; see below. ``None``: "bin-pack".
    :param mix: which pods come, for "fgd"; ``None``: learned from those that are committed
        while it is the cluster's policy.
    :param seed: of "random", 0 to 2**64 - 1.
    :raises TypeError: an argument is of a wrong type.
    :raises ValueError: a name is empty, or there is no such policy.

    Of the nodes that can serve a request the one is taken where most needs are in their preferred
    scopes, then the one with the best score, then the one that was added first (a new node takes
    the place of one that was removed). "bin-pack" and "spread" score a node by the share of its
    devices that would be in use (spread: left), in ten-thousandths, the mean over the types. The
    others are for shared GPUs, and score a node by the opposite of a cost, as FGD's authors compare
    them: "best-fit" and "worst-fit" by what is free of its processors and GPUs; "dot-product" by
    the product of that with what is asked; "packing" takes GPUs in use before idle ones before idle
    nodes; "clustering" joins pods that take as many GPUs; "random" draws a node by the seed and the
    owner's name; "fgd" by how much idle GPU memory becomes useless to the pods that come.

    On a node devices are chosen together, and exactly: a request waits only if no choice of devices
    serves it. The best choice has the best tier of partitions, if it must be one; the tightest
    scope around the GPUs; the fewest places whose nearest NIC is across the machine, then the
    socket, then the NUMA node; leaves most whole partitions; is next to the fewest idle devices
    (spread: used ones), by switches, then NUMA nodes, then sockets; leaves least on its devices
    (spread: most); and has the lowest minors. Of virtual functions the lowest bus addresses are
    taken.

    Memory is counted in bytes; a percentage is converted for each device, rounded down, so shares
    that sum to 100 percent fit on any card, and a card is never promised more than it has. A pod
    with a share that comes to no byte of a small card is on that card all the same.

    ``schedule`` costs O(log(nodes)) for each node that changed since the same was asked last, and
    some microseconds for the choice; the first time, O(different states of nodes). ``trial`` undoes
    what is done in it at the cost of those changes; ``copy`` is a branch that lives on. One object
    may be used by several threads: calls take turns. Source: Koordinator's device scheduling, with
    its defects mended, and gpushare.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
    >>> node = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
    >>> cluster = DeviceCluster({"n0": node, "n1": node})
    >>> request = DeviceRequest("train", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    >>> decision = cluster.schedule(request)
    >>> [(one.type, one.minor) for one in decision.placement]
    [('gpu', 0), ('gpu', 1), ('rdma', 0)]
    >>> cluster.commit(decision)
    >>> cluster.release("train")
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeDevices] | None = None,
        *,
        policy: Policy | None = None,
        mix: TaskMix | None = None,
        seed: int = 0,
    ) -> None:
        given = dict(as_mapping({} if nodes is None else nodes, "nodes"))
        wanted: object = mix
        if wanted is not None and not isinstance(wanted, TaskMix):
            raise TypeError(f"mix must be a TaskMix, not {type(wanted).__name__}")
        number = as_int(seed, "seed", 0, 2**64 - 1)
        named = as_choice("bin-pack" if policy is None else policy, "policy", POLICIES)
        self._start(named, LearnedMix(mix), number, Nodes())
        for name, inventory in given.items():
            self.add_node(name, inventory)

    def _start(self, policy: str, mix: LearnedMix, seed: int, nodes: Nodes) -> None:
        self._policy = _NUMBERS[policy]
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
        :raises TypeError: an argument is of a wrong type.
        """
        name = as_name(name, "node")
        _check_inventory(inventory)
        with self._lock:
            self._equip(self._nodes.add(name, inventory), inventory)

    def remove_node(self, name: str) -> tuple[str, ...]:
        """Remove a node and all owners on it; returns their names, sorted.

        :raises KeyError: there is no such node.
        """
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

        :raises KeyError: there is no such node.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_inventory(inventory)
        with self._lock:
            number = self._nodes.number(name)
            self._equip(number, inventory)
            count_in_bytes(self, number)

    def set_health(
        self, name: str, healthy: bool, *, type: str | None = None, minor: int | None = None
    ) -> None:
        """Mark devices of a node as unhealthy, or as healthy again; owners stay.

        :param type: only devices of this type; ``None``: all.
        :param minor: only this one of the type.
        :raises KeyError: there is no such node, or no such device on it.
        :raises ValueError: there is no such type, or a minor without a type.
        :raises TypeError: an argument is of a wrong type.
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
        """What a node has.

        :raises KeyError: there is no such node.
        """
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
            self._mix.told = None  # it may be too heavy now

    # --- decisions

    def filter(
        self,
        request: DeviceRequest,
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
        reservations: Iterable[str] = (),
        reserved: Reserved = "first",
    ) -> Feasibility:
        """Which nodes can serve a request now, how well, and why the others cannot.

        :param nodes: names of the nodes to look at; ``None``: all.
        :param policy: what scores say; ``None``: the cluster's.
        :param reservations: those that it may use; of a restricted one the score is that of the
            devices that it has left.
        :param reserved: see ``schedule``.
        :raises KeyError: there is no such node, or no such reservation.
        :raises ValueError: there is no such policy, or no such use of reservations.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        wish = Wish.of(reservations, reserved)
        with self._lock:
            number = self._policy_number(policy)
            wish.check(self)
            if names is None:
                names = self._nodes.in_order
                asked = self._nodes.asked
            else:
                asked = [self._nodes.number(name) for name in names]
            self._prepare(number)
            query = self._nodes.query(request)
            codes, _, resolvable, scores = self._core.filter(query, number, asked)
            if wish.names or wish.when == "only":
                looked_at = range(len(names)) if asked is None else asked
                add_reserved(self, query, number, looked_at, wish, codes, resolvable, scores)
        return Feasibility(names, codes, resolvable, scores)

    def capacity(
        self,
        request: DeviceRequest,
        most: int,
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
        after: tuple[DeviceRequest, int] | None = None,
    ) -> npt.NDArray[np.int32]:
        """How many pods with this request each node can hold now, if ``schedule`` and ``commit``
        place them one after the other.

        :param most: up to which number pods are counted, 0 to 2**31 - 1.
        :param nodes: names of the nodes to look at; ``None``: all.
        :param policy: how devices are chosen; ``None``: as the cluster says. The devices that
            "random" draws depend on the pods' names: it counts as "bin-pack" does.
        :param after: the request of other pods, and how many of them each node gets first.
        :returns: int32[nodes], in the order of ``nodes``; -1: it has no room for those others.
        :raises KeyError: there is no such node.
        :raises ValueError: there is no such policy, or ``most`` is out of range.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(nodes); for each different state of nodes some microseconds a pod, unless it was
        counted before for an equal request, ``after`` no others.

        >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
        >>> node = NodeDevices.uniform(gpus=8, nics=2)
        >>> cluster = DeviceCluster({"n0": node, "n1": node})
        >>> pod = DeviceRequest("pod", gpus=1, nics=1, joint=("gpu", "rdma"))
        >>> cluster.commit(cluster.schedule(pod))
        >>> cluster.capacity(pod, 8)
        array([1, 2], dtype=int32)
        """
        _check_request(request)
        limit = as_int(most, "most", 0, 2**31 - 1)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        first, before = (request, 0) if after is None else after
        _check_request(first, "after[0]")
        before = as_int(before, "after[1]", 0, 2**31 - 1)
        with self._lock:
            number = self._policy_number(policy)
            if number == _RANDOM:
                number = _NUMBERS["bin-pack"]
            self._prepare(number)
            asked = self._nodes.asked
            if names is not None:
                asked = [self._nodes.number(name) for name in names]
            of_others = self._nodes.query(first) if before else None
            found: npt.NDArray[np.int32] = self._core.capacity(
                self._nodes.query(request), number, limit, asked, of_others, before
            )
            return found

    def fits(self, request: DeviceRequest) -> bool:
        """Whether the request could be served now."""
        return self.schedule(request).outcome == "bind"

    def schedule(
        self,
        request: DeviceRequest,
        *,
        nodes: Iterable[str] | None = None,
        gpus: Iterable[int] | None = None,
        policy: Policy | None = None,
        preemptible: Iterable[str] = (),
        reservations: Iterable[str] = (),
        reserved: Reserved = "first",
    ) -> DeviceDecision:
        """Decide which devices of which node the request would get; nothing changes.

        :param nodes: names of the only nodes to use; ``None``: all.
        :param gpus: with one node: the only GPUs to use, by minor, for somebody who has chosen them
            already; what else is needed is chosen near them. ``None``: all.
        :param policy: how; ``None``: as the cluster says.
        :param preemptible: owners who may have to leave for it, if it does not fit otherwise. Those
            of low priority leave first, then those that hold least, and nobody who need not. Users
            of reservations stay: what they have goes back there.
        :param reservations: those that it may use. The one is used where most needs are in their
            preferred scopes, then the one with the best score, see ``filter``, then the one that
            was named first.
        :param reserved: "first": one of them if any serves it, else what is free elsewhere; "only":
            one of them; "last": only if nothing else serves it.
        :raises KeyError: there is no such node, GPU, owner or reservation.
        :raises ValueError: the owner has devices already, there is no such policy or use of
            reservations, owners may have to leave where only reservations will do, or ``gpus`` do
            not go with one node alone.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        # Identity is enough to spare the usual case the checks.
        may_leave = _NOBODY if preemptible is _NO_WISH.names else _as_owners(preemptible)
        wish = _NO_WISH
        if reservations is not _NO_WISH.names or reserved is not _NO_WISH.when:
            wish = Wish.of(reservations, reserved)
            if may_leave and wish.when == "only":
                raise ValueError("preemptible: not together with reserved='only'")
        chosen = None
        if gpus is not None:
            chosen = _as_minors(gpus)
            if names is None or len(names) != 1 or may_leave or wish is not _NO_WISH:
                raise ValueError("gpus: only with one node, and with nothing else")
        with self._lock:
            number = self._policy_number(policy)
            if wish.names:
                wish.check(self)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            query = self._nodes.query(request)
            asked = None if names is None else [self._nodes.number(name) for name in names]
            self._prepare(number)
            if chosen is not None and asked is not None:
                masks = self._nodes.visible_with(asked[0], chosen)
                return self._on_devices(request, query, number, asked[0], masks)
            if wish is _NO_WISH:
                decision = self._anywhere(request, query, number, asked)
            else:
                decision = self._as_wished(request, query, number, asked, wish)
            if decision is None and may_leave:
                decision = self._preempting(request, query, number, asked, may_leave)
            if decision is None:
                decision = self._refused(request, query, number, asked)
            return decision

    def _anywhere(
        self, request: DeviceRequest, query: Any, policy: int, numbers: list[int] | None
    ) -> DeviceDecision | None:
        """What is free on the best of these nodes; ``None``: none serves the request."""
        plan = self._core.schedule(query, policy, numbers, *self._draw(request, policy))
        return None if plan is None else self._bound(request, plan)

    def _through(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        numbers: list[int] | None,
        names: tuple[str, ...],
    ) -> DeviceDecision | None:
        """What the best of these reservations gives; ``None``: none serves the request."""
        draw = self._draw(request, policy)
        best = best_through(self, query, policy, numbers, names, draw)
        if best is None:
            return None
        return self._bound(request, best.plan, best.name, best.of_all)

    def _as_wished(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        numbers: list[int] | None,
        wish: Wish,
    ) -> DeviceDecision | None:
        """Through reservations before or after what is free elsewhere, or through them alone;
        ``None``: nothing serves the request.
        """
        if wish.when == "last":
            decision = self._anywhere(request, query, policy, numbers)
            if decision is None:
                decision = self._through(request, query, policy, numbers, wish.names)
            return decision
        decision = self._through(request, query, policy, numbers, wish.names)
        if decision is None and wish.when == "only":
            count = len(self._nodes.by_name if numbers is None else numbers)
            counts = (("reservation", count),) if count else ()
            return made_decision(request, "", counts, None, self, None, ())
        if decision is None:
            decision = self._anywhere(request, query, policy, numbers)
        return decision

    def _on_devices(
        self, request: DeviceRequest, query: Any, policy: int, number: int, masks: Masks | None
    ) -> DeviceDecision:
        """The decision for these devices of one node; ``None``: all of them."""
        look = partial(self._core.examine, query, policy, number, masks)
        code, _, plan = look()
        return self._for_node(request, code, plan, look)

    def _bound(
        self, request: DeviceRequest, plan: Any, reservation: str = "", of_all: bool = True
    ) -> DeviceDecision:
        name = self._nodes.names[plan.node] or ""
        inventory, mark = self._nodes.inventories[plan.node], self._nodes.marks[plan.node]
        return made_decision(
            request, name, (), plan, self, inventory, None, (), reservation, of_all, mark
        )

    def _draw(self, request: DeviceRequest, policy: int) -> tuple[int, int]:
        return (self._seed, _draw_number(request.name)) if policy == _RANDOM else (0, 0)

    def _prepare(self, policy: int) -> None:
        """What the policy goes by is brought up to date."""
        if policy == _FGD:
            self._mix.tell(self._core, self._nodes.numbers.model)

    def _preempting(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        asked: list[int] | None,
        may_leave: frozenset[str],
    ) -> DeviceDecision | None:
        numbers = [self._owners.number(name, "preemptible") for name in may_leave]
        nodes = set(map(self._core.node_of, numbers))
        candidates = sorted(nodes if asked is None else nodes & set(asked))
        found = cheapest_leavers(self, query, policy, candidates, may_leave)
        if found is None:
            return None
        gone = [self._owners.number(name) for name in found.names]
        plan = self._core.examine(query, policy, found.node, None, gone)[2]
        name = self._nodes.names[found.node] or ""
        inventory = self._nodes.inventories[found.node]
        return made_decision(request, name, (), plan, self, inventory, None, found.names)

    def _refused(
        self, request: DeviceRequest, query: Any, policy: int, asked: list[int] | None
    ) -> DeviceDecision:
        if asked is None:
            asked = self._nodes.asked
        counts = count_codes(self._core.filter(query, policy, asked)[0])
        impossible = bool(counts) and not self._core.is_possible(query, asked)
        return made_decision(request, "", counts, None, self, None, (), impossible=impossible)

    def commit(self, decision: DeviceDecision) -> None:
        """Carry out a decision to bind: from now on its owner has these devices.

        :raises StaleDecisionError: they are not free any more, or not there, or the node was
            removed since, even if another one has its name now, or another inventory
            of the node has made them other than asked, or their reservation is gone or has not
            enough left, or the owner has devices by now; nothing has changed.
        :raises ValueError: it is not a decision to bind, or one of another cluster.
        :raises TypeError: ``decision`` is not a `DeviceDecision`.

        One that was copied or pickled can be committed to any cluster that has its node.
        """
        with self._lock:
            self._carry_out(decision)

    def _carry_out(self, decision: DeviceDecision) -> None:
        if type(decision) is not DeviceDecision:
            raise TypeError(f"decision must be a DeviceDecision, not {type(decision).__name__}")
        plan = decision._plan
        if plan is None or decision.victims:
            raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
        request, reservation = decision.request, decision.reservation
        if decision._cluster is not self:
            if decision._cluster is not None:
                raise ValueError("decision is of another cluster")
            plan = self._fitted(decision)
        elif self._nodes.marks[plan.node] is not decision._mark:
            raise StaleDecisionError(f"node {decision.node!r} is gone")
        if request.name in self._owners.numbers:
            raise StaleDecisionError(f"{request.name!r} has devices by now")
        if reservation:
            self._open(reservation, plan)
        try:
            if decision._inventory is not self._nodes.inventories[plan.node]:
                self._check_again(decision, plan.node)
            owner = self._core.commit(plan)
            if owner < 0:
                raise StaleDecisionError(f"devices of node {decision.node!r} are taken by now")
            self._owners.book(request.name, owner, request.priority)
            if reservation:
                self._owners.enter(request.name, reservation)
        finally:
            if reservation:
                self._owners.settle(reservation)
        if self._policy == _FGD:
            self._mix.see(request)

    def _open(self, reservation: str, plan: Any) -> None:
        """All that a reservation has left is free, until it is settled."""
        held = self._owners.reservations.get(reservation)
        if held is None or self._owners.node(reservation) != plan.node:
            raise StaleDecisionError(f"reservation {reservation!r} is gone")
        left = self._owners.charges(reservation)
        if held.restricted and not is_within(plan.charges, left, held.types):
            raise StaleDecisionError(f"reservation {reservation!r} has not enough left")
        self._core.recharge(self._owners.number(reservation), ())

    def _check_again(self, decision: DeviceDecision, number: int) -> None:
        """The kernel looks at amounts alone; labels, places and the like may have changed, too."""
        held = self._held_on(number)
        inventory = self._nodes.inventory(number)
        try:
            check_placement(
                decision.request, decision.placement, inventory, held, of_all=decision._of_all
            )
        except CertificateError as error:
            raise StaleDecisionError(f"node {decision.node!r} is another by now: {error}") from None

    def _held_on(self, number: int) -> list[DeviceAllocation]:
        """What the owners on a node have."""
        return [
            one
            for owner in self._core.owners(number)
            for one in self._nodes.numbers.allocations(self._core.charges_of(owner), None)
        ]

    def _fitted(self, decision: DeviceDecision) -> Any:
        number = self._nodes.by_name.get(decision.node)
        if number is None:
            raise StaleDecisionError(f"node {decision.node!r} is not here")
        charges = self._nodes.numbers.charges(decision.placement)
        return _devices.Plan(number, charges, decision._plan.idle)

    def schedule_many(
        self,
        requests: Iterable[DeviceRequest],
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
        reservations: Iterable[str] = (),
        reserved: Reserved = "first",
    ) -> tuple[DeviceDecision, ...]:
        """What would be done for requests one after the other, each as if those before it that can
        be served had been; nothing changes.

        A gang can start if none of them waits. See ``schedule`` and ``commit_many``.

        :raises ValueError: an owner has devices already, or is named twice.
        """
        given = as_tuple(requests, "requests")
        for request in given:
            _check_request(request)
        names = [request.name for request in given]
        if len(set(names)) != len(names):
            raise ValueError("requests: an owner is named twice")
        allowed = None if nodes is None else as_tuple(nodes, "nodes")
        wish = Wish.of(reservations, reserved)
        with self._lock:
            decisions: list[DeviceDecision] = []
            with self.trial():
                for request in given:
                    decision = self.schedule(
                        request,
                        nodes=allowed,
                        policy=policy,
                        reservations=wish.names,
                        reserved=wish.when,
                    )
                    decisions.append(decision)
                    if decision.outcome == "bind":
                        self._carry_out(decision)
        return tuple(decisions)

    def commit_many(self, decisions: Iterable[DeviceDecision]) -> None:
        """Carry out decisions, all or none; errors as of ``commit``."""
        given = as_tuple(decisions, "decisions")
        with self._lock, Transaction(self):
            for decision in given:
                self._carry_out(decision)

    def allocate(
        self,
        request: DeviceRequest,
        node: str,
        *,
        policy: Policy | None = None,
        numa: Iterable[int] | None = None,
        designated: Iterable[DeviceAllocation] | None = None,
    ) -> DeviceDecision:
        """Decide for one node and carry it out at once, if it is one to bind.

        :param numa: the only NUMA nodes to use, see ``numa_hints``; ``None``: all. A device that
            does not say its NUMA node is on all of them.
        :param designated: of each type in it the only devices to use, the most that each of them
            gives, and its virtual function, if one is named; ``None``: all. What is free is capped
            by it, then the request has to fit: it gets what it asks for, not what is designated
            beyond that. A type that is not in it is chosen freely. With ``numa``, both hold: of the
            designated devices only those on these NUMA nodes are used.
        :raises KeyError: there is no such node.
        :raises ValueError: the owner has devices already, or a designated device is named twice.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        with self._lock:
            policy_number = self._policy_number(policy)
            number = self._nodes.number(node)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            if designated is not None:
                given = as_tuple(designated, "designated")
                decision = self._designated(request, number, policy_number, given, _as_numa(numa))
            elif numa is not None:
                decision = self._on_numa(request, number, policy_number, _as_numa(numa))
            else:
                decision = self.schedule(request, nodes=(node,), policy=policy)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def _on_numa(
        self, request: DeviceRequest, number: int, policy: int, allowed: set[int] | None
    ) -> DeviceDecision:
        self._prepare(policy)
        masks = self._masks(number, allowed)
        return self._on_devices(request, self._nodes.query(request), policy, number, masks)

    def _masks(self, number: int, numa: set[int] | None) -> Masks | None:
        """The devices of a node on these NUMA nodes; ``None``: all."""
        return None if numa is None else visible_masks(self._nodes.inventory(number), numa)

    def _designated(
        self,
        request: DeviceRequest,
        number: int,
        policy: int,
        given: tuple[DeviceAllocation, ...],
        numa: set[int] | None,
    ) -> DeviceDecision:
        self._prepare(policy)
        named = self._nodes.inventory(number).in_bytes(check_allocations(given, "designated"))
        charges = self._nodes.numbers.charges(named)
        query, masks = self._nodes.query(request), self._masks(number, numa)
        look = partial(self._core.examine, query, policy, number, masks, designated=charges)
        plan = look()[2]
        if plan is not None and not are_of_templates(plan.charges, charges):
            plan = None
        return self._for_node(request, CODES.index("designated"), plan, look)

    def _for_node(
        self, request: DeviceRequest, code: int, plan: Any, look: Callable[..., Any] | None = None
    ) -> DeviceDecision:
        """What was found on some devices of one node.

        :param look: asks the kernel for it; ``None``: what is possible is not asked.
        """
        if plan is not None:
            return self._bound(request, plan, "", False)
        impossible = look is not None and look(idle=True)[0] != 0
        counts = ((CODES[code], 1),)
        return made_decision(request, "", counts, None, self, None, (), impossible=impossible)

    def release(self, name: str) -> None:
        """Take back all devices of an owner. What a reservation has left is free then, its users
        stay; what a user of one has goes back there.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            self._owners.release(name)

    def rename(self, name: str, new: str) -> None:
        """An owner has another name from now on; its devices stay its own. Cost: O(1), of users of
        a reservation O(its users).

        :raises KeyError: there is no such owner.
        :raises ValueError: it is a reservation, whose users know it by its name; there is an owner
            of the new name, or it is empty.
        :raises TypeError: an argument is of a wrong type.
        """
        new = as_name(new, "new")
        with self._lock:
            self._owners.number(name)
            if name in self._owners.reservations:
                raise ValueError(f"name={name!r}: a reservation keeps its name")
            if new in self._owners.numbers:
                raise ValueError(f"new={new!r}: has devices")
            self._owners.rename(name, new)

    # --- reservations

    def reserve(self, decision: DeviceDecision, *, restricted: bool = False) -> None:
        """Carry out a decision to bind for a reservation: its devices are held for those whose
        requests are scheduled with its name among the ``reservations``.

        :param restricted: its users get its devices alone, and no more of them than it has left, as
            far as it has any of the type. Otherwise they get its devices first, and others of the
            node if these do not do.
        :raises StaleDecisionError: as of ``commit``.
        :raises ValueError: as of ``commit``, or it is through another reservation.
        :raises TypeError: an argument is of a wrong type.

        A reservation is an owner, with the name of the request. It is charged for what its users
        have left of it; ``release`` is its end. Source: Koordinator's reservations.
        """
        restricted = as_bool(restricted, "restricted")
        with self._lock:
            reservation = getattr(decision, "reservation", "")
            if reservation:
                raise ValueError(f"decision: is through reservation {reservation!r}")
            self._carry_out(decision)
            name = decision.request.name
            self._owners.reserve(name, Held(self._owners.charges(name), restricted))

    def reserve_after(
        self,
        request: DeviceRequest,
        owner: str,
        *,
        policy: Policy | None = None,
        restricted: bool = False,
    ) -> DeviceDecision:
        """Reserve what an owner has, for the time after its end, at once if it can be.

        The reservation holds all devices of the owner, and others of the node if the request is for
        more; the owner stays, as its first user.

        :param restricted: see ``reserve``.
        :raises KeyError: there is no such owner.
        :raises ValueError: the request's owner has devices already, the other one is a reservation
            or uses one, or there is no such policy.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        restricted = as_bool(restricted, "restricted")
        with self._lock:
            number = self._policy_number(policy)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            self._prepare(number)
            return reserve_after(self, request, owner, number, restricted)

    def reservation(self, name: str) -> DeviceReservation:
        """What a reservation holds, and who uses it.

        :raises KeyError: there is no such reservation.
        """
        with self._lock:
            return described(self, name)

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
        :raises KeyError: there is no such node.
        :raises ValueError: the owner has other devices or another reservation, which is on another
            node, a device is named twice, or the name is empty.
        :raises TypeError: an argument is of a wrong type.
        """
        reservation = as_text(reservation, "reservation")
        with self._lock:
            recover_owner(self, name, node, allocations, priority, reservation)

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
        :raises KeyError: there is no such node.
        :raises ValueError: as of ``recover``, or a user of it is on another node.
        :raises TypeError: an argument is of a wrong type.
        """
        restricted = as_bool(restricted, "restricted")
        with self._lock:
            recover_reservation(self, name, node, allocations, priority, restricted)

    # --- questions

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._owners.numbers

    def __len__(self) -> int:
        with self._lock:
            return len(self._owners.numbers)

    def node_of(self, name: str) -> str:
        """The node that an owner is on.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._nodes.names[self._owners.node(name)] or ""

    def allocations(self, name: str) -> tuple[DeviceAllocation, ...]:
        """What an owner has; a reservation: what its users have left of it.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._named(self._owners.node(name), self._owners.charges(name))

    def _named(self, number: int, charges: Charges) -> tuple[DeviceAllocation, ...]:
        return self._nodes.numbers.allocations(charges, self._nodes.inventories[number])

    def owners(self, node: str) -> tuple[str, ...]:
        """Names of the owners on a node, sorted.

        :raises KeyError: there is no such node.
        """
        with self._lock:
            return self._owners.on(self._nodes.number(node))

    def fragmentation(self, *, node: str | None = None) -> float:
        """How much idle GPU memory is of no use to the pods that come: FGD's measure.

        :param node: of one node; ``None``: of all together.
        :returns: bytes, the mean over the task mix; 0 if there is none.
        :raises KeyError: there is no such node.

        Source: FGD (USENIX ATC'23, section 3). Cost: O(GPUs * classes).
        """
        with self._lock:
            numbers = self._nodes.by_name.values() if node is None else [self._nodes.number(node)]
            self._prepare(_FGD)
            found = sum(self._core.fragmentation(number) for number in numbers)
            return found / max(self._mix.total, 1)

    def numa_hints(
        self, request: DeviceRequest, node: str, *, policy: Policy | None = None
    ) -> tuple[NumaHint, ...] | None:
        """On which sets of a node's NUMA nodes the request could be served now, small ones first;
        none if it could not be with all of them; ``None`` if it could be on any, since no device of
        the types that it needs says its NUMA node.

        `merge_numa_hints` merges them with those of processors, and ``allocate`` takes what that
        has chosen.

        :raises KeyError: there is no such node.
        :raises ValueError: it has more than 12 NUMA nodes, or there is no such policy.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(2**NUMA nodes) choices, of about a microsecond.
        """
        _check_request(request)
        with self._lock:
            how = self._policy_number(policy)
            self._prepare(how)
            number = self._nodes.number(node)
            query, inventory = self._nodes.query(request), self._nodes.inventory(number)
            return numa_hints(self._core, request, query, how, number, inventory)

    def explain(self, request: DeviceRequest, *, policy: Policy | None = None) -> DeviceExplanation:
        """Why a request would have to wait, what is missing where it nearly fits, and the cheapest
        owners to release for it; nothing changes.

        :raises ValueError: the owner has devices already, or there is no such policy.
        :raises TypeError: an argument is of a wrong type.
        """
        with self._lock:
            return explain(self, request, POLICIES[self._policy_number(policy)])

    def impossible(
        self, requests: Iterable[DeviceRequest], *, nodes: Iterable[str] | None = None
    ) -> str:
        """Why pods that have to run at the same time would wait even if all nodes were idle and
        healthy; "": they would not.

        :param requests: of the pods of a gang; of equal pods the request as often.
        :param nodes: names of the only nodes to use; ``None``: all.
        :returns: the reason of a pod that no node serves, or for how many pods there is room. Pods
            may be possible in a way that ``schedule`` does not find, and what takes too long to
            settle counts as possible.
        :raises KeyError: there is no such node.
        :raises TypeError: an argument is of a wrong type.

        Cost: that of a copy and of ``schedule_many``; where these do not all bind, that of up to
        5,000 placements.

        >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
        >>> cluster = DeviceCluster({f"n{i}": NodeDevices.uniform(gpus=6) for i in range(10)})
        >>> cluster.impossible([DeviceRequest("pod", gpus=4)] * 12)
        '12 pods with 4 gpu each: idle and healthy, the nodes have room for 10'
        """
        given = as_tuple(requests, "requests")
        for request in given:
            _check_request(request)
        allowed = None if nodes is None else as_tuple(nodes, "nodes")
        with self._lock:
            return why_impossible(self.emptied(), given, allowed)

    def emptied(self) -> Self:
        """A copy without owners on which all devices are healthy.

        Cost: that of a copy, and O(owners).
        """
        with self._lock:
            other = self.copy()
            for name in other._nodes.in_order:
                for owner in other.owners(name):
                    other.release(owner)
                if not all(device.healthy for device in other.inventory(name).devices):
                    other.set_health(name, True)
            return other

    def _placed(self, plan: Any, inventory: Any) -> tuple[DeviceAllocation, ...]:
        with self._lock:
            return self._nodes.numbers.allocations(plan.charges, inventory)

    def _policy_number(self, policy: str | None) -> int:
        if policy is None:
            return self._policy
        return _NUMBERS[as_choice(policy, "policy", POLICIES)]

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
            self._mix.told = None

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
            self._named(number, owners.charges(name) if held is None else held.charges),
            owners.priority(name),
            owners.through.get(name, ""),
            None if held is None else held.restricted,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The cluster whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
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
                as_int(seed, "seed", 0, 2**64 - 1),
                Nodes(),
            )
            for name, inventory in zip(names, inventories, strict=True):
                if name is None or inventory is None:
                    cluster._nodes.leave_out()
                else:
                    cluster.add_node(name, inventory)
            cluster._nodes.open_holes()
            # Who is to use a reservation comes before an owner that has its name.
            for name, one in sorted(owners.items(), key=lambda item: not item[1].reservation):
                if one.restricted is None:
                    cluster.recover(
                        name,
                        one.node,
                        one.allocations,
                        priority=one.priority,
                        reservation=one.reservation,
                    )
                else:
                    cluster.recover_reservation(
                        name,
                        one.node,
                        one.allocations,
                        priority=one.priority,
                        restricted=one.restricted,
                    )
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


def _draw_number(name: str) -> int:
    """64 bits of the owner's name."""
    bits = name.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(bits, digest_size=8).digest(), "little")


def _as_numa(numa: Iterable[int] | None) -> set[int] | None:
    if numa is None:
        return None
    return {as_int(one, "numa", 0, 2**31 - 1) for one in as_tuple(numa, "numa")}


def _as_owners(names: Iterable[str]) -> frozenset[str]:
    return frozenset([as_text(name, "preemptible") for name in as_tuple(names, "preemptible")])


def _as_minors(gpus: Iterable[int]) -> tuple[int, ...]:
    minors = as_tuple(gpus, "gpus")
    if {*map(type, minors)} - {int}:
        return tuple([as_int(one, "gpus", 0, 2**31 - 1) for one in minors])
    return minors


def _check_request(request: object, name: str = "request") -> None:
    if not isinstance(request, DeviceRequest):
        raise TypeError(f"{name} must be a DeviceRequest, not {type(request).__name__}")


def _check_inventory(inventory: object) -> None:
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be a NodeDevices, not {type(inventory).__name__}")
