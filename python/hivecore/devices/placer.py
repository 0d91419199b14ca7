"""What a request would get, and getting it."""

from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from typing import Any

from hivecore import _devices
from hivecore._arguments import (
    as_bool,
    as_choice,
    as_instance,
    as_int,
    as_text,
    as_tuple,
)
from hivecore._trial import Transaction
from hivecore.devices._in_turn import in_turn
from hivecore.devices._owners import Charges, Held
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_decision import DeviceDecision
from hivecore.devices.device_ledger import POLICIES, DeviceLedger, Policy
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.feasibility import CODES, Feasibility, count_codes
from hivecore.devices.numa_hints import visible_masks
from hivecore.devices.preemption import cheapest_leavers
from hivecore.devices.recovery import are_of_templates, check_allocations, hold
from hivecore.devices.reservation import (
    Reserved,
    Wish,
    add_reserved,
    best_through,
    is_within,
    plan_after,
)
from hivecore.errors import CertificateError, StaleDecisionError

__all__ = ["DevicePlacer"]

_NUMBERS: dict[str, int] = {policy: number for number, policy in enumerate(POLICIES)}
_RANDOM, _FGD = _NUMBERS["random"], _NUMBERS["fgd"]
_NO_WISH = Wish((), "first")
_NO_OWNERS: frozenset[str] = frozenset()


