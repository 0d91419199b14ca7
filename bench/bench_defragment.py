"""The benefit of moving running jobs every hour, and of victims that free whole nodes.

    python bench/bench_defragment.py [--smoke] [--out DIR]

The jobs of a cluster of Microsoft ITP on nodes of 8 GPUs, as one tenant: a job of more than 8 GPUs
is a gang with pods of 8, others have a pod on one node. A move stops a job for two minutes, without
further loss. Where jobs are evicted, three of four are opportunistic, and an evicted job starts
over.

fragments       the idle GPUs that are not in wholly idle nodes, of all GPUs, a mean over time
wait            until the first start; where jobs are evicted, until the run that is completed
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from harness import ITP, command_line, save

from hivecore.scheduler import Action, Fragments, Job, Move, Role, Scheduler
from hivecore.sim import simulate
from hivecore.topology import NetworkTopology
from hivecore.traces import generate, load

HOUR, GPUS, RESTART = 3600.0, 8, 120.0


class Restarts:
    """A world in which a moved job pauses for a while."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}
        self.changed: dict[str, float] = {}
        self.moves, self.lost = 0, 0.0

    def obey(self, actions: Sequence[Action], now: float) -> None:
        for move in actions:
            if isinstance(move, Move):
                self.moves += 1
                self.until[move.job], self.changed[move.job] = now + RESTART, 0.0

    def end(self, job: str, now: float) -> None:
        self.until.pop(job, None)
        self.changed.pop(job, None)

    def speeds(self, now: float) -> Mapping[str, float]:
        for job in [job for job, until in self.until.items() if until <= now]:
            del self.until[job]
            self.changed[job] = 1.0
        changed, self.changed = self.changed, {}
        return changed

    def next_change(self) -> float:
        return min(self.until.values(), default=inf)


def run(trace: Any, nodes: int, every: float, evicts: bool, goal: Fragments | None) -> Any:
    """:param every: seconds between calls of `defragment`, or inf."""
    network = NetworkTopology([], {f"n{i}": {} for i in range(nodes)})
    for node in network.nodes:
        network.set_free(node, {"gpu": GPUS})
    scheduler = Scheduler(topology=network, immediate=True, fragments=goal)
    jobs = []
    for i, gpus in enumerate(trace.gpus.tolist()):
        role = Role("w", -(-gpus // GPUS), gpus=min(gpus, GPUS))
        jobs.append(Job(f"j{i}", "all", [role], guaranteed=not evicts or i % 4 == 0))
    world, samples, due = Restarts(), [], every

    def watch(now: float, come: int) -> float:
        nonlocal due
        free = [int(number) for number in network.free_by_node("gpu").values()]
        samples.append(sum(n for n in free if n < GPUS) / (GPUS * nodes))
        if now >= due:
            due = now + every
            terms = {"restart_cost": RESTART, "most_moves": 16}
            scheduler.defragment(now, Fragments(), seconds=HOUR, **terms)
        return now + HOUR / 6

    submit = (trace.submit - trace.submit.min()).tolist()
    out = simulate(
        scheduler, jobs, submit, trace.duration.tolist(), None if evicts else world, watch
    )
    wait = (out.start - np.array(submit)) / 60
    return {
        "fragments": float(np.mean(samples)),
        "mean_wait_min": float(wait.mean()),
        "p99_wait_min": float(np.percentile(wait, 99)),
        "mean_wait_of_whole_nodes_min": float(wait[trace.gpus >= GPUS].mean()),
        "mean_completion_min": float((out.end - np.array(submit)).mean() / 60),
        "moves": world.moves,
        "evictions": int(out.preemptions.sum()),
        "lost_gpu_hours": float((out.lost * trace.gpus).sum() / HOUR),
    }


def main() -> int:
    arguments = command_line(__doc__)
    rows: list[dict[str, Any]] = []
    ways = (
        ("as they come", inf, False, None),
        ("defragment every hour", HOUR, False, None),
        ("evictions", inf, True, None),
        ("evictions, fewest fragments", inf, True, Fragments()),
    )
    for path in ITP[1:2] if arguments.smoke else ITP[1:3]:
        is_there = path.is_file()
        trace = load([str(path)], "itp") if is_there else generate({"all": 16}, jobs=400, seed=0)
        trace = trace.select(np.arange(len(trace.gpus)) < (200 if arguments.smoke else 3000))
        span = float(trace.submit.max() - trace.submit.min())
        for load_of in (0.8,) if arguments.smoke else (0.6, 0.8):
            needed = float((trace.gpus * trace.duration).sum()) / span / GPUS / load_of
            nodes = max(round(needed), -(-int(trace.gpus.max()) // GPUS))
            for name, *way in ways:
                about = {"trace": path.stem if is_there else "generated", "nodes": nodes}
                figures = run(trace, nodes, *way)
                rows.append(
                    about | {"load": load_of, "way": name, "jobs": len(trace.gpus)} | figures
                )
                print(rows[-1], flush=True)
    save(arguments, "defragment", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
