"""Cells: which GPUs of which node a unit gets, by what its tenant is promised (HiveD)."""

import copy
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Self

from hivecore.cells import AffinityGroup, CellCluster, GroupDecision, NodeSet, PodPlacement
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.lifecycle.units import Key, Kind, Places, Unit
from hivecore.scheduler.stages._cell_nodes import cells_of_level
from hivecore.scheduler.stages.stage import Stage

__all__ = ["CellStage"]

_ANY = ("cells", "any")


class CellStage(Stage):
    """A `CellCluster`: a unit is an affinity group. Pods without GPUs are not placed."""

    name = "cells"
    honours = frozenset(("leaf_type", "pinned_cell", "within", "nodes"))
    part: CellCluster

    def __init__(self, cluster: CellCluster) -> None:
        self.part = cluster
        self.forget()

    def forget(self) -> None:
        """The cluster is made of something else now."""
        self.nodes = frozenset(self.part.nodes)
        chains = self.part.spec.chains
        self._chains = tuple(chains)
        levels = {level for chain in chains.values() for level in chain.levels}
        self._below_nodes = {level for level in levels if not any(cells_of_level(self.part, level))}

    def branch(self) -> Self:
        """An adapter of a copy."""
        made = copy.copy(self)
        made.part = self.part.copy()
        return made

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The cell of the level that has to hold a job; below nodes: the node."""
        if not job.where.within:
            return None
        cells = (frozenset(cell) for _, cell in cells_of_level(self.part, job.where.within))
        found = next((cell for cell in cells if not cell.isdisjoint(nodes)), None)
        return frozenset(nodes) if found is None else found

    def impossible(
        self, kind: Kind, empty: "CellStage", nodes: tuple[str, ...], growing: bool
    ) -> str:
        """Why units of this kind would wait on an empty, healthy cluster, too; "": they would not.

        :param empty: that cluster.
        :param nodes: the only ones to use; none: all.
        :param growing: whether there may be others.
        """
        job = kind.job
        if job.gpus and job.guaranteed and job.priority < 0:
            return f"its priority is {job.priority}, cells know 0 to 1000"
        if not kind.gpus:
            return ""
        within = job.where.within
        joins = any(role.min_pods < role.pods for role in job.roles)
        if within in self._below_nodes and joins:
            return f"within={within!r} is below nodes, where pods that join later are not kept"
        try:
            allowed = NodeSet(nodes) if nodes else None
            decision = empty.part.schedule(kind.affinity_group, suggested_nodes=allowed)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return "" if growing else decision.reason

    def emptied(self) -> Self:
        """An adapter of the same cluster, empty and healthy."""
        return type(self)(CellCluster(self.part.spec))

    def schedule(self, unit: Unit, allowed: NodeSet | None) -> GroupDecision | None:
        """What would be decided; None: there is nothing to place."""
        if not unit.kind.gpus:
            return None
        group = unit.kind.affinity_group.replace(name=unit.name)
        return self.part.schedule(group, suggested_nodes=allowed)

    def hold(self, unit: Unit, decision: GroupDecision, leaving: Iterable[Unit]) -> None:
        """Give a unit its cells from under others; what it does not take of theirs they keep, as
        opportunistic groups.

        :param decision: of a trial in which they have left.
        :param leaving: those who have cells.
        """
        others = list(leaving)
        chains = self._chains_of(one.name for one in others)
        for one in others:
            self.part.release(one.name)
        self.part.commit(copy.copy(decision))
        taken = {(pod.node, gpu) for pod in decision.placement for gpu in pod.leaf_indices}
        for one in others:
            self._stay(one, chains, taken)

    def let_go(self, unit: Unit, leaving: Iterable[Unit]) -> None:
        """Take back the cells of a unit; what it took of others they have again.

        :param leaving: those who are still there, and share with nobody who has cells for them.
        """
        others = list(leaving)
        names = [one.name for one in (unit, *others) if one.is_placed]
        chains = self._chains_of(names)
        for name in names:
            self.part.release(name)
        for one in others:
            self._stay(one, chains, frozenset())

    def _chains_of(self, names: Iterable[str]) -> dict[tuple[str, int], str]:
        """The chain of each GPU of groups; those that the cells have no more have none."""
        pods = [pod for name in names for pod in self.part.group(name).placement]
        return {(pod.node, gpu): pod.chain for pod in pods for gpu in pod.leaf_indices}

    def _stay(
        self, unit: Unit, chains: dict[tuple[str, int], str], taken: Container[tuple[str, int]]
    ) -> None:
        """A unit is on its GPUs until it has stopped, but for those that are another one's.

        On GPUs that the cells have no more it is as well: they may have them again.
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

    def places(self, unit: Unit, decision: GroupDecision) -> Places:
        """Node and GPUs of each pod."""
        placed = iter(decision.placement)
        found: Places = []
        for role, pods in unit.kind.sizes:
            for _ in range(pods):
                if role.gpus:
                    pod = next(placed)
                    found.append((pod.node, pod.leaf_indices))
                else:
                    found.append(("", ()))
        return found

    def chooses_node(self, role: Role) -> bool:
        """Whether cells choose the nodes of a role's pods."""
        return role.gpus > 0

    def waits_for(self, kind: Kind, decision: GroupDecision) -> tuple[Key, ...]:
        """What has to happen before a refused unit is worth another try."""
        by_others = decision.outcome == "preempt"  # who end by themselves, or are in the way
        if (
            not kind.job.guaranteed
            or by_others
            or any(r.code == "mapping" for r in decision.refusals)
        ):
            return (_ANY,)
        return (("cells", kind.job.tenant),)

    def touched_by_release(self, kind: Kind) -> Iterator[Key]:
        """What happens when a unit gives back what it has."""
        if kind.gpus:
            yield _ANY
            if kind.job.guaranteed:
                yield "cells", kind.job.tenant

    def may_start(self, kind: Kind) -> bool:
        """Whether a waiting unit is worth a try: whether there are as many idle GPUs."""
        if kind.job.guaranteed:
            return True
        idle = 0
        for chain in self._chains:
            idle += int(self.part.idle_leaves(chain).sum())
        return idle >= kind.gpus

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that are marked so, at least in part."""
        return self.part.bad_nodes()

    def knows(self, node: str) -> bool:
        """Whether it has such a node."""
        return node in self.nodes
