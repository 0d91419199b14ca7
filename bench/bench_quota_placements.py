"""How much a quota of GPUs delays jobs, for several placements.

    python bench/bench_quota_placements.py [--smoke] [--out DIR]

The jobs are those of README's example (five clusters of Microsoft ITP as five tenants of one), and
generated ones. Under a quota a tenant may hold as many GPUs as it owns, on any nodes; a job of up
to 8 GPUs goes to one node, a larger one to entirely free nodes. Among the possible nodes the
placement chooses: that of `hivecore.sim`, or a rule on the nodes' free GPUs. For each, the jobs
that start later than in their tenants' private clusters, and by how much; likewise for cells,
without and with lending. The traces are in the folder HIVECORE_TRACES, by default `shared/traces`
beside the checkout; without them only the generated trace is used.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from harness import ITP, command_line, save, show
from tenant_loops import Quota, run

from hivecore.sim import BACKFILL, LENDING, Workload, own_nodes, replay
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.traces import generate, load

GENERATED_NODES = {"vision": 10, "search": 14, "speech": 8, "ads": 16, "robots": 6}
ROUNDING = 1e-6

# (free GPUs of a node, its number) -> a cost; the node with the least is taken.
Rule = Callable[[int, int], Any]


class ByNode:
    """A quota that places jobs by a rule on nodes."""

    shared = True

    def __init__(self, work: Workload, rule: Rule) -> None:
        self.rule = rule
        self.free = [GPUS_PER_NODE] * sum(work.nodes)
        self.left = [GPUS_PER_NODE * nodes for nodes in work.nodes]
        self.placed: dict[int, list[int]] = {}
        self.tenant, self.held = work.trace.tenant.tolist(), work.held.tolist()

    def try_start(self, job: int) -> bool:
        held = self.held[job]
        if held > self.left[self.tenant[job]]:
            return False
        nodes, each = -(-held // GPUS_PER_NODE), min(held, GPUS_PER_NODE)
        fitting = [node for node, free in enumerate(self.free) if free >= each]
        if len(fitting) < nodes:
            return False
        fitting.sort(key=lambda node: self.rule(self.free[node], node))
        self.left[self.tenant[job]] -= held
        self.placed[job] = fitting[:nodes]
        for node in fitting[:nodes]:
            self.free[node] -= each
        return True

    def finish(self, job: int) -> None:
        held = self.held[job]
        self.left[self.tenant[job]] += held
        for node in self.placed.pop(job):
            self.free[node] += min(held, GPUS_PER_NODE)


def placements(seeds: int) -> dict[str, Callable[[Workload], Any]]:
    rules: dict[str, Rule] = {
        "first fit": lambda free, node: node,
        "best fit": lambda free, node: (free, node),
        "worst fit (spread)": lambda free, node: (-free, node),
    }
    for seed in range(seeds):
        rules[f"best fit, ties at random, seed {seed}"] = at_random(seed, packed=True)
    for seed in range(seeds):
        rules[f"any node at random, seed {seed}"] = at_random(seed, packed=False)
    return {name: lambda work, rule=rule: ByNode(work, rule) for name, rule in rules.items()}


def at_random(seed: int, packed: bool) -> Rule:
    draw = Random(seed).random
    return lambda free, node: (free if packed else 0, draw())


def measure(name: str, work: Workload, seeds: int) -> list[dict[str, Any]]:
    runs = replay(work, ["quota", "cells", LENDING, BACKFILL]).runs
    private = runs["private"].start
    starts = {"private clusters": private, "hivecore": runs["quota"].start}
    assert starts["hivecore"].tolist() == run(work, Quota(work))
    for placement, make in placements(seeds).items():
        starts[placement] = np.array(run(work, make(work)))
    starts["backfill"] = runs[BACKFILL].start
    starts["cells"] = runs["cells"].start
    starts["cells, lending"] = runs[LENDING].start
    figures = []
    for placement, start in starts.items():
        excess = start - private
        late = excess[excess > ROUNDING]
        row = {
            "trace": name,
            "placement": placement,
            "jobs": work.trace.jobs,
            "later": len(late),
            "mean_hours": float(late.mean()) / 3600 if len(late) else 0.0,
            "max_hours": float(late.max()) / 3600 if len(late) else 0.0,
            "mean_delay_minutes": float((start - work.trace.submit).mean()) / 60,
        }
        show(row)
        figures.append(row)
    return figures


if __name__ == "__main__":
    arguments = command_line(__doc__)
    jobs, seeds = (1_000, 1) if arguments.smoke else (12_000, 3)
    generated = generate(GENERATED_NODES, jobs=jobs, seed=3, load=1.1)
    rows = measure("demo", Workload.of(generated, GENERATED_NODES), seeds)
    if not arguments.smoke and all(path.is_file() for path in ITP):
        trace = load([str(path) for path in ITP], "itp")
        rows += measure("itp", Workload.of(trace, own_nodes(trace, 1.3)), seeds)
    save(arguments, "quota_placements", rows)
