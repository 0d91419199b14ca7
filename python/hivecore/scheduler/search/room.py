"""Room on each node: what is idle now, and once jobs are evicted."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import gcd
from typing import Any

from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Kind, Unit

__all__ = ["Held", "Room", "needs_by_role"]

#: What the pods of a job on a node free at most, and what each needs elsewhere.
Held = tuple[int, tuple[int, ...]]


def needs_by_role(dimensions: Sequence[Dimension], kind: Kind) -> dict[str, tuple[int, ...]]:
    """The need of a pod in each dimension, for each role of a kind."""
    return {
        role.name: tuple(dimension.need(role) for dimension in dimensions) for role, _ in kind.sizes
    }


class Room:
    """What is idle on each node, now and once the jobs with these names are evicted."""

    def __init__(self, stages: Stages, jobs: Mapping[str, Live], names: Iterable[str]) -> None:
        self.dimensions = stages.dimensions()
        #: by dimension, node and job
        self.on: list[dict[str, dict[str, Held]]] = [{} for _ in self.dimensions]
        #: by dimension and node, the amount that all these jobs hold
        self.held: list[dict[str, int]] = [{} for _ in self.dimensions]
        #: the nodes of each job's pods
        self.nodes: dict[str, tuple[str, ...]] = {}
        #: a cache of proposals
        self.steps: dict[Hashable, Any] = {}
        known: dict[Kind, dict[str, tuple[int, ...]]] = {}
        counts = [
            *zip([dimension.held for dimension in self.dimensions], self.on, self.held, strict=True)
        ]
        for name in names:
            nodes: dict[str, None] = {}
            for unit in jobs[name].placed:
                roles = known.get(unit.kind)
                if roles is None:
                    roles = known[unit.kind] = needs_by_role(self.dimensions, unit.kind)
                for pod in unit.placed:
                    node = pod.node
                    if not node:
                        continue
                    nodes[node] = None
                    for need, (held, on, sums) in zip(roles[pod.role], counts, strict=True):
                        more = need or (0 if held is None else held(pod))
                        sums[node] = sums.get(node, 0) + more
                        by_name = on.get(node)
                        if by_name is None:
                            by_name = on[node] = {}
                        before, needs = by_name.get(name, (0, ()))
                        by_name[name] = before + more, (*needs, need) if need else needs
            self.nodes[name] = tuple(nodes)
        #: by dimension, the common divisor of the needs of all pods that may be evicted
        self.units = [
            gcd(*(needs[at] for by_role in known.values() for needs in by_role.values()))
            for at in range(len(self.dimensions))
        ]

    def needs(self, at: int, units: Iterable[Unit]) -> list[int]:
        """The need of each pod of the units; zeros are left out."""
        need = self.dimensions[at].need
        sizes = (role for unit in units for role, pods in unit.kind.sizes for _ in range(pods))
        return [amount for role in sizes if (amount := need(role))]

    def idle(self, at: int, node: str, gone: Collection[str]) -> int:
        """The idle amount of a node once the jobs in ``gone`` are evicted."""
        idle = self.dimensions[at].idle.get(node, 0)
        held = self.on[at].get(node)
        if held and gone:
            idle += sum(held[name][0] for name in gone if name in held)
        return idle
