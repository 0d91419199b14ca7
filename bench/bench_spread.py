"""What it costs, and brings, to keep the pods of a gang apart or even between racks.

    python bench/bench_spread.py [--smoke] [--out DIR]

The jobs of a cluster of Microsoft ITP, as one tenant, on nodes of 8 GPUs, three or four in a rack.
A job of more than 4 GPUs is a gang with pods of 4, the others have a pod.

wait            until the start, of all jobs and of gangs
racks           in which a gang is, a mean
on a node       the part of a gang's pods that is lost with its fullest node, a mean
in a rack       the same of its fullest rack
uneven          the pods in the fullest rack over an even share, of gangs in several racks, a mean
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from harness import ITP, command_line, save
from onlooker import Onlooker

from hivecore.scheduler import Action, Job, Role, Scheduler, Start, Where
from hivecore.sim import simulate
from hivecore.topology import NetworkTopology
from hivecore.traces import generate, load

GPUS, POD, LOAD = 8, 4, 0.6
WAYS = ("near each other", "even between racks", "half in a rack", "a pod on a node")


class Places(Onlooker):
    """A world that notes where gangs start."""

    def __init__(self, racks: Mapping[str, str]) -> None:
        self._racks = racks
        self.gangs: list[tuple[Counter[str], Counter[str]]] = []

    def obey(self, actions: Sequence[Action], now: float) -> None:
        for start in actions:
            if isinstance(start, Start) and len(start.pods) > 1:
                nodes = Counter(pod.node for pod in start.pods)
                racks = Counter(self._racks[pod.node] for pod in start.pods)
                self.gangs.append((nodes, racks))


def job_of(number: int, gpus: int, way: str) -> Job:
    pods = -(-gpus // POD)
    role, where = Role("w", pods, gpus=min(gpus, POD)), Where()
    if pods > 1 and way == "even between racks":
        where = Where(balance="rack")
    elif pods > 1 and way == "half in a rack":
        where = Where(per_domain={"rack": -(-pods // 2)})
    elif pods > 1 and way == "a pod on a node":
        role = role.replace(per_node=1)
    return Job(f"j{number}", "all", [role], where=where)


def run(trace: Any, nodes: int, rack: int, way: str) -> dict[str, float]:
    racks = {f"n{i}": f"r{i // rack}" for i in range(nodes)}
    network = NetworkTopology(["rack"], {node: {"rack": of} for node, of in racks.items()})
    for node in network.nodes:
        network.set_free(node, {"gpu": GPUS})
    scheduler = Scheduler(topology=network, immediate=True)
    jobs = [job_of(i, gpus, way) for i, gpus in enumerate(trace.gpus.tolist())]
    submit, world = (trace.submit - trace.submit.min()).tolist(), Places(racks)
    out = simulate(scheduler, jobs, submit, trace.duration.tolist(), world)
    wait = (out.start - np.array(submit)) / 60
    several = [of for _, of in world.gangs if len(of) > 1]
    return {
        "mean_wait_min": float(wait.mean()),
        "p99_wait_min": float(np.percentile(wait, 99)),
        "mean_wait_of_gangs_min": float(wait[trace.gpus > POD].mean()),
        "racks": float(np.mean([len(of) for _, of in world.gangs])),
        "on_a_node": float(np.mean([max(of.values()) / of.total() for of, _ in world.gangs])),
        "in_a_rack": float(np.mean([max(of.values()) / of.total() for _, of in world.gangs])),
        "uneven": float(np.mean([max(of.values()) * len(of) / of.total() for of in several])),
        "in_several_racks": len(several) / len(world.gangs),
    }


def main() -> int:
    arguments = command_line(__doc__)
    rows: list[dict[str, Any]] = []
    for path in ITP[1:2] if arguments.smoke else ITP[1:3]:
        is_there = path.is_file()
        trace = load([str(path)], "itp") if is_there else generate({"all": 16}, jobs=400, seed=0)
        trace = trace.select(np.arange(len(trace.gpus)) < (200 if arguments.smoke else 3000))
        span = float(trace.submit.max() - trace.submit.min())
        needed = float((trace.gpus * trace.duration).sum()) / span / GPUS / LOAD
        least = max(round(needed), -(-int(trace.gpus.max()) // POD))
        for rack in (3, 4):
            nodes = rack * -(-least // rack)
            for way in WAYS:
                about = {"trace": path.stem if is_there else "generated", "nodes": nodes}
                about |= {"load": LOAD, "rack": rack, "way": way, "jobs": len(trace.gpus)}
                rows.append(about | run(trace, nodes, rack, way))
                print(rows[-1], flush=True)
    save(arguments, "spread", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
