"""The simulator's cells with lending, decided by `CellCluster`: jobs as affinity groups."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.sim import Workload
from hivecore.sim.engine import run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells
from hivecore.sim.workload import CHAIN, FANOUTS, LEVELS

_LATER = 1e-6  # seconds, beyond rounding


@dataclass(frozen=True)
class Held:
    """What one job holds."""

    id: int
    name: str
    preempted: "tuple[Held, ...]" = field(default=(), compare=False)


class Groups:
    """Virtual clusters of node cells, as `Cells`, with a group per job."""

    shared = False

    def __init__(self, work: Workload, evictions: Literal["packing", "least"]) -> None:
        tenants = work.trace.tenants
        owned = zip(tenants, work.nodes, strict=True)
        chain = Chain(levels=LEVELS, fanouts=FANOUTS, roots=sum(work.nodes))
        spec = ClusterSpec({CHAIN: chain}, {name: {CHAIN: {LEVELS[-1]: n}} for name, n in owned})
        self.cluster = CellCluster(spec, evictions=evictions)
        self.groups = [
            AffinityGroup(str(job), tenants[tenant], [(int(pods), 1 << int(level - 1))])
            for job, tenant, pods, level in zip(
                range(work.trace.jobs), work.trace.tenant, work.cells, work.level, strict=True
            )
        ]

    def fits(self, job: int) -> bool:
        return self.cluster.schedule(self.groups[job]).outcome != "wait"

    def try_start(self, job: int) -> tuple[Held, ...] | None:
        gone: list[Held] = []
        decision = self.cluster.schedule(self.groups[job])
        while decision.victims:
            for victim in decision.victims:
                self.cluster.release(victim)
                gone.append(Held(int(victim.split()[0]), victim))
            decision = self.cluster.schedule(self.groups[job])
        if decision.outcome == "wait":
            assert not gone, "whose victims have gone has a place"
            return None
        self.cluster.commit(decision)
        return (Held(job, str(job), tuple(gone)),)

    def try_borrow(self, job: int) -> tuple[Held, ...] | None:
        name = f"{job} borrows"  # its own cells are asked for under the other name meanwhile
        decision = self.cluster.schedule(self.groups[job].replace(name=name, priority=-1))
        if decision.outcome == "wait":
            return None
        self.cluster.commit(decision)
        return (Held(job, name),)

    def finish(self, job: int, placement: tuple[Held, ...]) -> None:
        for held in placement:
            self.cluster.release(held.name)

    def free_gpus(self) -> tuple[int, int]:
        """Not asked for: no sample is taken."""
        raise NotImplementedError


def lending(work: Workload) -> list[dict[str, Any]]:
    """Evictions and delays when waiting jobs run on idle cells, per way to decide."""
    never = np.array([])
    ways: dict[str, Callable[[], Any]] = {
        "cells": lambda: Cells(work),
        "groups, packing": lambda: Groups(work, "packing"),
        "groups, least evictions": lambda: Groups(work, "least"),
    }
    rows = []
    for name, made in ways.items():
        alone = run(work, made(), never).start  # each tenant as in a cluster of its own
        outcome = run_opportunistic(work, made(), never)
        delay = (outcome.start - work.trace.submit) / 60.0
        borrowing = outcome.borrowing
        assert borrowing is not None
        rows.append(
            {
                "policy": name,
                "jobs": work.trace.jobs,
                "evicted_runs": borrowing.preemptions,
                "lost_gpu_hours": borrowing.lost_gpu_hours,
                "useful_gpu_hours": borrowing.gpu_hours,
                "mean_delay_minutes": float(delay.mean()),
                "p99_delay_minutes": float(np.percentile(delay, 99)),
                "mean_delay_alone_minutes": float((alone - work.trace.submit).mean() / 60.0),
                "later_than_alone": int((outcome.start - alone > _LATER).sum()),
            }
        )
    return rows
