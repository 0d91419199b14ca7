"""Topology: places the pods of a unit near each other in a network of domains."""

import re
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
from hivecore.scheduler.stages.units import (
    Key,
    Kind,
    Places,
    Refused,
    Unit,
    gpu_amount,
    with_limits,
)
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
_MOST = 4096  # cached requests
#: How many pods each node may get, see `Limits`; None: any number.
_Most = Any


class TopologyStage(PlacingStage):
    """A `NetworkTopology`: a pod takes a slot, or the resources that the network counts."""

    name = "topology"
    honours = frozenset(
        ("must", "prefer", "multiple", "per_domain", "balance", "nodes", "resources", "per_node")
    )
    limits_one_role = False
    part: NetworkTopology
    nodes: frozenset[str]

    def __init__(self, network: NetworkTopology, gpu_memory: int | None = 0) -> None:
        """:param gpu_memory: as for `gpu_amount`."""
        self.part, self._gpu_memory = network, gpu_memory
        self.forget()

    def forget(self) -> None:
        """Read the network again after a change."""
        self._idle: NetworkTopology | None = None
        #: resources that the network counts
        self.known = frozenset(self.part.resources)
        self.nodes = frozenset(self.part.nodes)
        #: a network without nodes may come to count anything
        self._is_blank = not self.nodes and not self.known
        #: requests by kind, shared with branches
        self._requests: dict[Kind, TopologyRequest | None] = {}

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The domain that holds a job, of the layer that must hold it."""
        if not job.where.must:
            return None
        domains = map(frozenset, self.part.domains(job.where.must))
        return next((domain for domain in domains if not domain.isdisjoint(nodes)), None)

    def impossible(
        self, kind: Kind, nodes: tuple[str, ...], growing: bool, most: _Most = None
    ) -> str:
        """Why units would wait on an empty, healthy network with these limits per node, or ""."""
        if self._idle is None:
            self._idle = self.part.copy()
            for name in self._idle.owners:
                self._idle.release(name)
            for node in self._idle.unhealthy:
                self._idle.set_health(node, True)
        try:
            request = self.request(kind, "any unit", most)
            decision = request and self._idle.schedule(request, nodes=nodes or None, most=most)
        except (KeyError, ValueError) as error:
            return re.sub(r"^request\.", "where.", str(error.args[0]))  # as the job says it
        if growing or not request or not decision or not decision.refusal:
            return ""
        lacks = (
            f"; a pod takes {name} {wanted}, and no node has more than {most}"
            for name, wanted, most in self._idle.lacking(request, nodes or None)
            if name != "slots"
        )
        return "".join((with_limits(kind, decision.refusal).reason, *lacks))

    def request(self, kind: Kind, name: str, most: _Most = None) -> TopologyRequest | None:
        """The request of a unit; None: it has nothing to place.

        :param most: how many pods of each request nodes may get, if limited.
        :raises ValueError: its pods are of more than two kinds.
        """
        key = kind.shape or kind
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
        """The resources that a pod of a role takes on its node."""
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
        """Whether the network limits a resource. A network of slots limits nothing else."""
        return self._is_blank or (resource in self.known and "slots" not in self.known)

    def propose(self, offer: Offer) -> Refused | None:
        """Choose nodes for the pods that take counted resources."""
        unit = offer.unit
        request = self.request(unit.kind, unit.name, offer.most)
        if request is None:
            return None
        decision = self.part.schedule(request, nodes=offer.nodes or None, most=offer.most)
        if decision.refusal is not None:
            return Refused(with_limits(unit.kind, decision.refusal), (_ANY,))
        offer.decisions[self.name] = decision
        offer.places = self._places(unit, decision)
        return None

    def rows(self, kind: Kind) -> list[int | None]:
        """The request that each role's pods belong to, 0 or 1; None: they are not placed.

        Pods that take the same are two requests if their devices differ (unless they must be in
        multiples), or if only some of them have a limit per node.

        :raises ValueError: more than two requests.
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
        """Raise `KeyError` unless the unit has its placement."""
        if unit.is_placed:
            self.part.placement(unit.name)

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Reserve what the unit needs on its nodes beside what its victims free there."""
        if not offer.is_placed:
            return
        left = self._taken(leaving)
        for node, needed in self._taken([unit]).items():
            rest = needed - left[node]
            if rest:
                request = TopologyRequest(_held(unit, node), 1, amounts=rest)
                self.part.commit(TopologyDecision(request, "bind", (NodePods(node, 1),)))

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release what is reserved for a unit."""
        for node in {pod.node for pod in unit.placed}:
            with suppress(KeyError):  # its victims free all that it needs there
                self.part.release(_held(unit, node))
        self.vacate(unit, unit.is_placed)

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Place a unit on its reserved resources, unless the network was changed from outside."""
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
        """Allocate what a running unit uses; ValueError: its domains do not allow its pods."""
        decision = self.commit_as_placed(unit)
        unit.is_placed = decision is not None
        if decision is not None:
            self._check_domains(decision)

    def _check_domains(self, decision: TopologyDecision) -> None:
        """Check the number of pods in each domain."""
        request, layers = decision.request, ("", *self.part.layers, "node")
        pods = {node.node: node.pods + node.others for node in decision.placement}

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
        """Allocate for the new pods, also on unhealthy nodes."""
        unit, now, other, _ = change
        for each in (unit, other):
            if each is not None:
                self.vacate(each, each.is_placed)
        now.is_placed = self.commit_as_placed(now, self.part.recover) is not None

    def commit_as_placed(
        self, unit: Unit, commit: Callable[[TopologyDecision], None] | None = None
    ) -> TopologyDecision | None:
        """Allocate for a unit as it is placed; None if it needs nothing.

        :param commit: how to commit; ``None``: only on healthy nodes.
        :raises StaleDecisionError: a node lacks room.
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
        """The resources that units take on each node."""
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for unit in units:
            amounts = self._amounts_by_role(unit)
            for pod in unit.placed:
                taken[pod.node].update(dict(amounts[pod.role]))
        return taken

    def _amounts_by_role(self, unit: Unit) -> dict[str, Amounts]:
        return {role.name: self.amounts(role) for role, _ in unit.kind.sizes}

    def _places(self, unit: Unit, decision: TopologyDecision) -> Places:
        """The node of each pod; pods of a role are on neighbouring nodes."""
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
        """The key of free resources."""
        return (_ANY,)

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether no domain has slots for all pods."""
        request = self.request(kind, "any unit")
        if request is None or kind.job.where.nodes:
            return False
        slots = self.part.slots(request.must, amounts=request.amounts)
        return max(slots.values(), default=0) < request.pods

    def room(self) -> Amount | float:
        """Idle GPUs on healthy nodes; inf: the network does not count them."""
        if "gpu" not in self.known or "slots" in self.known:
            return inf
        return self.part.total_free("gpu")

    def unhealthy(self) -> tuple[str, ...]:
        """Nodes that are unhealthy, at least in part."""
        return self.part.unhealthy

    def faults(self, audited: Audited) -> Iterator[str]:
        """Units whose placement differs from the network's."""
        owners = frozenset(self.part.owners)
        for unit in audited.units:
            if (unit.name in owners) != unit.is_placed:
                yield f"unit {unit.name!r}: its place"

    def dimensions(self) -> Iterator[Dimension]:
        """The resources of the network."""
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
        """The nodes of each domain of a layer; outer domains are added to a name in two."""
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
        """The domains of the layer that must hold a job."""
        return list(self.part.domains(job.where.must)) if job.where.must else []


def _number(resource: str, amount: Amount) -> int:
    """An integer amount, as dimensions count it; shares of GPUs are in thousandths."""
    return min(counted(amount, resource == "gpu"), 2**62)


def _held(unit: Unit, node: str) -> str:
    return f"{unit.name}//{node}"
