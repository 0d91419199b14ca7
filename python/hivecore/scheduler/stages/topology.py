"""Topology: a unit's pods near to each other in a network of domains."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from math import inf
from typing import Any

from hivecore._thousandths import Amount, Amounts, counted
from hivecore.decisions import Refusal
from hivecore.errors import StaleDecisionError
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages.stage import Audited, Offer, PlacingStage, Rebooking, refused
from hivecore.scheduler.stages.units import Key, Kind, Places, Refused, Unit, gpu_amount
from hivecore.topology import (
    NetworkTopology,
    NodePods,
    TopologyDecision,
    TopologyRequest,
    TopologyRole,
)

__all__ = ["TopologyStage"]

_ANY = ("topology", "any")
_TWO_KINDS = "a network places pods of two kinds at most"
_MOST = 4096  # requests that are remembered
#: How many pods each node may get, see `Limits`; None: any number.
_Most = Any


class TopologyStage(PlacingStage):
    """A `NetworkTopology`: a pod takes the resources of its node that it counts, or a slot."""

    name = "topology"
    honours = frozenset(
        ("must", "prefer", "multiple", "per_domain", "balance", "nodes", "resources", "per_node")
    )
    limits_one_role = False
    part: NetworkTopology
    nodes: frozenset[str]

    def __init__(self, network: NetworkTopology, gpu_memory: int | None = 0) -> None:
        """:param gpu_memory: as of `gpu_amount`."""
        self.part, self._gpu_memory = network, gpu_memory
        self.forget()

    def forget(self) -> None:
        """Read the network again after a change."""
        self._idle: NetworkTopology | None = None
        #: the resources that it counts
        self.known = frozenset(self.part.resources)
        self.nodes = frozenset(self.part.nodes)
        #: what a network without nodes will count is unknown: it counts all
        self._is_blank = not self.nodes and not self.known
        #: the requests of units by kind; shared with branches
        self._requests: dict[Kind, TopologyRequest | None] = {}

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The domain of the layer that has to hold a job."""
        if not job.where.must:
            return None
        domains = map(frozenset, self.part.domains(job.where.must))
        return next((domain for domain in domains if not domain.isdisjoint(nodes)), None)

    def impossible(
        self, kind: Kind, nodes: tuple[str, ...], growing: bool, most: _Most = None
    ) -> str:
        """Why units of this kind would wait on an empty, healthy network, too; "": they would not.

        :param most: how many pods each node may get.
        """
        if self._idle is None:
            self._idle = self.part.copy()
            for name in self._idle.owners:
                self._idle.release(name)
            for node in self._idle.unhealthy:
                self._idle.set_health(node, True)
        try:
            request = self.request(kind, "anybody", most)
            decision = request and self._idle.schedule(request, nodes=nodes or None, most=most)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        refusal = decision and decision.refusal
        return _told(kind, refusal).reason if refusal and not growing else ""

    def request(self, kind: Kind, name: str, most: _Most = None) -> TopologyRequest | None:
        """The request of a unit of this name; None: it has nothing to place.

        :param most: how many pods of each of its ``rows`` nodes may get, if limited.
        :raises ValueError: its pods are of more than two kinds.
        """
        key = kind.like or kind
        try:
            model = self._requests[key]
        except KeyError:
            if len(self._requests) >= _MOST:
                self._requests.clear()
            model = self._requests[key] = self._model(kind)
        if model and not model.role and most is not None and most.ndim > 1:
            rows = zip(self.rows(kind), kind.sizes, strict=True)
            others = sum(pods for row, (_, pods) in rows if row == 1)
            role = TopologyRole("other", others, model.amounts)
            return model.replace(name=name, pods=model.pods - others, role=role)
        return model and model.replace(name=name)

    def _model(self, kind: Kind) -> TopologyRequest | None:
        """The request of any unit of a kind."""
        where = kind.job.where
        by_amounts: dict[Amounts, int] = {}
        for role, pods in kind.sizes:
            if amounts := self.amounts(role):
                by_amounts[amounts] = by_amounts.get(amounts, 0) + pods
        if not by_amounts:
            return None
        (amounts, pods), *others = by_amounts.items()
        if len(others) > 1:
            raise ValueError(f"roles: {_TWO_KINDS}")
        more = TopologyRole("other", others[0][1], dict(others[0][0])) if others else None
        return TopologyRequest(
            "any unit",
            pods,
            must=where.must,
            prefer=where.prefer,
            multiple=where.multiple,
            per_domain=where.per_domain,
            balance=where.balance,
            amounts=amounts,
            role=more,
        )

    def amounts(self, role: Role) -> Amounts:
        """The resources that a pod of a role takes of its node."""
        if "slots" in self.known:
            return (("slots", 1),)
        taken = {"gpu": gpu_amount(role, self._gpu_memory), **dict(role.resources)}
        if self._is_blank:
            return tuple(sorted((name, n) for name, n in taken.items() if n)) or (("slots", 1),)
        return tuple(sorted((name, n) for name, n in taken.items() if n and name in self.known))

    def chooses_node(self, role: Role) -> bool:
        """Whether the network counts resources of a role's pods."""
        return bool(self.amounts(role))

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the network limits a resource: with slots, it limits nothing else."""
        return self._is_blank or (resource in self.known and "slots" not in self.known)

    def propose(self, offer: Offer) -> Refused | None:
        """Choose the node of each pod that takes resources which the network counts."""
        unit = offer.unit
        request = self.request(unit.kind, unit.name, offer.most)
        if request is None:
            return None
        decision = self.part.schedule(request, nodes=offer.nodes or None, most=offer.most)
        if decision.refusal is not None:
            return Refused(_told(unit.kind, decision.refusal), (_ANY,))
        offer.decisions[self.name] = decision
        offer.places = self._places(unit, decision)
        return None

    def rows(self, kind: Kind) -> list[int | None]:
        """The number of the request of each role's pods, 0 or 1; None: they are not placed.

        Pods that take the same of their nodes count as two requests if they request two things of
        devices, unless they have to be in multiples; and those of which nodes may get so many only
        count apart.

        :raises ValueError: there are more than two requests.
        """
        keys: list[Any] = [self.amounts(role) for role, _ in kind.sizes]
        kinds = list(dict.fromkeys(filter(None, keys)))
        if kind.is_spread:
            roles = [role.name if role.per_node is not None else "" for role, _ in kind.sizes]
            keys = [key and (key, role) for key, role in zip(keys, roles, strict=True)]
            kinds = list(dict.fromkeys(filter(None, keys)))
            if len(kinds) > 2:
                raise ValueError(
                    f"per_node: {_TWO_KINDS}; a role with per_node is a kind of its own"
                )
            return [kinds.index(key) if key else None for key in keys]
        where = kind.job.where
        if len(kinds) == 1 and not (where.multiple or where.per_domain or where.balance):
            starts = accumulate((pods for _, pods in kind.sizes), initial=0)
            requests = [tuple(kind.devices[at : at + 1]) for at in starts]
            split = [key and (key, devices) for key, devices in zip(keys, requests, strict=False)]
            if len(both := list(dict.fromkeys(filter(None, split)))) == 2:
                kinds, keys = both, split
        return [kinds.index(key) if key else None for key in keys]

    def check_holds(self, unit: Unit) -> None:
        """See that the unit has a place."""
        if unit.is_placed:
            self.part.placement(unit.name)

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Hold for a unit what it needs of its nodes beside what its victims leave there."""
        if not offer.is_placed:
            return
        left = self._taken(leaving)
        for node, needed in self._taken([unit]).items():
            rest = needed - left[node]
            if rest:
                request = TopologyRequest(_held(unit, node), 1, amounts=rest)
                self.part.commit(TopologyDecision(request, "bind", (NodePods(node, 1),)))

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold nothing for a unit any more."""
        for node in {pod.node for pod in unit.placed}:
            with suppress(KeyError):  # its victims leave all that it needs there
                self.part.release(_held(unit, node))
        self.vacate(unit, unit.is_placed)

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Give a unit what was held for it, unless the network was changed from outside."""
        self.let_go(unit, ())
        try:
            decision = self.commit_as_placed(unit)
        except StaleDecisionError as error:
            return refused(self.name, "changed", str(error))
        unit.is_placed = decision is not None
        if decision is not None:
            offer.decisions[self.name] = decision
        return None

    def adopt(self, unit: Unit) -> None:
        """Take from the nodes of a unit what it uses there.

        :raises ValueError: domains have other numbers of its pods than they may have.
        """
        decision = self.commit_as_placed(unit)
        unit.is_placed = decision is not None
        if decision is not None:
            self._check_domains(decision)

    def _check_domains(self, decision: TopologyDecision) -> None:
        """See that domains have multiples of pods, and not too many."""
        request, layers = decision.request, ("", *self.part.layers, "node")
        pods = {one.node: one.pods + one.others for one in decision.placement}

        def counts(layer: str) -> list[int]:
            return [sum(pods.get(node, 0) for node in of) for of in self.part.domains(layer)]

        for layer, most in request.per_domain:
            if (count := max(counts(layer))) > most:
                raise ValueError(f"{count} in a {layer!r}, at most {most} may be there")
        for layer, multiple in request.multiple:
            narrower = layers[layers.index(layer) + 1 :]
            is_divided = not any(request.pods in counts(inner) for inner in narrower)
            if is_divided and any(count % multiple for count in counts(layer)):
                raise ValueError(f"not in multiples of {multiple} in each {layer!r}")

    def rebook(self, change: Rebooking) -> None:
        """Allocate what its pods take, on unhealthy nodes, too."""
        unit, now, other, _ = change
        for of in (unit, other):
            if of is not None:
                self.vacate(of, of.is_placed)
        now.is_placed = self.commit_as_placed(now, self.part.recover) is not None

    def commit_as_placed(
        self, unit: Unit, commit: Callable[[TopologyDecision], None] | None = None
    ) -> TopologyDecision | None:
        """Allocate the resources of a unit at its present places; None: it needs none.

        :param commit: how; ``None``: only on healthy nodes.
        :raises StaleDecisionError: a node has no room.
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
        (commit or self.part.commit)(decision)
        return decision

    def _taken(self, units: Iterable[Unit]) -> defaultdict[str, Counter[str]]:
        """The resources that units take of each node."""
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for unit in units:
            amounts = self._amounts_by_role(unit)
            for pod in unit.placed:
                taken[pod.node].update(dict(amounts[pod.role]))
        return taken

    def _amounts_by_role(self, unit: Unit) -> dict[str, Amounts]:
        return {role.name: self.amounts(role) for role, _ in unit.kind.sizes}

    def _places(self, unit: Unit, decision: TopologyDecision) -> Places:
        """Node of each pod: those of a role on neighbouring nodes."""
        if len(unit.pods) == 1:
            return [(decision.placement[0].node, ())]
        ranks = iter(decision.ranks)
        others = iter([share.node for share in decision.placement for _ in range(share.others)])
        rows = self.rows(unit.kind) if decision.request.role else [0] * len(unit.kind.sizes)
        places: Places = []
        for (role, pods), row in zip(unit.kind.sizes, rows, strict=True):
            is_placed = bool(self.amounts(role))
            for _ in range(pods):
                node = "" if not is_placed else next(others if row else ranks)
                places.append((node, ()))
        return places

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """Nodes have more room."""
        return (_ANY,)

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether no domain has slots for all pods."""
        request = self.request(kind, "anybody")
        if request is None or kind.job.where.nodes:
            return False
        slots = self.part.slots(request.must, amounts=request.amounts)
        return max(slots.values(), default=0) < request.pods

    def room(self) -> Amount | float:
        """The idle GPUs on healthy nodes; inf: the network does not count them."""
        if "gpu" not in self.known or "slots" in self.known:
            return inf
        return self.part.total_free("gpu")

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that are unhealthy, at least in part."""
        return self.part.unhealthy

    def faults(self, audited: Audited) -> Iterator[str]:
        """The units with a place are those that count as placed."""
        owners = frozenset(self.part.owners)
        for unit in audited.units:
            if (unit.name in owners) != unit.is_placed:
                yield f"unit {unit.name!r}: its place"

    def dimensions(self) -> Iterator[Dimension]:
        """Each resource of the network."""
        for resource in sorted(self.known):
            free = self.part.free_by_node(resource)
            idle = {node: _number(resource, amount) for node, amount in free.items()}
            yield Dimension(idle, partial(self._needed, resource))

    def _needed(self, resource: str, role: Role) -> int:
        return _number(resource, dict(self.amounts(role)).get(resource, 0))

    def idle_gpus(self) -> dict[str, int]:
        """See `Stage`."""
        resource = "slots" if "slots" in self.known else "gpu"
        if resource not in self.known:
            return {}
        return {node: int(n) for node, n in self.part.free_by_node(resource).items()}

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer; names of outer domains make its name unique."""
        if layer not in self.part.layers:
            return {}
        level, domains = self.part.layers.index(layer) + 1, self.part.domains(layer)
        paths = [self.part.domain(nodes[0])[:level] for nodes in domains]
        names = [path[-1] for path in paths]
        return {
            path[-1] if names.count(path[-1]) == 1 else "/".join(path): nodes
            for path, nodes in zip(paths, domains, strict=True)
        }

    def domains_for(self, job: Job) -> list[tuple[str, ...]]:
        """The domains of the layer that has to hold a job."""
        return list(self.part.domains(job.where.must)) if job.where.must else []


def _number(resource: str, amount: Amount) -> int:
    """An amount as dimensions count it, of which pods need whole units, but for shares of GPUs."""
    return min(counted(amount, resource == "gpu"), 2**62)


def _told(kind: Kind, refusal: Refusal) -> Refusal:
    """A refusal that names how many pods of each role a node may get."""
    most = [f"{role.per_node} of {role.name!r}" for role, _ in kind.sizes if role.per_node]
    if not most:
        return refusal
    return refusal.replace(reason=f"{refusal.reason}; at most {', '.join(most)} per node")


def _held(unit: Unit, node: str) -> str:
    """The name of the owner that holds resources of a node for a unit."""
    return f"{unit.name}//{node}"
