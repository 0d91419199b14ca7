"""Where gangs go in a network of domains."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_instance, as_int, as_tuple
from hivecore._thousandths import Amount, Amounts
from hivecore._topology import TopologyKernel
from hivecore._trial import Transaction
from hivecore.decisions import Explanation
from hivecore.errors import StaleDecisionError
from hivecore.topology._free import Ints, Owner, as_array, as_integers
from hivecore.topology._roles import most_of, pairs_by_node
from hivecore.topology.explanation import explain
from hivecore.topology.network_ledger import NetworkLedger
from hivecore.topology.node_pods import NodePods
from hivecore.topology.refusals import refused
from hivecore.topology.releases import Gains, Leavers
from hivecore.topology.topology_decision import (
    TopologyDecision,
    made_decision,
    placement_to_commit,
)
from hivecore.topology.topology_request import MOST, Pairs, TopologyRequest

__all__ = ["NetworkTopology"]

#: As `NetworkTopology._place` returns it.
_Placed = tuple[int, list[tuple[int, int, int]], bool, list[int]]


class NetworkTopology(NetworkLedger):
    """Nodes in domains, such as racks, inside wider ones; gangs are placed as close together as
    possible.

    :param layers: the layers of the network from wide to narrow, such as "spine", "block", "rack".
    :param nodes: by name, the labels of a node: the name of its domain in each layer. Equal names
        inside different domains are different domains. Nodes without a label of a layer that share
        the next narrower domain have a domain of their own there. May be empty.
    :raises ValueError: a layer occurs twice or is unknown.
    :raises KeyError: a method is given an unknown name.
    :raises TypeError: an argument is of a wrong type, here and in all methods.

    Placements are optimal. They are compared in this order: one domain of the narrowest layer holds
    all pods; the fewest domains of each layer below it, from wide to narrow; the most existing pods
    in it, then in these, then in the wider domains around; the least cost; the fewest free slots in
    all of these, in the same order; the most pods on the first nodes, in the order of ``nodes``. So
    among equal nodes the one in the fullest rack is used, and idle racks stay idle.

    ``set_slots`` or ``set_free`` set what is free on nodes, in multiples of 0.001, counted exactly;
    a resource with fractions has up to 2**62 thousandths. ``commit`` subtracts what a gang takes,
    ``release`` gives it back. Changes inside ``with network.trial()`` are undone at its end. One
    object may be used by several threads: calls take turns.

    Cost: a change is O(layers x log nodes) for each kind of pod that was requested lately. A
    placement searches only domains that can be the best, and for recent kinds of gangs only what
    has changed. Source: Koordinator's network-topology-aware scheduling, which is greedy.

    >>> from hivecore.topology import NetworkTopology, TopologyRequest
    >>> labels = {f"n{i}": {"spine": f"s{i // 4}", "rack": f"r{i // 2}"} for i in range(8)}
    >>> network = NetworkTopology(["spine", "rack"], labels)
    >>> network.set_slots([2, 1, 2, 2, 2, 2, 0, 2])
    >>> decision = network.schedule(TopologyRequest("train", 6))
    >>> decision.layer, decision.domain, [(part.node, part.pods) for part in decision.placement]
    ('spine', ('s1',), [('n4', 2), ('n5', 2), ('n7', 2)])
    >>> network.commit(decision)
    """

    def fits(self, request: TopologyRequest) -> bool:
        """Whether ``schedule`` would bind; errors are the same."""
        return self.schedule(request).outcome == "bind"

    def schedule(
        self,
        request: TopologyRequest,
        *,
        nodes: Iterable[str] | None = None,
        most: npt.ArrayLike | None = None,
        work: int = 2**28,
    ) -> TopologyDecision:
        """Decide where a gang would go; nothing changes.

        :param nodes: the only nodes to use, which costs O(nodes of the network); ``None``: all.
        :param most: how many pods of the gang each node may get, as
            `hivecore.devices.DeviceCluster.capacity` counts them: int[nodes], in the order of the
            network. For a gang with a role: of both kinds together, or int[k, nodes]: row i is for
            nodes with at most i pods of the role, where -1 allows none. Costs O(nodes). ``None``:
            no limit.
        :param work: a limit of the search in each layer, about domains times pods. Beyond it the
            decision may not be optimal, and says so.
        :raises KeyError: a layer or a node is unknown.
        :raises ValueError: an owner has this name, ``prefer`` is wider than ``must``, or ``most``
            has a wrong shape.

        With ``most``, a node counts as having that many slots if it has more and they limit the
        gang.
        """
        if not isinstance(request, TopologyRequest):
            raise TypeError(f"request must be a TopologyRequest, not {type(request).__name__}")
        work = as_int(work, "work", 0, 2**62)
        named = None if nodes is None else as_tuple(nodes, "nodes")
        given = None if most is None else as_array(most, "most")
        with self._lock:
            levels = self._domains.levels
            widest = self._domains.level(request.must, "request.must")
            narrowest = self._domains.level(request.prefer or "node", "request.prefer")
            if narrowest < widest:
                raise ValueError(
                    f"request.prefer={request.prefer!r}: is wider than must={request.must!r}"
                )
            limits = kernels = None
            if named is not None or given is not None:
                limits = self._limits(named, given, request.role is not None)
            if request.name in self._owners:
                raise ValueError(f"request: there is an owner {request.name!r}")
            if limits is not None or request.role is not None:
                kernels = self._kernels_for(request, limits)
            level, pods, optimal, fewest = self._place(
                request, widest, narrowest, kernels, limits, work
            )
            if level < 0:
                names = self._domains.names[widest]
                kernels = self._kernels_for(request, None) if kernels is None else kernels
                slots = [list(zip(names, of.slots(widest).tolist(), strict=True)) for of in kernels]
                refusal = refused(request, slots, optimal, self.resources)
                return TopologyDecision(
                    request, "wait", refusal=refusal, optimal=optimal, nodes=named
                )
            placed = self._placed(pods)
            decision = TopologyDecision(
                request,
                "bind",
                placed,
                levels[level],
                self._domains.around(placed[0].node)[:level],
                optimal=optimal,
                fewest=tuple(zip(levels[level + 1 :], fewest, strict=False)),
                nodes=named,
            )
            return made_decision(decision, self._domains.marks)

    def lacking(
        self, request: TopologyRequest, nodes: Iterable[str] | None = None
    ) -> tuple[tuple[str, Amount, Amount], ...]:
        """The resources of which no node has enough for a single pod, each with what a pod takes
        and the most that a node has left; those of the role's pods last. Cost: O(resources nodes).

        :param nodes: the allowed nodes; ``None``: all.

        >>> from hivecore.topology import NetworkTopology, TopologyRequest
        >>> network = NetworkTopology([], {"a": {}})
        >>> network.set_free("a", {"gpu": 8, "cpu": 64})
        >>> network.lacking(TopologyRequest("train", pods=1, amounts={"gpu": 1, "cpu": 65}))
        (('cpu', 65, 64),)
        """
        as_instance(request, "request", TopologyRequest)
        role = () if request.role is None else request.role.amounts
        with self._lock:
            numbers = None if nodes is None else self._numbers(as_tuple(nodes, "nodes"))
            short: list[tuple[str, Amount, Amount]] = []
            for resource, wanted in (*request.amounts, *role):
                free = self._free.of(resource)
                free = free if numbers is None else free[numbers]
                most = self._free.amount(resource, int(free.max(initial=0)))
                if most < wanted:
                    short.append((resource, wanted, most))
        return tuple(dict.fromkeys(short))

    def _limits(self, nodes: tuple[str, ...] | None, most: Any, has_role: bool) -> Ints:
        """``most``, with -1 for nodes that are not allowed; ``None``: no limits."""
        if most is not None:
            shape = (*most.shape[: -1 if has_role else 0], len(self.nodes))[:2]
            limits = np.clip(as_integers(most, shape, "most"), -1, MOST).astype(np.int64)
            if limits.ndim == 2:  # what goes beside more goes beside fewer
                limits = np.maximum.accumulate(limits[::-1])[::-1]
        if nodes is not None:
            allowed = np.zeros(len(self.nodes), dtype=bool)
            allowed[self._numbers(nodes)] = True
            limits = np.where(allowed, 2 * MOST if most is None else limits, -1)
        checked: Ints = limits
        return checked

    def _kernels_for(self, request: TopologyRequest, limits: Ints | None) -> list[TopologyKernel]:
        """The kernels of its pods and of its role, in which nodes have no more slots than
        ``limits``.
        """
        kernels: list[TopologyKernel] = []
        if not self._domains.nodes:
            return kernels
        wanted = [(request.pods, request.amounts)]
        if request.role is not None:
            wanted.append((request.role.pods, request.role.amounts))
        for row, (pods, amounts) in enumerate(wanted):
            kernel = self._kernel(amounts)
            if limits is not None:
                most = most_of(limits)[row]
                slots = kernel.slots(len(self.layers) + 1)
                fewer = np.flatnonzero(most < np.minimum(slots, pods))
                if fewer.size:
                    kernel = kernel.copy()
                    kernel.set_slots(fewer, most[fewer])
            kernels.append(kernel)
        return kernels

    def _place(
        self,
        request: TopologyRequest,
        widest: int,
        narrowest: int,
        kernels: list[TopologyKernel] | None,
        limits: Ints | None,
        work: int,
    ) -> _Placed:
        """The level of the domain that holds all pods (-1: none), (node, pods, others) triples,
        whether that is proved to be the best, and the fewest domains of each level below, as far as
        known.
        """
        role = request.role
        if not self._domains.nodes:
            return -1, [], True, []
        multiples = self._multiples(request.multiple)
        existing = self._by_node(request.existing, "existing")
        cost = self._by_node(request.cost, "cost")
        kernel = kernels[0] if kernels else self._kernel(request.amounts)
        if role is not None:
            assert kernels is not None
            others = kernels[1]
            level, _, pods, optimal, fewest = kernel.place_roles(
                request.pods,
                widest,
                narrowest,
                existing,
                cost,
                work,
                others.copy() if others is kernel else others,
                role.pods,
                *pairs_by_node(self._free, request, role, limits),
            )
        else:

            def placed(limits: list[int]) -> _Placed:
                level, _, pods, optimal, fewest = kernel.place(
                    request.pods, widest, narrowest, multiples, existing, cost, work, limits
                )
                return level, pods, optimal, fewest

            return self._balanced(request, placed)
        return level, pods, optimal, fewest

    def _balanced(
        self,
        request: TopologyRequest,
        placed: Callable[[list[int]], _Placed],
    ) -> _Placed:
        """The placement within the limits; with ``balance`` under the least limit that uses no more
        domains. A binary search finds it, as a placement within a limit is within each larger one.
        """
        most = self._most_by_level(request.per_domain)
        if not request.balance:
            return placed(most)
        at = self._domains.level(request.balance, "request.balance")
        best = placed(most)
        if best[0] < 0:
            return best
        loads, used = self._loads(best, at)
        low, high = -(-request.pods // len(loads)), max(loads)
        is_sure = best[2]
        while low < high:
            middle = (low + high) // 2
            limits = most or [MOST] * len(self._domains.levels)
            narrower = [min(of, middle) if i >= at else of for i, of in enumerate(limits)]
            tried = placed(narrower)
            is_sure &= tried[2]
            if tried[0] >= 0 and self._loads(tried, at)[1] == used:
                best, high = tried, max(self._loads(tried, at)[0])
            else:
                low = middle + 1
        return best[0], best[1], is_sure, best[3]

    def _loads(self, placed: _Placed, at: int) -> tuple[list[int], tuple[int, ...]]:
        """The pods in each domain of a level; and how the placement compares: the level of the
        domain that holds all, and the domains used of each level from there to this one.
        """
        level, pods, _, _ = placed
        deepest = len(self.layers) + 1
        paths = [tuple(self._domains.path(deepest, node)[: at + 1]) for node, _, _ in pods]
        loads = Counter[Any]()
        for path, (_, count, _) in zip(paths, pods, strict=True):
            loads[path] += count
        used = [len({path[: inner + 1] for path in paths}) for inner in range(level, at + 1)]
        return [*loads.values()], (level, *used)

    def _most_by_level(self, per_domain: Pairs) -> list[int]:
        """The most pods of a domain of each level; empty: no limit."""
        if not per_domain:
            return []
        most = [MOST] * len(self._domains.levels)
        for layer, count in per_domain:
            level = self._domains.level(layer, "request.per_domain")
            most[level:] = [min(of, count) for of in most[level:]]
        return most

    def commit(self, decision: TopologyDecision) -> None:
        """Place the gang of a decision: subtract what it takes from its nodes.

        :raises StaleDecisionError: a node has no room any more, or was removed after the decision
            was made, even if another node has its name now; or an owner has the gang's name.
        :raises ValueError: its outcome is not "bind", a node occurs twice or has no pod, a number
            is out of range, or the numbers of pods differ from the request's.
        :raises KeyError: a node is unknown.
        :raises TypeError: ``decision``, or something in it, is of a wrong type.

        A decision that was copied, pickled or made by the caller means the nodes that have its
        names now.
        """
        self._commit(decision, on_healthy=True)

    def recover(self, decision: TopologyDecision) -> None:
        """Commit a gang that runs already, also on unhealthy nodes.

        >>> from hivecore.topology import (
        ...     NetworkTopology, NodePods, TopologyDecision, TopologyRequest
        ... )
        >>> network = NetworkTopology([], {"n0": {}})
        >>> network.set_slots([2])
        >>> network.set_health("n0", False)
        >>> gang = TopologyRequest("train", 1)
        >>> network.recover(TopologyDecision(gang, "bind", (NodePods("n0", 1),)))
        >>> network.owners
        ('train',)
        """
        self._commit(decision, on_healthy=False)

    def _commit(self, decision: TopologyDecision, *, on_healthy: bool) -> None:
        placed = placement_to_commit(decision)
        request = decision.request
        more = request.role.amounts if request.role else ()
        with self._lock:
            marks = getattr(decision, "_marks", {})  # a copy has none
            pods = self._where(placed, marks)
            if request.name in self._owners:
                raise StaleDecisionError(f"decision: there is an owner {request.name!r}")
            self._refine(request.amounts)
            self._refine(more)
            owner = Owner(request.amounts, more, pods)
            if not self._free.has_room(owner, on_healthy=on_healthy):
                raise StaleDecisionError("decision: a node has no room for it any more")
            self._owners[request.name] = owner
            if self._undo.is_on:
                self._undo.add((self._owners.pop, request.name))
            self._take(owner, 1)

    def _where(
        self, placed: Iterable[NodePods], marks: Mapping[str, object]
    ) -> tuple[tuple[int, int, int], ...]:
        """The numbers of the nodes of a placement, with the pods on them."""
        for node, mark in marks.items():
            if self._domains.marks.get(node) is not mark:
                raise StaleDecisionError(f"decision: node {node!r} was removed after it was made")
        return tuple((self._domains.number(part.node), part.pods, part.others) for part in placed)

    def schedule_many(
        self, requests: Iterable[TopologyRequest], *, work: int = 2**28
    ) -> tuple[TopologyDecision, ...]:
        """Decide on gangs in order, each as if those before it that bind were committed.

        Nothing changes; errors are those of ``schedule``.
        """
        given = as_tuple(requests, "requests")
        with self._lock:
            decisions: list[TopologyDecision] = []
            with self.trial():
                for request in given:
                    decisions.append(self.schedule(request, work=work))
                    if decisions[-1].outcome == "bind":
                        self.commit(decisions[-1])
            return tuple(decisions)

    def commit_many(self, decisions: Iterable[TopologyDecision]) -> None:
        """Commit decisions in order, all of them or none; errors are those of ``commit``."""
        given = as_tuple(decisions, "decisions")
        with self._lock, Transaction(self):
            for decision in given:
                self.commit(decision)

    def explain(self, request: TopologyRequest) -> Explanation:
        """Why a gang cannot be placed, and what would admit it; nothing changes.

        Changes are tried on copies: owners whose end is enough ("release", cost: their pods), and
        demands to give up ("relax"). The owners are the cheapest if each domain of ``must`` has few
        owners, or if each pod takes one unit of a single resource and the gang has no ``role``,
        ``multiple`` or ``per_domain``; else cheaper ones may exist. Errors are those of
        ``schedule``.
        """
        with self._lock:
            decision = self.schedule(request)
            if decision.outcome == "bind":
                return Explanation("bind", "", (), ())
            level = self._domains.level(request.must, "request.must")
            slots = self._counts(level, request.amounts)
            gains = self._gains(level, request.amounts)
            pods = {
                name: sum(count + others for _, count, others in owner.pods)
                for name, owner in sorted(self._owners.items())
            }

            def fits_without(relaxed: TopologyRequest, leaving: Iterable[str]) -> bool:
                branch = self.copy()
                for name in leaving:
                    branch.release(name)
                return branch.fits(relaxed)

            adds_up = [n for _, n in request.amounts] == [1] and not self._free.fine
            leavers = Leavers(request, pods, slots, gains, adds_up, fits_without)
            return explain(decision, leavers)

    def _gains(self, level: int, amounts: Amounts) -> Gains:
        """By domain and owner: for how many more pods there is room if the owner ends."""
        gains: Gains = {}
        for name, owner in sorted(self._owners.items()):
            for node, gain in self._free.gains(owner, amounts):
                of = gains.setdefault(self._domains.path(len(self.layers) + 1, node)[level], {})
                of[name] = of.get(name, 0) + gain
        return dict(sorted(gains.items()))

    def _multiples(self, multiple: Pairs) -> list[int]:
        if not multiple:
            return []
        multiples = [1] * len(self._domains.levels)
        for layer, count in multiple:
            multiples[self._domains.level(layer, "request.multiple")] = count
        return multiples

    def _by_node(self, amounts: Pairs, argument: str) -> Ints | None:
        if not amounts:
            return None
        by_node = np.zeros(len(self.nodes), dtype=np.int64)
        for name, amount in amounts:
            if name not in self._domains.numbers:
                raise KeyError(f"request.{argument}: there is no node {name!r}")
            by_node[self._domains.numbers[name]] = amount
        return by_node