class DevicePlacer(DeviceLedger):
    """The part of a `DeviceCluster` that makes decisions and carries them out."""

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
        """Which nodes can serve a request now, with scores, and why the others cannot.

        :param nodes: names of the nodes to look at; ``None``: all.
        :param policy: by which nodes are scored; ``None``: the cluster's.
        :param reservations: names of reservations that the request may use. A restricted one is
            scored by the devices that it has left.
        :param reserved: when they are used, see ``schedule``.
        :raises KeyError: there is no such node or reservation.
        :raises ValueError: ``policy`` or ``reserved`` has an unknown value.
        """
        as_instance(request, "request", DeviceRequest)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        wish = Wish.of(reservations, reserved)
        with self._lock:
            number = self._policy_number(policy)
            wish.check(self._owners)
            if names is None:
                names = self._nodes.in_order
                looked = self._nodes.all_numbers
            else:
                looked = [self._nodes.number(name) for name in names]
            query = self._nodes.query(request)
            codes, _, resolvable, scores = self._core.filter(query, number, looked)
            if wish.names or wish.when == "only":
                looked_at = range(len(names)) if looked is None else looked
                add_reserved(
                    self._owners, query, number, looked_at, wish, codes, resolvable, scores
                )
        return Feasibility(names, codes, resolvable, scores)

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
        :param gpus: with one node: the only GPUs to use, by minor, chosen by the caller; what else
            is needed is chosen near them. ``None``: all.
        :param policy: how; ``None``: as the cluster says.
        :param preemptible: owners that may have to leave for it, if it does not fit otherwise.
            Those of low priority leave first, then those that hold least, and only as many as have
            to. Users of reservations stay: what they have goes back there.
        :param reservations: those that it may use. The reservation with most needs in their
            preferred scopes is used, then that with the best score, see ``filter``, then that
            which was named first.
        :param reserved: "first": one of them if any serves it, else what is free elsewhere; "only":
            one of them; "last": only if nothing else serves it.
        :raises KeyError: there is no such node, GPU, owner or reservation.
        :raises ValueError: the owner has devices already, there is no such policy or use of
            reservations, owners may have to leave where only reservations will do, or ``gpus`` do
            not go with one node alone.
        """
        if type(request) is not DeviceRequest:
            as_instance(request, "request", DeviceRequest)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        # Identity is enough to spare the usual case the checks.
        may_leave = _NO_OWNERS if preemptible is _NO_WISH.names else _as_owners(preemptible)
        wish = _NO_WISH
        if reservations is not _NO_WISH.names or reserved is not _NO_WISH.when:
            wish = Wish.of(reservations, reserved)
            if may_leave and wish.when == "only":
                raise ValueError("preemptible: not together with reserved='only'")
        chosen = None
        if gpus is not None:
            chosen = as_tuple(gpus, "gpus")
            if names is None or len(names) != 1 or may_leave or wish is not _NO_WISH:
                raise ValueError("gpus: only with one node, and with nothing else")
        with self._lock:
            number = self._policy_number(policy)
            if wish.names:
                wish.check(self._owners)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            query = self._nodes.query(request)
            only = None if names is None else [self._nodes.number(name) for name in names]
            if chosen is not None and only is not None:
                masks = self._nodes.choice(only[0], chosen)
                return self._on_devices(request, query, number, only[0], masks)
            if wish is _NO_WISH:
                decision = self._anywhere(request, query, number, only)
            else:
                decision = self._as_wished(request, query, number, only, wish)
            if decision is None and may_leave:
                decision = self._preempting(request, query, number, only, may_leave)
            if decision is None:
                decision = self._refused(request, query, number, only)
            return decision

    def _anywhere(
        self, request: DeviceRequest, query: Any, policy: int, numbers: list[int] | None
    ) -> DeviceDecision | None:
        """What is free on the best of these nodes; ``None``: none serves the request."""
        plan = self._core.schedule(query, policy, numbers, *self._draw(request, policy))
        return None if plan is None else self._bound(request, plan)

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
            if decision is not None:
                return decision
        draw = self._draw(request, policy)
        best = best_through(self._owners, query, policy, numbers, wish.names, draw)
        if best is not None:
            return self._bound(request, best.plan, best.name, best.of_all)
        if wish.when == "only":
            count = len(self._nodes.by_name if numbers is None else numbers)
            return self._waiting(request, (("reservation", count),) if count else ())
        return self._anywhere(request, query, policy, numbers) if wish.when == "first" else None

    def _on_devices(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        number: int,
        masks: Any,
        designated: Charges | None = None,
    ) -> DeviceDecision:
        """The decision for these devices of one node; ``None``: all of them."""
        look = partial(self._core.examine, query, policy, number, masks)
        if designated is not None:
            look = partial(look, designated=designated)
        code, _, plan = look()
        if designated is not None:
            code = CODES.index("designated")
            if plan is not None and not are_of_templates(plan.charges, designated):
                plan = None
        if plan is not None:
            return self._bound(request, plan, "", False)
        return self._waiting(request, ((CODES[code], 1),), look(idle=True)[0] != 0)

    def _bound(
        self, request: DeviceRequest, plan: Any, reservation: str = "", of_all: bool = True
    ) -> DeviceDecision:
        name = self._nodes.names[plan.node] or ""
        inventory, mark = self._nodes.inventories[plan.node], self._nodes.marks[plan.node]
        return DeviceDecision(
            request, name, (), plan, self, inventory, None, (), reservation, of_all, mark
        )

    def _draw(self, request: DeviceRequest, policy: int) -> tuple[int, int]:
        return (self._seed, _draw_number(request.name)) if policy == _RANDOM else (0, 0)

    def _preempting(
        self,
        request: DeviceRequest,
        query: Any,
        policy: int,
        only: list[int] | None,
        may_leave: frozenset[str],
    ) -> DeviceDecision | None:
        numbers = [self._owners.number(name, "preemptible") for name in may_leave]
        nodes = set(map(self._core.node_of, numbers))
        candidates = sorted(nodes if only is None else nodes & set(only))
        leavers = cheapest_leavers(self._owners, query, policy, candidates, may_leave)
        if leavers is None:
            return None
        gone = [self._owners.number(name) for name in leavers.names]
        plan = self._core.examine(query, policy, leavers.node, None, gone)[2]
        name = self._nodes.names[leavers.node] or ""
        inventory = self._nodes.inventories[leavers.node]
        return DeviceDecision(request, name, (), plan, self, inventory, None, leavers.names)

    def _refused(
        self, request: DeviceRequest, query: Any, policy: int, only: list[int] | None
    ) -> DeviceDecision:
        if only is None:
            only = self._nodes.all_numbers
        counts = count_codes(self._core.filter(query, policy, only)[0])
        impossible = bool(counts) and not self._core.is_possible(query, only)
        return self._waiting(request, counts, impossible)

    def _waiting(
        self, request: DeviceRequest, counts: tuple[tuple[str, int], ...], impossible: bool = False
    ) -> DeviceDecision:
        return DeviceDecision(request, "", counts, None, self, None, (), impossible=impossible)

    def commit(self, decision: DeviceDecision) -> None:
        """Carry out a decision to bind: from now on its owner has these devices.

        :raises StaleDecisionError: they are not free any more, or not there, or the node was
            removed since, even if another one has its name now, or another inventory
            of the node has made them other than asked, or their reservation is gone or has not
            enough left, or the owner has devices by now; nothing has changed.
        :raises ValueError: it is not a decision to bind, or one of another cluster.

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
        try:
            decision.verify(self._nodes.inventory(number), self._nodes.held(number))
        except CertificateError as error:
            raise StaleDecisionError(f"node {decision.node!r} is another by now: {error}") from None

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
            as_instance(request, "request", DeviceRequest)
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
        :raises ValueError: the owner has devices already, or a designated device is named twice.
        """
        as_instance(request, "request", DeviceRequest)
        with self._lock:
            how = self._policy_number(policy)
            number = self._nodes.number(node)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            if designated is None and numa is None:
                decision = self.schedule(request, nodes=(node,), policy=policy)
            else:
                inventory, masks, charges = self._nodes.inventory(number), None, None
                if numa is not None:
                    given = as_tuple(numa, "numa")
                    nodes = {as_int(item, "numa", 0, 2**31 - 1) for item in given}
                    masks = visible_masks(inventory, nodes)
                if designated is not None:
                    named = as_tuple(designated, "designated")
                    named = inventory.in_bytes(check_allocations(named, "designated"))
                    charges = self._nodes.numbers.charges(named)
                query = self._nodes.query(request)
                decision = self._on_devices(request, query, how, number, masks, charges)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def allocate_many(
        self,
        request: DeviceRequest,
        owners: Iterable[str],
        places: Iterable[tuple[str, Iterable[int]]] | None = None,
        *,
        nodes: Iterable[str] | None = None,
    ) -> tuple[DeviceDecision, ...]:
        """Decide for pods that are alike in turn, and carry it out at once, for all or for none.

        :param request: what each of them asks for; its name and that of no owner matters.
        :param owners: the name of each.
        :param places: the node of each, and the only GPUs to use there, by minor; ``None``: each
            gets the best node.
        :param nodes: names of the only nodes to use; ``None``: all. Not together with ``places``.
        :returns: the decisions, as of ``schedule(request, nodes=(node,), gpus=gpus)`` or
            ``schedule(request, nodes=nodes)``; or one, to wait: that of the first pod that gets
            nothing. Then nothing has changed.
        :raises KeyError: there is no such node, or no such GPU.
        :raises ValueError: an owner has devices already, is named twice or has no name, there
            are not as many places as owners, or there are places and nodes.
        """
        as_instance(request, "request", DeviceRequest)
        given = as_tuple(owners, "owners")
        names = None if nodes is None else as_tuple(nodes, "nodes")
        all_places = None if places is None else as_tuple(places, "places")
        if names is not None and all_places is not None:
            raise ValueError("nodes: not together with places")
        with self._lock:
            how, query = self._policy_number(None), self._nodes.query(request)
            if all_places is None:
                only = None if names is None else [self._nodes.number(name) for name in names]
                if how in (_RANDOM, _FGD):
                    return in_turn(self, request, given, names)
                best = self._core.take_best(query, how, request, given, only, self, DeviceDecision)
                if isinstance(best, list):
                    return tuple(best)
                try:
                    waiting = request.replace(name=given[len(best)])
                    return (self._refused(waiting, query, how, only),)
                finally:
                    for owner in reversed(best):
                        self._core.refund(owner)
            taken = self._core.take(query, how, request, given, all_places, self, DeviceDecision)
            if isinstance(taken, tuple):
                name, number, choice, code = taken
                look = self._core.examine(query, how, number, choice, idle=True)
                waiting = request.replace(name=name)
                return (self._waiting(waiting, ((CODES[code], 1),), look[0] != 0),)
            if how == _FGD:
                for _ in taken:
                    self._mix.see(request)
            return tuple(taken)

    def reserve(self, decision: DeviceDecision, *, restricted: bool = False) -> None:
        """Carry out a decision to bind for a reservation: its devices are held for those whose
        requests are scheduled with its name among the ``reservations``.

        :param restricted: its users get its devices alone, and no more of them than it has left, as
            far as it has any of the type. Otherwise they get its devices first, and others of the
            node if these do not do.
        :raises StaleDecisionError: as of ``commit``.
        :raises ValueError: as of ``commit``, or it is through another reservation.

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
        :raises ValueError: the request's owner has devices already, the other one is a reservation
            or uses one, or there is no such policy.
        """
        as_instance(request, "request", DeviceRequest)
        restricted = as_bool(restricted, "restricted")
        with self._lock:
            number = self._policy_number(policy)
            if request.name in self._owners.numbers:
                raise ValueError(f"request: {request.name!r} has devices already")
            query, draw = self._nodes.query(request), self._draw(request, number)
            code, plan = plan_after(self._owners, request, query, number, owner, draw)
            if plan is None:
                return self._waiting(request, ((CODES[code], 1),))
            decision = self._bound(request, plan)
            held = Held(plan.charges, restricted, (owner,))
            hold(self._owners, request.name, plan.node, held, request.priority)
            return decision

    def _placed(self, plan: Any, inventory: Any) -> tuple[DeviceAllocation, ...]:
        with self._lock:
            return self._nodes.numbers.allocations(plan.charges, inventory)

    def _policy_number(self, policy: str | None) -> int:
        """A policy in numbers; what it goes by is brought up to date."""
        number = self._policy if policy is None else _NUMBERS[as_choice(policy, "policy", POLICIES)]
        if number == _FGD:
            self._mix.tell(self._core, self._nodes.numbers.model)
        return number


def _draw_number(name: str) -> int:
    """64 bits of the owner's name."""
    bits = name.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(bits, digest_size=8).digest(), "little")


def _as_owners(names: Iterable[str]) -> frozenset[str]:
    return frozenset([as_text(name, "preemptible") for name in as_tuple(names, "preemptible")])
