"""Resource claims of Kubernetes (DRA): allocates devices to the claims of each pod.

All claims on a node are allocated together. Pods that have a node get their devices there. Then
nodes for the other pods with claims are chosen together. If any pod is refused, all claims are
released.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_text
from hivecore._record import force_setattr
from hivecore.decisions import Refusal
from hivecore.dra import ClaimDecision, DraCluster, ResourceClaim
from hivecore.dra.ledger import owner_of
from hivecore.scheduler.job import Role
from hivecore.scheduler.stages._verdicts import Verdicts
from hivecore.scheduler.stages.stage import Audited, Granted, Offer, Stage, refused
from hivecore.scheduler.stages.units import Key, Kind, Refused, Unit

__all__ = ["ClaimStage", "as_mode"]

_ANY = ("claims", "any")
_MOST_COUNTED = 64  # pods on a node; beyond that any number may fit
#: Ids of shares are derived from names, so that a replay gives the same ids.
_SHARES = UUID("8f0c9d52-3f0e-4f4e-9d53-6a3b1a0c7f11")
_Templates = tuple[ResourceClaim, ...]


def as_mode(mode: object, cluster: DraCluster | None) -> str:
    """Check a mode of allocation, and return it.

    :raises ValueError: the mode is unknown, or there are no claims.
    :raises TypeError: the mode is not a string.
    """
    known = as_text(mode, "claims_mode")
    if cluster is None and known != "first":
        raise ValueError("claims_mode: there are no claims")
    try:
        if cluster is not None:
            cluster.fits([], known)
    except ValueError as error:
        raise ValueError(f"claims_mode: {error}") from None
    return known


class ClaimStage(Stage):
    """A `DraCluster`. The claims of a pod are named job/role/index/template.

    :param is_alone: no other part has nodes. Then this stage tracks unhealthy nodes; a removed node
        is unhealthy, as the cluster may still have slices of it.
    :param mode: how devices are chosen, see `DraCluster.allocate`.
    """

    name = "claims"
    honours = frozenset(("claims", "nodes"))
    keeps_nodes = True
    part: DraCluster

    def __init__(self, cluster: DraCluster, is_alone: bool, mode: str = "first") -> None:
        self.part, self._is_alone, self.mode = cluster, is_alone, mode
        self._bad = frozenset[str]()
        self.forget()

    def forget(self) -> None:
        """Read the nodes again after a change."""
        self.known = frozenset(self.part.nodes)
        self.nodes = self.known if self._is_alone else None
        self._idle: DraCluster | None = None
        #: why claims are impossible in an idle cluster, by roles and allowed nodes
        self._verdicts = Verdicts()

    # --- constraints

    def chooses_node(self, role: Role) -> bool:
        """Whether the pods of a role have claims."""
        return bool(role.claims)

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of a kind would wait even if no claim held devices; "" if they would not."""
        if growing or not any(role.claims for role, _ in kind.sizes):
            return ""
        return self._verdicts.of((kind.sizes, nodes), lambda: self._impossible(kind, nodes))

    def _impossible(self, kind: Kind, nodes: tuple[str, ...]) -> str:
        claims = [own for own in _claims_of(Unit("any", "any", kind, kind.pods)) if own]
        idle, known = self._emptied(), self._among(nodes)
        if _nodes_for(idle, claims, known):
            return ""
        alone = all(_nodes_for(idle, [own], known) for own in claims)
        if alone and idle.has_common_pools:
            return ""  # nodes were chosen one after the other, which proves nothing
        return self._why(idle, _templates_of(kind), known)

    def _emptied(self) -> DraCluster:
        """A copy of the cluster in which no claim holds devices."""
        if self._idle is None:
            self._idle = self.part.copy()
            for claim in self._idle.claims:
                self._idle.release(claim)
        return self._idle

    def _among(self, nodes: Iterable[str] | None) -> list[str] | None:
        """The known nodes among these; None: all nodes."""
        return None if not nodes else [node for node in nodes if node in self.known]

    def capacity(
        self, templates: _Templates, most: int, nodes: Sequence[str], *, is_idle: bool = False
    ) -> npt.NDArray[np.int32]:
        """How many pods with such claims fit on each node, or would if no claim held devices."""
        part = self._emptied() if is_idle else self.part
        counts: dict[str, int] = {}
        for number in range(1, min(most, _MOST_COUNTED) + 1):
            able = part.fits(templates * number).nodes
            if not able:
                break
            counts |= dict.fromkeys(able, number if number < _MOST_COUNTED else most)
        return np.array([counts.get(node, 0) for node in nodes], np.int32)

    def narrow(self, offer: Offer) -> Refused | None:
        """Record which nodes can serve the claims of each pod, for the stage that chooses nodes."""
        for i, templates in enumerate(_templates_of(offer.unit.kind)):
            if templates and i not in offer.able:
                able, allowed = self.part.fits(templates).nodes, self._allowed(offer)
                usable = able if allowed is None else filter(set(allowed).__contains__, able)
                offer.able[i] = tuple(usable)
            if templates and not offer.able[i]:
                return self._refused([templates], self._among(offer.nodes))
        return None

    # --- nodes

    def set_health(self, node: str, healthy: bool) -> None:
        """Record that a node failed or recovered."""
        bad = self._bad - {node} if healthy else self._bad | {node}
        self.log.set(self, "_bad", bad)

    def remove_node(self, node: str) -> None:
        """Stop using a node."""
        self.set_health(node, False)

    def unhealthy(self) -> Iterable[str]:
        """The unhealthy nodes that have slices; others may get slices again."""
        return sorted(filter(self.knows, self._bad))

    def plain(self) -> list[str]:
        """The unhealthy nodes, for `restore`."""
        return sorted(self._bad)

    def restore(self, data: Iterable[str]) -> None:
        """Restore the result of `plain`."""
        self._bad = frozenset(map(str, data))

    # --- a unit

    def propose(self, offer: Offer) -> Refused | None:
        """Allocate the claims of all pods, or of none."""
        claims = _claims_of(offer.unit)
        if not any(claims):
            return None
        if offer.within:
            return self._propose_within(offer, claims, offer.nodes_of_pods())
        by_node: dict[str, list[int]] = {}
        for i, (own, node) in enumerate(zip(claims, offer.nodes_of_pods(), strict=True)):
            if own:
                by_node.setdefault(node, []).append(i)
        free = by_node.pop("", [])
        refusal = self._allocate(offer, claims, by_node)
        if refusal is None and free:
            allowed = self._allowed(offer)
            pods = _nodes_for(self.part, [claims[i] for i in free], allowed, self.mode)
            chosen = {node: [free[i] for i in own] for node, own in pods.items()}
            refusal = self._allocate(offer, claims, chosen)
            if not chosen:
                templates = _templates_of(offer.unit.kind)
                refusal = self._refused([templates[i] for i in free], allowed)
            offer.refused_pod = -1
        if refusal is not None:
            self.retract(offer)
        return refusal

    def _allocate(
        self, offer: Offer, claims: list[_Templates], by_node: dict[str, list[int]]
    ) -> Refused | None:
        for node, pods in by_node.items():
            offer.refused_pod = pods[-1]
            if node not in self.known:
                return refused(self.name, "devices", f"node {node!r} has no devices", _ANY)
            own = [claim for i in pods for claim in claims[i]]
            decision = self.part.allocate(own, node, self.mode)
            if decision.outcome != "allocated":
                able = offer.able.get(pods[-1], ())
                offer.able[pods[-1]] = tuple(other for other in able if other != node)
                return refused(self.name, "devices", _reason_of(decision), _ANY)
            self._grant(offer, claims, decision)
            offer.refused_pod = -1
        return None

    def _grant(self, offer: Offer, claims: list[_Templates], decision: ClaimDecision) -> None:
        """Commit the decision for all claims on a node, and record which pods they belong to."""
        decision = decision.with_share_ids(_share_id)
        self.part.commit(decision)
        numbers = {claim.name: number for number, claim in enumerate(decision.claims)}
        for i, own in enumerate(claims):
            if own and own[0].name in numbers:
                first = numbers[own[0].name]
                offer.granted[i] = Granted(decision.node, decision, range(first, first + len(own)))

    def _propose_within(
        self, offer: Offer, claims: list[_Templates], nodes: Sequence[str]
    ) -> Refused | None:
        """Allocate all claims within the offer's limits; pods without a node get a usable one."""
        pods = [i for i, own in enumerate(claims) if own]
        if not self.known.issuperset(nodes[i] for i in pods if nodes[i]):
            return refused(self.name, "devices", "a node has no devices", _ANY)
        gang = self.part.schedule_gang(
            [claims[i] for i in pods],
            None if all(nodes[i] for i in pods) else self._allowed(offer),
            self.mode,
            within=offer.within,
            where={at: nodes[i] for at, i in enumerate(pods) if nodes[i]},
        )
        if gang is None:
            return refused(self.name, "devices", "other devices take too much as well", _ANY)
        for decision in gang.decisions:
            self._grant(offer, claims, decision)
        return None

    def _allowed(self, offer: Offer) -> list[str] | None:
        """The nodes that an offer may use; None: all."""
        usable = offer.usable(offer.nodes, self.known)
        return None if usable is None else [node for node in usable if node in self.known]

    def _refused(self, templates: Sequence[_Templates], nodes: Sequence[str] | None) -> Refused:
        return refused(self.name, "devices", self._why(self.part, templates, nodes), _ANY)

    def _why(
        self, part: DraCluster, templates: Sequence[_Templates], nodes: Sequence[str] | None
    ) -> str:
        """Why no nodes can serve the claims of pods with these templates."""
        for own in filter(None, dict.fromkeys(templates)):
            if not _nodes_for(part, [own], nodes):
                node = min(self.known if nodes is None else nodes, default="")
                reason = f"; {node}: {_reason_of(part.allocate(own, node))}" if node else ""
                return f"no node can serve {', '.join(template.name for template in own)}{reason}"
        return "no nodes can serve the claims of all pods together"

    def retract(self, offer: Offer) -> None:
        """Release what the offer was given."""
        for _, decision, numbers in offer.granted.values():
            for number in numbers:
                self.part.release(owner_of(decision.claims[number]))
        offer.granted.clear()

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Release the devices of all claims of a unit."""
        for owner in _owners(unit):
            self.part.release(owner)

    def check_holds(self, unit: Unit) -> None:
        """Raise `KeyError` unless all claims of the unit hold devices."""
        for owner in _owners(unit):
            if owner not in self.part:
                raise KeyError(f"claim {owner!r} has no devices any more")

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the devices to another job."""
        for before, after in zip(_owners(unit, old), _owners(unit, new), strict=True):
            self.part.rename(before, after)

    def adopt(self, unit: Unit) -> None:
        """Record the devices that the claims of running pods have."""
        for own, pod in zip(_claims_of(unit), unit.placed, strict=True):
            allocations = dict(pod.claims)
            for claim in own:
                name = claim.name.rpartition("/")[2]
                if name not in allocations:
                    raise ValueError(f"its claim {name!r} has no allocation")
                force_setattr(claim, "allocation", allocations[name])
                self.part.update(claim)

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Reserve the devices that the unit's victims do not free."""
        for name, namespace, result in _held(unit):
            allocation = {"devices": {"results": [result]}}
            with suppress(ValueError):  # a victim has it
                self.part.update(ResourceClaim(name, namespace, allocation=allocation))

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release the reserved devices."""
        for name, namespace, _ in _held(unit):
            if (owner := f"{namespace}/{name}") in self.part:
                self.part.release(owner)

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Allocate the claims of each pod on its node, once its victims have left; if possible
        within the unit's charge.
        """
        claims, by_node = _claims_of(unit), dict[str, list[int]]()
        for i, (own, pod) in enumerate(zip(claims, unit.placed, strict=True)):
            if own:
                by_node.setdefault(pod.node, []).append(i)
        with self.part.trial():
            self.let_go(unit, ())
            nodes = [pod.node for pod in unit.placed]
            if offer.within and self._propose_within(offer, claims, nodes) is not None:
                offer.within = {}
            refusal = None if offer.within else self._allocate(offer, claims, by_node)
        offer.granted.clear()
        if refusal is None and by_node:
            self.let_go(unit, ())
            if offer.within:
                self._propose_within(offer, claims, nodes)
            else:
                self._allocate(offer, claims, by_node)
            unit.placed = tuple(
                pod.replace(claims=offer.allocations(i)) for i, pod in enumerate(unit.placed)
            )
        return refusal

    # --- waiting

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The key of free devices."""
        return (_ANY,)

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether no node can serve the claims of some pod."""
        return not all(self.part.fits(role.claims).nodes for role, _ in kind.sizes if role.claims)

    def faults(self, audited: Audited) -> Iterator[str]:
        """Claims that hold devices and belong to no running unit, or the reverse."""
        running = [unit for unit in audited.running if unit.name in audited.holders]
        holders = {owner for unit in running for owner in _owners(unit)}
        for owner in dict.fromkeys(owner for unit in audited.units for owner in _owners(unit)):
            if (owner in self.part) != (owner in holders):
                yield f"claim {owner!r}: its devices"


