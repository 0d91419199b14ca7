"""Traffic on a shared cluster, and its evictions: groups that come and go."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec

TENANTS = "ABCD"
GANG = (8, 8)
_PODS = (1, 1, 1, 2, 4)
_GPUS = (1, 2, 4, 8, 8)
_MIXED = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8)
_MOST_ROUNDS = 100  # of retries after the victims have left


def small_cluster() -> ClusterSpec:
    """1,024 GPUs in 8 rows of 4 racks of 4 nodes; every tenant owns a row, 2 racks, 8 nodes."""
    chain = Chain(("gpu", "socket", "node", "rack", "row"), (4, 2, 4, 4), 8)
    return ClusterSpec({"c": chain}, {t: {"c": {"row": 1, "rack": 2, "node": 8}} for t in TENANTS})


def large_cluster(racks: int) -> ClusterSpec:
    """Racks of 16 nodes of 8 GPUs; every tenant owns 3/16 of the racks whole, 1/16 as nodes."""
    chain = Chain(("gpu", "socket", "node", "rack"), (4, 2, 16), racks)
    owned = {"rack": 3 * racks // 16, "node": racks}
    return ClusterSpec({"c": chain}, {t: {"c": owned} for t in TENANTS})


def mixed_cluster(racks: int) -> ClusterSpec:
    """Racks of 8 nodes; every tenant owns 3/16 of the racks, 1/32 as nodes, 1/32 as sockets."""
    chain = Chain(("gpu", "pair", "socket", "node", "rack"), (2, 2, 2, 8), racks)
    owned = {"rack": 3 * racks // 16, "node": racks // 4, "socket": racks // 2}
    return ClusterSpec({"c": chain}, {t: {"c": owned} for t in TENANTS})


def mixed(racks: int, seed: int) -> dict[str, int]:
    """Return partly used nodes at two thirds, and GPUs in use when all have been requested.

    Groups come and none ends: pods of 1 to 8 GPUs, more often small ones, and one gang of 8 pods of
    8 GPUs in fifty groups.
    """
    cluster, rng = CellCluster(mixed_cluster(racks)), np.random.default_rng(seed)
    gpus = racks * 64
    figures = {"gpus": gpus, "refused": 0, "in_use": 0}
    used: Counter[str] = Counter()
    wanted = 0
    while wanted < gpus:
        gang = rng.random() < 0.02
        members = GANG if gang else (1, int(rng.choice(_MIXED)))
        tenant = TENANTS[int(rng.integers(len(TENANTS)))]
        group = AffinityGroup(f"g{wanted}", tenant, [members])
        wanted += group.leaves
        decision = cluster.schedule(group)
        if decision.outcome != "bind":
            figures["refused"] += 1
            continue
        cluster.commit(decision)
        figures["in_use"] += group.leaves
        for pod in decision.placement:
            used[pod.node] += len(pod.leaf_indices)
        if "partly_used" not in figures and figures["in_use"] >= 2 / 3 * gpus:
            figures["partly_used"] = sum(held < 8 for held in used.values())
    return figures


@dataclass
class Tally:
    """Counts of what happened."""

    guaranteed: int = 0  # admitted groups
    guaranteed_gpus: int = 0  # their GPUs
    evicting: int = 0  # of those, groups with victims
    evicted: int = 0  # groups
    evicted_gpus: int = 0
    refused: int = 0


class Traffic:
    """Groups that come and go on a cluster; victims leave and the group is retried.

    A group has 1, 1, 1, 2 or 4 pods of 1, 2, 4, 8 or 8 GPUs, or is a gang of 8 pods of 8 GPUs. It
    is opportunistic with probability ``share``.
    """

    def __init__(self, cluster: CellCluster, seed: int, share: float, gangs: float = 0.0) -> None:
        self.cluster, self.share, self.gangs = cluster, share, gangs
        chain = cluster.spec.chains["c"]
        self.gpus = chain.roots * int(np.prod(chain.fanouts))
        self.rng = np.random.default_rng(seed)
        self.tally = Tally()
        self.live: dict[str, AffinityGroup] = {}
        self.used = self.number = 0

    def request(self) -> AffinityGroup:
        rng = self.rng
        members = (int(rng.choice(_PODS)), int(rng.choice(_GPUS)))
        if rng.random() < self.gangs:
            members = GANG
        tenant = TENANTS[int(rng.integers(len(TENANTS)))]
        self.number += 1
        priority = -1 if rng.random() < self.share else 0
        return AffinityGroup(f"g{self.number}", tenant, [members], priority=priority)

    def end(self, name: str) -> None:
        self.cluster.release(name)
        self.used -= self.live.pop(name).leaves

    def end_one(self) -> None:
        names = list(self.live)
        self.end(names[int(self.rng.integers(len(names)))])

    def admit(self, group: AffinityGroup) -> None:
        """Start the group, if possible; its victims leave."""
        tally = self.tally
        decision = self.cluster.schedule(group)
        evicts = bool(decision.victims)
        for _ in range(_MOST_ROUNDS):
            if not decision.victims:
                break
            tally.evicted += len(decision.victims)
            for victim in decision.victims:
                tally.evicted_gpus += self.live[victim].leaves
                self.end(victim)
            decision = self.cluster.schedule(group)
        if decision.outcome != "bind":
            tally.refused += 1
            return
        self.cluster.commit(decision)
        self.live[group.name] = group
        self.used += group.leaves
        if group.priority >= 0:
            tally.guaranteed += 1
            tally.guaranteed_gpus += group.leaves
            tally.evicting += evicts

    def churn(self, load: float, requests: int) -> Tally:
        """Add groups; while the load is exceeded, a random group ends."""
        for _ in range(requests):
            while self.used > load * self.gpus:
                self.end_one()
            self.admit(self.request())
        return self.tally

    def packing(self) -> dict[str, float]:
        """Return the numbers of partly used and idle nodes, and racks per gang."""
        chain = self.cluster.spec.chains["c"]
        node = chain.levels.index("node")
        nodes = chain.roots * int(np.prod(chain.fanouts[node:]))
        used: Counter[str] = Counter()
        racks = []
        for name, group in self.live.items():
            placement = self.cluster.group(name).placement
            for pod in placement:
                used[pod.node] += len(pod.leaf_indices)
            if (group.pods, group.sizes[0]) == GANG:
                numbers = (int(pod.node.split("/")[-1]) for pod in placement)
                racks.append(len({number // chain.fanouts[node] for number in numbers}))
        return {
            "nodes": nodes,
            "partly_used": sum(gpus < 8 for gpus in used.values()),
            "idle": nodes - len(used),
            "gangs": len(racks),
            "racks_per_gang": float(np.mean(racks)) if racks else 0.0,
        }
