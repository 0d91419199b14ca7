"""The devices of all nodes: which pod may have which, and who has what."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from heapq import heappop, heappush
from threading import RLock
from typing import Any, Literal, Self, get_args

from hivecore import _devices
from hivecore._arguments import as_bool, as_choice, as_int, as_mapping, as_name, as_text, as_tuple
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful
from hivecore.devices._koordinator import as_quirks, named_quirks, raw_query, raw_shape
from hivecore.devices._learned_mix import LearnedMix
from hivecore.devices._numbers import Numbers, healthy_masks
from hivecore.devices._saved import decode, encode
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
from hivecore.devices.task_mix import TaskMix
from hivecore.errors import CertificateError, StaleDecisionError

__all__ = ["POLICIES", "DeviceCluster", "Mode", "Policy"]

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
Mode = Literal["strict", "koordinator"]
_NUMBERS: dict[str, int] = {policy: number for number, policy in enumerate(POLICIES)}
_RANDOM, _FGD = _NUMBERS["random"], _NUMBERS["fgd"]
_OF_KOORDINATOR = POLICIES[:2]
_MOST_QUERIES = 1024
_SPARE_SHAPES = 64  # inventories that are remembered though no node has them
_MOST_KEPT = 2**22  # answers, over all queries and nodes


class DeviceCluster(Stateful):
    """Decides which node a pod goes to and which of its GPUs, NICs and other devices it gets.

    :param nodes: name -> inventory of each node.
    :param policy: for requests that do not say; see below. ``None``: "bin-pack", in mode
        "koordinator" "spread".
    :param mix: which pods come, for "fgd"; ``None``: learned from those that are committed
        while it is the cluster's policy.
    :param seed: of "random", 0 to 2**64 - 1.
    :param mode: "strict": as told here. "koordinator": every answer is Koordinator's, see below.
    :param quirks: in mode "koordinator", which of its defects are kept: "swapped_device_score",
        "lowest_tier_first", "exclusivity_ignored", "one_instance_scored", "bytes_not_scored",
        "greedy_joint"; ``None``: all.
    :raises TypeError: an argument is of a wrong type.
    :raises ValueError: a name is empty, there is no such policy, mode or defect, or defects are
        named in mode "strict".

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

    Memory is counted in bytes; a percentage is converted for each device, rounded up, so a card is
    never promised more than it has.

    Mode "koordinator" decides as its device plugin does at commit a7a1b76b: the nodes that pass its
    filter, and can be reserved after that, are scored ("bin-pack": MostAllocated, "spread":
    LeastAllocated), and the first with the best score is taken. Of GPU memory bytes and percent are
    charged side by side, so a card can be promised more than it has; devices are limited by what
    they report alone; what is exclusive does not keep later owners off. Needs of the host, models,
    the scope "socket" and preferred scopes are refused with a ValueError wherever they are asked.

    ``schedule`` costs O(log(nodes)) for each node that changed since the same was asked last, and
    some microseconds for the choice; the first time, O(different states of nodes). One object may
    be used by several threads: calls take turns. Source: Koordinator's device scheduling, with its
    defects mended, and gpushare.

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
        mode: Mode = "strict",
        quirks: Iterable[str] | None = None,
    ) -> None:
        given = dict(as_mapping({} if nodes is None else nodes, "nodes"))
        wanted: object = mix
        if wanted is not None and not isinstance(wanted, TaskMix):
            raise TypeError(f"mix must be a TaskMix, not {type(wanted).__name__}")
        number = as_int(seed, "seed", 0, 2**64 - 1)
        upstream = as_choice(mode, "mode", ("strict", "koordinator")) == "koordinator"
        if quirks is not None and not upstream:
            raise ValueError("quirks: only mode 'koordinator' has any")
        default = "spread" if upstream else "bin-pack"
        allowed = _OF_KOORDINATOR if upstream else POLICIES
        named = as_choice(default if policy is None else policy, "policy", allowed)
        self._start(named, LearnedMix(mix), number, as_quirks(quirks) if upstream else None)
        for name, inventory in given.items():
            self.add_node(name, inventory)

    def _start(self, policy: str, mix: LearnedMix, seed: int, quirks: int | None) -> None:
        self._policy = _NUMBERS[policy]
        self._mix = mix
        self._seed = seed
        self._quirks = quirks  # None: mode "strict"
        self._lock = RLock()
        self._core = _devices.DeviceKernel(quirks)
        self._numbers = Numbers()
        self._shapes: dict[Any, int] = {}
        self._shape_of_inventory: dict[int, tuple[NodeDevices, int, tuple[int, ...]]] = {}
        self._nodes: dict[str, int] = {}
        self._names: list[str | None] = []
        self._inventories: list[NodeDevices | None] = []
        self._in_order: tuple[str, ...] | None = None
        self._holes: list[int] = []
        self._owners: dict[str, int] = {}
        self._owner_names: dict[int, str] = {}
        self._priorities: dict[str, int] = {}
        self._queries: dict[Any, Any] = {}

    # --- nodes

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in their order."""
        with self._lock:
            if self._in_order is None:
                self._in_order = tuple([name for name in self._names if name is not None])
            return self._in_order

    def add_node(self, name: str, inventory: NodeDevices) -> None:
        """Add a node.

        :raises ValueError: there is one of this name, or the name is empty.
        :raises TypeError: an argument is of a wrong type.
        """
        name = as_name(name, "node")
        _check_inventory(inventory)
        with self._lock:
            if name in self._nodes:
                raise ValueError(f"node={name!r}: is there already")
            self._known(inventory)  # or it is refused here
            if self._holes:
                number = heappop(self._holes)
            else:
                number = len(self._names)
                self._names.append(None)
                self._inventories.append(None)
            self._nodes[name] = number
            self._names[number] = name
            self._in_order = None
            self._equip(number, inventory)

    def remove_node(self, name: str) -> tuple[str, ...]:
        """Remove a node and all owners on it; returns their names, sorted.

        :raises KeyError: there is no such node.
        """
        with self._lock:
            number = self._number(name)
            owners = self._owners_on(number)
            for owner in owners:
                self.release(owner)
            self._core.set_node(number, -1, (0,) * len(TYPES))
            del self._nodes[name]
            self._names[number] = self._inventories[number] = self._in_order = None
            heappush(self._holes, number)
            return owners

    def set_inventory(self, name: str, inventory: NodeDevices) -> None:
        """Say what a node has now; owners stay charged, for devices that are gone as well.

        :raises KeyError: there is no such node.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_inventory(inventory)
        with self._lock:
            self._equip(self._number(name), inventory)

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
            number = self._number(name)
            inventory = self._inventory(number)
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
            return self._inventory(self._number(name))

    def _equip(self, number: int, inventory: NodeDevices) -> None:
        _, shape, healthy = self._known(inventory)
        before = self._core.most_memory
        self._core.set_node(number, shape, healthy)
        if self._core.most_memory > before:
            self._mix.is_told = False  # it may be too heavy now
        self._inventories[number] = inventory

    def _known(self, inventory: NodeDevices) -> tuple[NodeDevices, int, tuple[int, ...]]:
        known = self._shape_of_inventory.get(id(inventory))
        if known is None or known[0] is not inventory:
            key = self._shape(inventory)
            shape = self._shapes.get(key)
            if shape is None:
                if len(self._shapes) > 2 * len(self._nodes) + _SPARE_SHAPES:
                    self._forget_shapes()
                shape = self._shapes[key] = self._core.add_shape(*key)
            if len(self._shape_of_inventory) >= 1024:
                self._shape_of_inventory.clear()
            known = inventory, shape, healthy_masks(inventory)
            self._shape_of_inventory[id(inventory)] = known
        return known

    def _forget_shapes(self) -> None:
        """Those that no node has any more."""
        dropped = set(self._core.drop_unused_shapes())
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape not in dropped}
        self._shape_of_inventory.clear()
        self._queries = {}

    def _shape(self, inventory: NodeDevices) -> tuple[Any, ...]:
        if self._quirks is None:
            return *self._numbers.shape(inventory), None
        return raw_shape(self._numbers, inventory)

    def _number(self, name: str) -> int:
        number = self._nodes.get(as_text(name, "node"))
        if number is None:
            raise KeyError(f"node={name!r}: there is no such node")
        return number

    def _inventory(self, number: int) -> NodeDevices:
        inventory = self._inventories[number]
        assert inventory is not None
        return inventory

    # --- decisions

    def filter(
        self,
        request: DeviceRequest,
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
    ) -> Feasibility:
        """Which nodes can serve a request now, how well, and why the others cannot.

        :param nodes: names of the nodes to look at; ``None``: all.
        :param policy: what scores say; ``None``: the cluster's.
        :raises KeyError: there is no such node.
        :raises ValueError: there is no such policy.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        number = self._policy_number(policy)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        with self._lock:
            if names is None:
                names = self.nodes
                asked = [self._nodes[name] for name in names] if self._holes else None
            else:
                asked = [self._number(name) for name in names]
            self._prepare(number)
            found = self._core.filter(self._query(request), number, asked)
        codes, _, resolvable, scores = found
        if self._quirks is not None and scores.any():
            scores = 100 * scores // scores.max()
        return Feasibility(names, codes, resolvable, scores)

    def fits(self, request: DeviceRequest) -> bool:
        """Whether the request could be served now."""
        return self.schedule(request).outcome == "bind"

    def schedule(
        self,
        request: DeviceRequest,
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
        preemptible: Iterable[str] = (),
    ) -> DeviceDecision:
        """Decide which devices of which node the request would get; nothing changes.

        :param nodes: names of the only nodes to use; ``None``: all.
        :param policy: how; ``None``: as the cluster says.
        :param preemptible: owners who may have to leave for it, if it does not fit otherwise. Those
            of low priority leave first, then those that hold least, and nobody who need not.
        :raises KeyError: there is no such node, or no such owner.
        :raises ValueError: the owner has devices already, or there is no such policy.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        number = self._policy_number(policy)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        may_leave = frozenset(as_tuple(preemptible, "preemptible")) if preemptible else None
        with self._lock:
            if request.name in self._owners:
                raise ValueError(f"request: {request.name!r} has devices already")
            query = self._query(request)
            asked = None if names is None else [self._number(name) for name in names]
            self._prepare(number)
            if number == _RANDOM:
                draw = _draw_number(request.name)
                plan = self._core.schedule(query, number, asked, self._seed, draw)
            else:
                plan = self._core.schedule(query, number, asked)
            if plan is not None:
                name = self._names[plan.node] or ""
                inventory = self._inventories[plan.node]
                return made_decision(request, name, (), plan, self, inventory, None)
            if may_leave:
                victims = self._preempting(request, query, number, asked, may_leave)
                if victims is not None:
                    return victims
            return self._refused(request, query, number, asked)

    def _prepare(self, policy: int) -> None:
        """What the policy goes by is brought up to date."""
        if policy == _FGD:
            self._mix.tell(self._core, self._numbers.model)

    def _preempting(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        asked: list[int] | None,
        may_leave: frozenset[str],
    ) -> DeviceDecision | None:
        nodes = {self._core.node_of(self._owner(name)) for name in may_leave}
        candidates = sorted(nodes if asked is None else nodes & set(asked))
        found = cheapest_leavers(self, query, policy, candidates, may_leave)
        if found is None:
            return None
        gone = [self._owners[name] for name in found.names]
        plan = self._core.examine(query, policy, found.node, None, gone)[2]
        name = self._names[found.node] or ""
        inventory = self._inventories[found.node]
        return made_decision(request, name, (), plan, self, inventory, None, found.names)

    def _refused(
        self, request: DeviceRequest, query: Any, policy: int, asked: list[int] | None
    ) -> DeviceDecision:
        if asked is None and self._holes:
            asked = list(self._nodes.values())
        codes = self._core.filter(query, policy, asked)[0]
        return made_decision(request, "", count_codes(codes), None, self, None, ())

    def commit(self, decision: DeviceDecision) -> None:
        """Carry out a decision to bind: from now on its owner has these devices.

        :raises StaleDecisionError: they are not free any more, or not there, or another inventory
            of the node has made them other than asked, or the owner has devices by now; nothing
            has changed.
        :raises ValueError: it is not a decision to bind, or one of another cluster.
        :raises TypeError: ``decision`` is not a `DeviceDecision`.

        One that was copied or pickled can be committed to any cluster that has its node.
        """
        if type(decision) is not DeviceDecision:
            raise TypeError(f"decision must be a DeviceDecision, not {type(decision).__name__}")
        plan = decision._plan
        if plan is None or decision.victims:
            raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
        request = decision.request
        with self._lock:
            if decision._cluster is not self:
                if decision._cluster is not None:
                    raise ValueError("decision is of another cluster")
                plan = self._fitted(decision)
            elif self._names[plan.node] != decision.node:
                raise StaleDecisionError(f"node {decision.node!r} is gone")
            if request.name in self._owners:
                raise StaleDecisionError(f"{request.name!r} has devices by now")
            if decision._inventory is not self._inventories[plan.node] and self._quirks is None:
                self._check_again(decision, plan.node)
            owner = self._commit(plan, request)
            if owner < 0:
                raise StaleDecisionError(f"devices of node {decision.node!r} are taken by now")
            self._book(request.name, owner, request.priority)

    def _commit(self, plan: Any, request: DeviceRequest) -> int:
        """The owner's number; -1: it cannot be."""
        query = None if self._quirks is None else self._query(request)
        owner = self._core.commit(plan, query)
        if owner >= 0 and self._policy == _FGD:
            self._mix.see(request)
        return owner

    def _check_again(self, decision: DeviceDecision, number: int) -> None:
        """The kernel looks at amounts alone; labels, places and the like may have changed, too."""
        held = self._held_on(number)
        try:
            check_placement(decision.request, decision.placement, self._inventory(number), held)
        except CertificateError as error:
            raise StaleDecisionError(f"node {decision.node!r} is another by now: {error}") from None

    def _held_on(self, number: int) -> list[DeviceAllocation]:
        """What the owners on a node have."""
        return [
            one
            for owner in self._core.owners(number)
            for one in self._numbers.allocations(self._core.charges_of(owner), None)
        ]

    def _book(self, name: str, owner: int, priority: int) -> None:
        self._owners[name] = owner
        self._owner_names[owner] = name
        if priority:
            self._priorities[name] = priority

    def _fitted(self, decision: DeviceDecision) -> Any:
        number = self._nodes.get(decision.node)
        if number is None:
            raise StaleDecisionError(f"node {decision.node!r} is not here")
        charges = self._numbers.charges(decision.placement)
        return _devices.Plan(number, charges, decision._plan.idle)

    def schedule_many(
        self,
        requests: Iterable[DeviceRequest],
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
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
        with self._lock:
            decisions, owners = [], []
            seen = self._mix.copy()
            try:
                for request in given:
                    decision = self.schedule(request, nodes=allowed, policy=policy)
                    if decision.outcome == "bind":
                        owners.append(self._commit(decision._plan, request))
                    decisions.append(decision)
            finally:
                for owner in reversed(owners):
                    self._core.refund(owner)
                self._mix = self._mix.went_back(seen)
        return tuple(decisions)

    def commit_many(self, decisions: Iterable[DeviceDecision]) -> None:
        """Carry out decisions, all or none; errors as of ``commit``."""
        given = as_tuple(decisions, "decisions")
        with self._lock:
            done = []
            seen = self._mix.copy()
            try:
                for decision in given:
                    self.commit(decision)
                    done.append(decision.request.name)
            except BaseException:
                for name in reversed(done):
                    self.release(name)
                self._mix = self._mix.went_back(seen)
                raise

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
        :param designated: the very devices, amounts and virtual functions that it is to have;
            ``None``: the best. It binds if they are free and keep all rules of the request.
        :raises KeyError: there is no such node.
        :raises ValueError: the owner has devices already, ``numa`` and ``designated`` are both
            given, or the latter is in mode "koordinator".
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        policy_number = self._policy_number(policy)
        with self._lock:
            number = self._number(node)
            if request.name in self._owners:
                raise ValueError(f"request: {request.name!r} has devices already")
            if designated is not None:
                if self._quirks is not None:
                    raise ValueError("designated: mode 'koordinator' cannot be told devices")
                if numa is not None:
                    raise ValueError("numa: not together with designated devices")
                decision = self._designated(request, number, as_tuple(designated, "designated"))
            elif numa is not None:
                allowed = {as_int(one, "numa", 0, 2**31 - 1) for one in as_tuple(numa, "numa")}
                decision = self._on_numa(request, number, policy_number, allowed)
            else:
                decision = self.schedule(request, nodes=(node,), policy=policy)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def _on_numa(
        self, request: DeviceRequest, number: int, policy: int, allowed: set[int]
    ) -> DeviceDecision:
        self._prepare(policy)
        upstream = self._quirks is not None
        masks = visible_masks(self._inventory(number), allowed, placed_only=upstream)
        code, _, plan = self._core.examine(self._query(request), policy, number, masks)
        return self._for_node(request, number, code, plan)

    def _designated(
        self, request: DeviceRequest, number: int, given: tuple[DeviceAllocation, ...]
    ) -> DeviceDecision:
        inventory = self._inventory(number)
        held = self._held_on(number)
        given = inventory.in_bytes(_check_allocations(given, "designated"))
        try:
            check_placement(request, given, inventory, held)
        except CertificateError:
            return self._for_node(request, number, CODES.index("designated"), None)
        plan = _devices.Plan(number, self._numbers.charges(given), False)
        return self._for_node(request, number, 0, plan)

    def _for_node(
        self, request: DeviceRequest, number: int, code: int, plan: Any
    ) -> DeviceDecision:
        if plan is None:
            return made_decision(request, "", ((CODES[code], 1),), None, self, None, ())
        inventory = self._inventories[number]
        return made_decision(request, self._names[number] or "", (), plan, self, inventory, None)

    def release(self, name: str) -> None:
        """Take back all devices of an owner.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            owner = self._owners.pop(name, None)
            if owner is None:
                raise KeyError(f"name={name!r}: has no devices")
            del self._owner_names[owner]
            self._priorities.pop(name, None)
            self._core.refund(owner)

    def recover(
        self,
        name: str,
        node: str,
        allocations: Iterable[DeviceAllocation],
        *,
        priority: int = 0,
    ) -> None:
        """Charge an owner that has devices already, as its records say, after a restart.

        Owners can be recovered in any order, on devices that are unhealthy or gone by now, and
        beyond what there is; recovered again with the same, one stays as it is.

        :raises KeyError: there is no such node.
        :raises ValueError: the owner has other devices, a device is named twice, or the name is
            empty.
        :raises TypeError: an argument is of a wrong type.
        """
        name = as_name(name, "name")
        priority = as_int(priority, "priority", -(2**31), 2**31 - 1)
        given = _check_allocations(as_tuple(allocations, "allocations"), "allocations")
        with self._lock:
            number = self._number(node)
            if self._quirks is None:
                given = self._inventory(number).in_bytes(given)
            charges = sorted(self._numbers.charges(given))
            if name in self._owners:
                owner = self._owners[name]
                same = self._core.node_of(owner) == number
                if not same or sorted(self._core.charges_of(owner)) != charges:
                    raise ValueError(f"name={name!r}: has other devices already")
                return
            self._book(name, self._core.charge(number, charges), priority)

    # --- questions

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def __len__(self) -> int:
        return len(self._owners)

    def node_of(self, name: str) -> str:
        """The node that an owner is on.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._names[self._core.node_of(self._owner(name))] or ""

    def allocations(self, name: str) -> tuple[DeviceAllocation, ...]:
        """What an owner has.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            owner = self._owner(name)
            inventory = self._inventories[self._core.node_of(owner)]
            return self._numbers.allocations(self._core.charges_of(owner), inventory)

    def owners(self, node: str) -> tuple[str, ...]:
        """Names of the owners on a node, sorted.

        :raises KeyError: there is no such node.
        """
        with self._lock:
            return self._owners_on(self._number(node))

    def fragmentation(self, *, node: str | None = None) -> float:
        """How much idle GPU memory is of no use to the pods that come: FGD's measure.

        :param node: of one node; ``None``: of all together.
        :returns: bytes, the mean over the task mix; 0 if there is none.
        :raises KeyError: there is no such node.

        Source: FGD (USENIX ATC'23, section 3). Cost: O(GPUs * classes).
        """
        with self._lock:
            numbers = self._nodes.values() if node is None else [self._number(node)]
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
        :raises ValueError: it has more than 12 NUMA nodes, there is no such policy, or the mode is
            "koordinator".
        :raises TypeError: an argument is of a wrong type.

        Cost: O(2**NUMA nodes) choices, of about a microsecond.
        """
        _check_request(request)
        how = self._policy_number(policy)
        if self._quirks is not None:
            raise ValueError("numa_hints: mode 'koordinator' does not give any")
        with self._lock:
            self._prepare(how)
            number = self._number(node)
            inventory = self._inventory(number)
            return numa_hints(self._core, request, self._query(request), how, number, inventory)

    def explain(self, request: DeviceRequest, *, policy: Policy | None = None) -> DeviceExplanation:
        """Why a request would have to wait, what is missing where it nearly fits, and the cheapest
        owners to release for it; nothing changes.

        :raises ValueError: the owner has devices already, or there is no such policy.
        :raises TypeError: an argument is of a wrong type.
        """
        with self._lock:
            return explain(self, request, POLICIES[self._policy_number(policy)])

    def _owner(self, name: str) -> int:
        owner = self._owners.get(name)
        if owner is None:
            raise KeyError(f"name={name!r}: has no devices")
        return owner

    def _owners_on(self, number: int) -> tuple[str, ...]:
        return tuple(sorted(self._owner_names[owner] for owner in self._core.owners(number)))

    def _placed(self, plan: Any) -> tuple[DeviceAllocation, ...]:
        with self._lock:
            inventory = self._inventories[plan.node]
            return self._numbers.allocations(plan.charges, inventory)

    def _policy_number(self, policy: str | None) -> int:
        if policy is None:
            return self._policy
        allowed = POLICIES if self._quirks is None else _OF_KOORDINATOR
        return _NUMBERS[as_choice(policy, "policy", allowed)]

    def _query(self, request: DeviceRequest) -> Any:
        """The request in numbers; requests remember theirs, with the dict that it stands in."""
        known = getattr(request, "_query", None)
        if known is not None and known[0] is self._queries:
            return known[1]
        query = self._queries.pop(request.content, None)
        if query is None:
            strict = self._quirks is None
            query = self._numbers.query(request) if strict else raw_query(self._numbers, request)
            most = min(_MOST_QUERIES, max(_MOST_KEPT // (len(self._names) + 1), 32))
            if len(self._queries) >= most:
                # A new dict, so that nobody remembers what is forgotten here.
                self._queries = dict(list(self._queries.items())[most // 2 :])
        self._queries[request.content] = query  # the latest last
        request.remember((self._queries, query))
        return query

    # --- the state as a whole

    def copy(self) -> Self:
        """An independent what-if branch."""
        with self._lock:
            other = object.__new__(type(self))
            mix = self._mix.copy()
            other._start(POLICIES[self._policy], mix, self._seed, self._quirks)
            other._core = self._core.copy()
            other._numbers = self._numbers.copy()
            other._shapes = dict(self._shapes)
            other._nodes = dict(self._nodes)
            other._names = list(self._names)
            other._inventories = list(self._inventories)
            other._holes = list(self._holes)
            other._owners = dict(self._owners)
            other._owner_names = dict(self._owner_names)
            other._priorities = dict(self._priorities)
            return other

    def to_bytes(self) -> bytes:
        """The state as versioned, checksummed bytes, for ``from_bytes``."""
        with self._lock:
            owners = {
                name: (self.node_of(name), self.allocations(name), self._priorities.get(name, 0))
                for name in sorted(self._owners)
            }
            quirks = None if self._quirks is None else list(named_quirks(self._quirks))
            mix = self._mix
            settings = POLICIES[self._policy], self._seed, mix.is_given, (mix.counts, mix.weights)
            payload = encode(settings, quirks, self._names, self._inventories, owners)
        return seal(b"HCDC", 1, payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The cluster whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCDC", 1, data)
        with corrupt_if_it_fails():
            settings, quirks, names, inventories, owners = decode(payload)
            policy, seed, is_given, counted = settings
            counts, weights = map(TaskMix, counted)
            mix = LearnedMix(counts) if is_given else LearnedMix.learned(counts, weights)
            cluster = object.__new__(cls)
            cluster._start(
                as_choice(policy, "policy", POLICIES),
                mix,
                as_int(seed, "seed", 0, 2**64 - 1),
                None if quirks is None else as_quirks(quirks),
            )
            holes = []
            for name, inventory in zip(names, inventories, strict=True):
                if name is not None and inventory is not None:
                    cluster.add_node(name, inventory)
                    continue
                number = len(cluster._names)
                cluster._names.append(None)
                cluster._inventories.append(None)
                cluster._core.set_node(number, -1, (0,) * len(TYPES))
                holes.append(number)
            cluster._holes = holes  # ascending, so a heap; while there are any, new nodes fill them
            for name, (node, allocations, priority) in owners.items():
                cluster.recover(name, node, allocations, priority=priority)
        return cluster

    def check(self) -> None:
        """Audit every invariant.

        :raises InvariantError: one is broken. Cost: O(size).
        """
        with self._lock:
            self._core.check()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._core.__sizeof__()


def _draw_number(name: str) -> int:
    """64 bits of the owner's name."""
    bits = name.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(bits, digest_size=8).digest(), "little")


def _check_request(request: object) -> None:
    if not isinstance(request, DeviceRequest):
        raise TypeError(f"request must be a DeviceRequest, not {type(request).__name__}")


def _check_allocations(
    given: tuple[DeviceAllocation, ...], name: str
) -> tuple[DeviceAllocation, ...]:
    for one in given:
        if not isinstance(one, DeviceAllocation):
            raise TypeError(f"{name} must hold DeviceAllocation, not {type(one).__name__}")
    if len({(one.type, one.minor) for one in given}) != len(given):
        raise ValueError(f"{name}: a device is named twice")
    return given


def _check_inventory(inventory: object) -> None:
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be a NodeDevices, not {type(inventory).__name__}")