def _templates_of(kind: Kind) -> list[_Templates]:
    return [role.claims for role, pods in kind.sizes for _ in range(pods)]


def _claims_of(unit: Unit, owner: str = "") -> list[_Templates]:
    """The claims of each pod, with their own names."""
    owner = owner or unit.owner
    claims = []
    for (role, number), templates in zip(unit.pods, _templates_of(unit.kind), strict=True):
        own = []
        for template in templates:
            claim = copy(template)
            force_setattr(claim, "name", f"{owner}/{role}/{number}/{template.name}")
            own.append(claim)
        claims.append(tuple(own))
    return claims


def _owners(unit: Unit, owner: str = "") -> list[str]:
    """The names under which the claims of a unit hold devices."""
    return [owner_of(claim) for own in _claims_of(unit, owner) for claim in own]


def _held(unit: Unit) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each device of a reserved unit, with the name and namespace of its temporary claim."""
    for own, pod in zip(_claims_of(unit), unit.placed, strict=True):
        for claim, (_, allocation) in zip(own, pod.claims, strict=True):
            for i, result in enumerate(allocation["devices"]["results"]):
                yield f"{claim.name}//{i}", claim.namespace, result


def _nodes_for(
    part: DraCluster,
    claims: Sequence[_Templates],
    nodes: Sequence[str] | None,
    mode: str = "first",
) -> dict[str, list[int]]:
    """The numbers of the pods on each node, in order of choice; empty: they do not fit."""
    if len(claims) == 1:
        decision = part.schedule(claims[0], nodes, mode)
        return {} if decision is None else {decision.node: [0]}
    gang = part.schedule_gang(claims, nodes, mode)
    if gang is None:
        return {}
    return {
        decision.node: [i for i, node in enumerate(gang.nodes) if node == decision.node]
        for decision in gang.decisions
    }


def _reason_of(decision: ClaimDecision) -> str:
    if decision.outcome == "error":
        return decision.problems[0].message
    return decision.reason or f"not known after {decision.work} steps"


def _share_id(claim: ResourceClaim, number: int) -> UUID:
    return uuid5(_SHARES, f"{owner_of(claim)} {number}")
