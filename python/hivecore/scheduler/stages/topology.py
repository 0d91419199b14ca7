"""Topology: a unit's pods near to each other in a network of domains."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import Self

from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.lifecycle.units import Key, Kind, Places, Unit
from hivecore.scheduler.stages.stage import Stage
from hivecore.topology import (
    NetworkTopology,
    NodePods,
    TopologyDecision,
    TopologyRequest,
    TopologyRole,
)

__all__ = ["TopologyStage"]

_ANY = ("topology", "any")
_MOST = 4096  # requests that are remembered


class TopologyStage(Stage):
    """A `NetworkTopology`: a pod takes of its node what the network was told of, or a slot."""

    name = "topology"
    honours = frozenset(("must", "prefer", "multiple", "nodes", "resources"))
    part: NetworkTopology

    def __init__(self, network: NetworkTopology) -> None:
        self.part = network
        self.forget()

    def forget(self) -> None:
        """The network is made of something else now."""
        #: the resources that it counts
        self.known = frozenset(self.part.resources)
        self.nodes = frozenset(self.part.nodes)
        #: of what a network without nodes will count nothing is known: all is counted
        self._is_blank = not self.nodes and not self.known
        #: what units of a kind ask for; shared with branches
        self._requests: dict[Kind, TopologyRequest | None] = {}

    def branch(self) -> Self:
        """An adapter of a copy."""
        made = object.__new__(type(self))
        made.part = self.part.copy()
        made.known, made.nodes, made._requests = self.known, self.nodes, self._requests
        made._is_blank = self._is_blank
        return made

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The domain of the layer that has to hold a job."""
        if not job.where.must:
            return None
        domains = map(frozenset, self.part.domains(job.where.must))
        return next((domain for domain in domains if not domain.isdisjoint(nodes)), None)

    def emptied(self) -> Self:
        """An adapter of the same network, empty and healthy."""
        made = self.branch()
        for name in made.part.owners:
            made.part.release(name)
        for node in made.part.unhealthy:
            made.part.set_health(node, True)
        return made

    def impossible(
        self, kind: Kind, empty: "TopologyStage", nodes: tuple[str, ...], growing: bool
    ) -> str:
        """Why units of this kind would wait on an empty, healthy network, too; "": they would not.

        :param empty: that network.
        :param nodes: the only ones to use; none: all.
        :param growing: whether there may be others.
        """
        try:
            request = self.request(kind, "anybody")
            decision = request and empty.part.schedule(request, nodes=nodes or None)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return decision.reason if decision and not growing else ""

    def request(self, kind: Kind, name: str) -> TopologyRequest | None:
        """What a unit of this name asks for; None: there is nothing to place.

        :raises ValueError: its pods are of more than two kinds.
        """
        key = kind.like or kind
        try:
            found = self._requests[key]
        except KeyError:
            if len(self._requests) >= _MOST:
                self._requests.clear()
            found = self._requests[key] = self._model(kind)
        return found and found.replace(name=name)

    def _model(self, kind: Kind) -> TopologyRequest | None:
        """The same for any unit of the kind."""
        where = kind.job.where
        by_amounts: dict[tuple[tuple[str, int], ...], int] = {}
        for role, pods in kind.sizes:
            if amounts := self.amounts(role):
                by_amounts[amounts] = by_amounts.get(amounts, 0) + pods
        if not by_amounts:
            return None
        (amounts, pods), *others = by_amounts.items()
        if len(others) > 1:
            raise ValueError("roles: a network places pods of two kinds at most")
        more = TopologyRole("other", others[0][1], dict(others[0][0])) if others else None
        return TopologyRequest(
            "any unit",
            pods,
            must=where.must,
            prefer=where.prefer,
            multiple=where.multiple,
            amounts=amounts,
            role=more,
        )

    def amounts(self, role: Role) -> tuple[tuple[str, int], ...]:
        """What a pod of a role takes of its node."""
        if "slots" in self.known:
            return (("slots", 1),)
        taken = {"gpu": role.gpus, **dict(role.resources)}
        if self._is_blank:
            return tuple(sorted((name, n) for name, n in taken.items() if n)) or (("slots", 1),)
        return tuple(sorted((name, n) for name, n in taken.items() if n and name in self.known))

    def chooses_node(self, role: Role) -> bool:
        """Whether the network counts what pods of a role take."""
        return bool(self.amounts(role))

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the network limits a resource: with slots, it limits nothing else."""
        return self._is_blank or (resource in self.known and "slots" not in self.known)

    def schedule(self, unit: Unit, allowed: tuple[str, ...] | None) -> TopologyDecision | None:
        """What would be decided; None: there is nothing to place."""
        request = self.request(unit.kind, unit.name)
        return None if request is None else self.part.schedule(request, nodes=allowed)

    def hold(self, unit: Unit, leaving: Iterable[Unit]) -> None:
        """Keep for a unit what it needs of its nodes beside what others leave there.

        :param leaving: those who are placed.
        """
        there = self._taken(leaving)
        for node, needed in self._taken([unit]).items():
            rest = needed - there[node]
            if rest:
                request = TopologyRequest(_held(unit, node), 1, amounts=rest)
                self.part.commit(TopologyDecision(request, "bind", (NodePods(node, 1),)))

    def let_go(self, unit: Unit) -> None:
        """Keep nothing for a unit any more."""
        for node in {pod.node for pod in unit.placed}:
            with suppress(KeyError):  # others leave all that it needs there
                self.part.release(_held(unit, node))

    def fulfil(self, unit: Unit) -> TopologyDecision | None:
        """Give a unit what was kept for it; None: there is nothing to place.

        :raises StaleDecisionError: somebody else has changed the network.
        """
        self.let_go(unit)
        return self.commit_as_placed(unit)

    def commit_as_placed(self, unit: Unit) -> TopologyDecision | None:
        """Give a unit what it needs where its pods are said to be; None: that is nothing.

        :raises StaleDecisionError: there is no room for it.
        """
        request = self.request(unit.kind, unit.name)
        if request is None:
            return None
        amounts = self._amounts_by_role(unit)
        first: Counter[str] = Counter()
        more: Counter[str] = Counter()
        for pod in unit.placed:
            if amounts[pod.role]:
                (first if amounts[pod.role] == request.amounts else more)[pod.node] += 1
        pods = tuple(NodePods(node, first[node], more[node]) for node in {**first, **more})
        decision = TopologyDecision(request, "bind", pods)
        self.part.commit(decision)
        return decision

    def _taken(self, units: Iterable[Unit]) -> defaultdict[str, Counter[str]]:
        """What units take of each node."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for unit in units:
            amounts = self._amounts_by_role(unit)
            for pod in unit.placed:
                found[pod.node].update(dict(amounts[pod.role]))
        return found

    def _amounts_by_role(self, unit: Unit) -> dict[str, tuple[tuple[str, int], ...]]:
        return {role.name: self.amounts(role) for role, _ in unit.kind.sizes}

    def places(self, unit: Unit, decision: TopologyDecision) -> Places:
        """Node of each pod: those of a role on neighbouring nodes."""
        if len(unit.pods) == 1:
            return [(decision.placement[0].node, ())]
        first = decision.request.amounts
        ranks = iter(decision.ranks)
        others = iter([one.node for one in decision.placement for _ in range(one.others)])
        found: Places = []
        for role, pods in unit.kind.sizes:
            amounts = self.amounts(role)
            for _ in range(pods):
                node = "" if not amounts else next(ranks if amounts == first else others)
                found.append((node, ()))
        return found

    def waits_for(self, kind: Kind, decision: TopologyDecision) -> tuple[Key, ...]:
        """What has to happen before a refused unit is worth another try."""
        return (_ANY,)

    def touched_by_release(self, kind: Kind) -> Iterator[Key]:
        """What happens when a unit gives back what it has."""
        yield _ANY

    def may_start(self, kind: Kind) -> bool:
        """Whether a waiting unit is worth a try: whether there are as many slots for its pods."""
        request = self.request(kind, "anybody")
        if request is None or kind.job.where.nodes:
            return True
        slots = self.part.slots(request.must, amounts=request.amounts)
        return max(slots.values(), default=0) >= request.pods

    def room(self) -> float:
        """How many GPUs are idle on healthy nodes; inf: the network does not count them."""
        if "gpu" not in self.known or "slots" in self.known:
            return inf
        return self.part.total_free("gpu")

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that are marked so, at least in part."""
        return self.part.unhealthy

    def knows(self, node: str) -> bool:
        """Whether it has such a node."""
        return node in self.nodes


def _held(unit: Unit, node: str) -> str:
    """The name under which something is kept for a unit on a node."""
    return f"{unit.name}//{node}"
