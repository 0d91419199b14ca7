"""Cells: places units on GPUs within the guarantees of their tenants (HiveD)."""

import copy
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement
from math import inf
from typing import Any

from hivecore._record import renamed
from hivecore.cells import (
    AffinityGroup,
    CellCluster,
    Chain,
    ClusterSpec,
    GroupDecision,
    NodeSet,
    PodPlacement,
)
from hivecore.decisions import Refusal
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages.stage import Audited, Offer, PlacingStage, Rebooking
from hivecore.scheduler.stages.units import Key, Kind, Places, Refused, Unit, with_limits

__all__ = ["CellStage", "chain_nodes", "check_chains"]

_ANY = ("cells", "any")


class CellStage(PlacingStage):
    """A `CellCluster`: a unit is an affinity group. Pods without GPUs are not placed."""

    name = "cells"
    honours = frozenset(("leaf_type", "pinned_cell", "within", "nodes", "per_node"))
    keeps_nodes = True
    part: CellCluster
    nodes: frozenset[str]

    def __init__(self, cluster: CellCluster) -> None:
        self.part = cluster
        self.forget()

    def forget(self) -> None:
        """Read the cluster again after a change."""
        self._idle: CellCluster | None = None
        self._chain_by_node: dict[str, str] = {}
        self.nodes = frozenset(self.part.nodes)
        chains = self.part.spec.chains
        self._chains = tuple(chains)
        levels = {level for chain in chains.values() for level in chain.levels}
        self._below_nodes = {
            level for level in levels if not any(_cells_of_level(self.part, level))
        }

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The cell of the level that must hold a job; for levels below nodes, the node."""
        if not job.where.within:
            return None
        cells = (frozenset(cell) for _, cell in _cells_of_level(self.part, job.where.within))
        domain = next((cell for cell in cells if not cell.isdisjoint(nodes)), None)
        return frozenset(nodes) if domain is None else domain

    def impossible(
        self, kind: Kind, nodes: tuple[str, ...], growing: bool, most: Any = None
    ) -> str:
        """Why units would wait on empty, healthy cells with these limits per node, or ""."""
        job = kind.job
        if job.gpus and job.guaranteed and job.priority < 0:
            return f"its priority is {job.priority}, cells know 0 to 1000"
        if not kind.gpus:
            return ""
        within = job.where.within
        joins = kind.grows or job.on_failure != "job"
        if within in self._below_nodes and joins:
            return f"within={within!r} is below nodes, where pods that come later are not kept"
        if self._idle is None:
            self._idle = CellCluster(self.part.spec)
        try:
            allowed = NodeSet(nodes) if nodes else None
            decision = self._idle.schedule(kind.affinity_group, suggested_nodes=allowed, most=most)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return "" if growing else decision.reason

    def propose(self, offer: Offer) -> Refused | None:
        """Choose node and GPUs of each pod that requests GPUs."""
        if not offer.unit.kind.gpus:
            return None
        decision = self.choose(offer.unit, offer.nodes, offer.most)
        if isinstance(decision, Refused):
            return decision
        offer.decisions[self.name] = decision
        offer.places = _places(offer.unit, decision)
        return None

    def choose(
        self, unit: Unit, nodes: tuple[str, ...] = (), most: Any = None
    ) -> Refused | GroupDecision:
        """Choose node and GPUs of each pod of a unit that requests GPUs; nothing changes yet.

        :param nodes: the allowed nodes; empty: all.
        :param most: how many pods each node may get; ``None``: any number.
        """
        kind = unit.kind
        group = renamed(kind.affinity_group, unit.name)
        suggested = NodeSet(nodes) if nodes else None
        decision = self.part.schedule(group, suggested_nodes=suggested, most=most)
        if decision.outcome == "bind":
            return decision
        keys = self._retry_on(kind, decision)
        refusal = decision.refusal
        if refusal is not None:
            return Refused(with_limits(kind, refusal, self.chooses_node), keys)
        refusal = Refusal(self.name, "preempt", decision.reason)
        return Refused(refusal, keys, (), decision.victims, not decision.cut_short)

    def check_holds(self, unit: Unit) -> None:
        """Raise `KeyError` unless the unit still has its cells."""
        if unit.is_placed and unit.name not in self.part:
            raise KeyError(f"unit {unit.name!r} has no cells any more")

    def is_downgraded(self, unit: str) -> bool:
        """Whether a running unit has lost its guarantee."""
        return not self.part.group(unit).guaranteed

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Give a unit the cells of its victims, which keep the rest as opportunistic groups."""
        decision: GroupDecision | None = offer.decisions.get(self.name)
        if decision is None:
            return
        chains = self._chains_of(victim.name for victim in leaving)
        for victim in leaving:
            self.part.release(victim.name)
        self.part.commit(copy.copy(decision))
        taken = {(pod.node, gpu) for pod in decision.placement for gpu in pod.leaf_indices}
        for victim in leaving:
            self._stay(victim, chains, taken)
        unit.is_placed = True

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release the cells of a unit, and return to its victims what it took from them."""
        if not unit.is_placed:
            return
        names = [holder.name for holder in (unit, *leaving) if holder.is_placed]
        chains = self._chains_of(names)
        for name in names:
            self.part.release(name)
        for holder in leaving:
            self._stay(holder, chains, frozenset())

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Do nothing: the unit has its cells already."""
        if unit.kind.gpus:
            group = unit.kind.affinity_group.replace(name=unit.name)
            offer.decisions[self.name] = self.part.schedule(group)
        return None

    def adopt(self, unit: Unit) -> None:
        """Give a unit the smallest free cells of its tenant around its GPUs, or no guarantee."""
        kind = unit.kind
        if not kind.gpus:
            return
        group = kind.affinity_group.replace(name=unit.name)
        gpus = {role.name: role.gpus for role, _ in kind.sizes}
        pods = [pod for pod in unit.placed if gpus[pod.role]]
        chains = [self._chain_of_node(pod.node) for pod in pods]
        for chain, pod in zip(chains, pods, strict=True):
            has = self.part.spec.chains[chain].levels[0]
            if group.leaf_type not in (None, has):
                raise ValueError(f"where.leaf_type={group.leaf_type!r}: {pod.node!r} has {has!r}")
        for levels in self._own_levels(group, pods, chains):
            placement = [
                PodPlacement(chain, pod.node, pod.gpus, (level,) * len(pod.gpus), ())
                for chain, pod, level in zip(chains, pods, levels, strict=True)
            ]
            with self.part.trial():
                recovery = self.part.recover(group, placement)
            if recovery.lost:
                node, gpu = recovery.lost[0]
                raise ValueError(f"node {node!r} has no GPU {gpu}")
            if not recovery.downgraded:
                break
        self.part.recover(group, placement)
        unit.is_placed = True

    def _chain_of_node(self, node: str) -> str:
        if not self._chain_by_node:
            for name in reversed(self._chains):
                self._chain_by_node.update(dict.fromkeys(chain_nodes(self.part, name), name))
        return self._chain_by_node[node]

    def _own_levels(
        self, group: AffinityGroup, pods: list[PlacedPod], chains: list[str]
    ) -> Iterator[list[str]]:
        """By pod, the level of the cell that it may have, the lowest first. The more GPUs a group
        has on a node, the higher is its level there.
        """
        owned = self.part.spec.virtual_clusters.get(group.virtual_cluster, {})
        if group.priority < 0 or group.pinned_cell is not None:
            yield [group.pinned_cell or ""] * len(pods)
            return
        used = Counter[str]()
        for pod in pods:
            used[pod.node] += len(pod.gpus)
        counts = sorted(set(used.values()))
        levels = {chain: self.part.spec.chains[chain].levels for chain in chains}
        heights = range(max(map(len, levels.values())))
        for of_counts in combinations_with_replacement(heights, len(counts)):
            height = dict(zip(counts, of_counts, strict=True))
            of_pods = [
                level
                for pod, chain in zip(pods, chains, strict=True)
                for level in levels[chain][height[used[pod.node]] :][:1]
                if level in owned.get(chain, ())
            ]
            if len(of_pods) == len(pods):
                yield of_pods
        yield [""] * len(pods)

    def rebook(self, change: Rebooking) -> None:
        """Replace a group by its new pods, on the cells that these have."""
        unit, now, other, _ = change
        names = [of.name for of in (unit, other) if of is not None and of.is_placed]
        of_leaf = {
            (pod.node, gpu): pod
            for name in names
            for pod in self.part.record(name)
            for gpu in pod.leaf_indices
        }
        for name in names:
            self.part.release(name)
        placement = [of_leaf[pod.node, pod.gpus[0]] for pod in now.placed if pod.gpus]
        now.is_placed = bool(placement)
        if placement:
            self.part.recover(now.kind.affinity_group.replace(name=unit.name), placement)

    def _chains_of(self, names: Iterable[str]) -> dict[tuple[str, int], str]:
        """The chain of each GPU of groups, without GPUs that the cells no longer have."""
        pods = [pod for name in names for pod in self.part.group(name).placement]
        return {(pod.node, gpu): pod.chain for pod in pods for gpu in pod.leaf_indices}

    def _stay(
        self, unit: Unit, chains: dict[tuple[str, int], str], taken: Container[tuple[str, int]]
    ) -> None:
        """Keep a unit on its GPUs, apart from those that are taken, until it has stopped.

        The cells may have lost some of these GPUs, and may get them back.
        """
        pods = []
        for pod in unit.placed:
            gpus = [gpu for gpu in pod.gpus if (pod.node, gpu) not in taken]
            if gpus:
                chain = next((c for g in gpus if (c := chains.get((pod.node, g)))), self._chains[0])
                pods.append((chain, pod.node, gpus))
        unit.is_placed = bool(pods)
        if pods:
            sizes = [(1, len(gpus)) for _, _, gpus in pods]
            group = AffinityGroup(unit.name, unit.kind.job.tenant, sizes, priority=-1)
            placement = [
                PodPlacement(chain, node, tuple(gpus), ("",) * len(gpus), ())
                for chain, node, gpus in pods
            ]
            self.part.recover(group, placement)

    def chooses_node(self, role: Role) -> bool:
        """Whether cells choose the nodes of a role's pods."""
        return role.gpus > 0

    def _retry_on(self, kind: Kind, decision: GroupDecision) -> tuple[Key, ...]:
        by_others = decision.outcome == "preempt"  # they may end without this job
        if (
            not kind.job.guaranteed
            or by_others
            or any(r.code == "mapping" for r in decision.refusals)
        ):
            return (_ANY,)
        return (("cells", kind.job.tenant),)

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The keys of free cells; for a guaranteed unit also those of its tenant."""
        if not kind.gpus:
            return ()
        return (_ANY, ("cells", kind.job.tenant)) if kind.job.guaranteed else (_ANY,)

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether cells would let a unit wait on any nodes, for the same reason."""
        try:
            decision = self.part.schedule(kind.affinity_group)
        except (KeyError, ValueError):
            return False  # a unit that is offered gets the error
        again = decision.refusal
        if again is None:
            return False
        return with_limits(kind, again, self.chooses_node).reason == refusal.reason

    def available(self, kind: Kind) -> float:
        """An upper bound for the GPUs that a unit may get: idle GPUs of its tenant's cells, or all
        idle GPUs. A job that leaves adds at most its own. inf: unknown, as some GPUs are bad.
        """
        if not kind.gpus or self.part.bad_leaves():
            return inf
        return self.part.available(kind.affinity_group)

    def remove_node(self, node: str) -> None:
        """Mark a removed node as bad, so that guarantees stay as they are."""
        self.part.set_health(node, False)

    def unhealthy(self) -> tuple[str, ...]:
        """Nodes that are unhealthy, at least in part."""
        return self.part.bad_nodes()

    def faults(self, audited: Audited) -> Iterator[str]:
        """Units whose placement differs from the cells'."""
        for unit in audited.units:
            if (unit.name in self.part) != unit.is_placed:
                yield f"unit {unit.name!r}: its cells"

    def rows(self, kind: Kind) -> list[int | None]:
        """For each role, 0 if its pods are placed; else None."""
        return [0 if role.gpus else None for role, _ in kind.sizes]

    def dimensions(self) -> tuple[Dimension]:
        """Idle GPUs by node."""
        idle: dict[str, int] = {}
        for name in self._chains:
            leaves = self.part.idle_leaves(name).tolist()
            for node, count in zip(chain_nodes(self.part, name), leaves, strict=True):
                idle[node] = idle.get(node, 0) + count
        return (Dimension(idle, lambda role: role.gpus),)

    def idle_gpus(self) -> dict[str, int]:
        """See `Stage`."""
        return self.dimensions()[0].idle

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each cell of a level."""
        return dict(_cells_of_level(self.part, layer))

    def domains_for(self, job: Job) -> list[tuple[str, ...]]:
        """The nodes of each chain, or cell of a level, that may hold a job."""
        chains, leaf_type, within = self.part.spec.chains, job.where.leaf_type, job.where.within
        if not leaf_type and len(chains) == 1:
            if not within:
                return []
            leaf_type = next(iter(chains.values())).levels[0]
        names = [name for name, of in chains.items() if not leaf_type or of.levels[0] == leaf_type]
        nodes = [chain_nodes(self.part, name) for name in names]
        if not within:
            return nodes
        cells = _cells_of_level(self.part, within)
        domains = [of_cell for cell, of_cell in cells if cell.rpartition("/")[0] in names]
        # a level below nodes: each node is a domain
        return domains or [(node,) for of_chain in nodes for node in of_chain]


def _places(unit: Unit, decision: GroupDecision) -> Places:
    """Node and GPUs of each pod."""
    placed = decision.places
    if len(placed) == len(unit.pods):
        return placed
    left = iter(placed)
    return [
        next(left) if role.gpus else ("", ()) for role, pods in unit.kind.sizes for _ in range(pods)
    ]


def _cells_of_level(cells: CellCluster, level: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The nodes of each cell of a level from the node up; cells are named like "H100/0"."""
    for name, chain in cells.spec.chains.items():
        assert chain.node_level is not None
        if level not in chain.levels[chain.levels.index(chain.node_level) :]:
            continue
        per_cell = dict(zip(chain.levels, chain.leaves_per_cell(), strict=True))
        width = per_cell[level] // per_cell[chain.node_level]
        nodes = chain_nodes(cells, name)
        for i in range(len(nodes) // width):
            yield f"{name}/{i}", tuple(dict.fromkeys(nodes[i * width : (i + 1) * width]))


def check_chains(spec: ClusterSpec, argument: str) -> None:
    """Raise `ValueError` if two chains have the same GPU of a node, which two jobs would get."""
    nodes = {name: _nodes_of(name, chain) for name, chain in spec.chains.items()}
    counts = Counter(node for names in nodes.values() for node in {*names})
    chain_by_gpu: dict[tuple[str, int], str] = {}
    for name, chain in spec.chains.items():
        rows = chain.leaf_indices
        per_node = range(chain.leaves // len(nodes[name]))
        for i, node in enumerate(nodes[name]):
            if counts[node] == 1:
                continue
            for gpu in per_node if rows is None else rows[i]:
                other = chain_by_gpu.setdefault((node, gpu), name)
                if other != name:
                    raise ValueError(
                        f"{argument}: chains {other!r} and {name!r} both have GPU {gpu} of node "
                        f"{node!r}; leaf_indices must tell their GPUs apart"
                    )


def chain_nodes(cells: CellCluster, chain: str) -> tuple[str, ...]:
    """The nodes of a chain, from left to right."""
    return _nodes_of(chain, cells.spec.chains[chain])


def _nodes_of(name: str, spec: Chain) -> tuple[str, ...]:
    if spec.nodes is not None:
        return tuple(spec.nodes)
    assert spec.node_level is not None
    per_node = spec.leaves_per_cell()[spec.levels.index(spec.node_level)]
    return tuple(f"{name}/{i}" for i in range(spec.leaves // per_node))
