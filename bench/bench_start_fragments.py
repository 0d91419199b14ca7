"""Whether a start on another node would have left fewer fragments.

    python bench/bench_start_fragments.py [--smoke] [--out DIR]

The jobs of Microsoft's ITP and Philly clusters, as one tenant, on nodes of 8 GPUs, four in a rack,
at a load of 0.8, as they come: each start of a job with a pod of less than a node is compared with
the starts on all other nodes that have room, by two goals: wholly idle nodes, and the pods to come,
of which every thirtieth of the trace is a sample (FGD's measure).

better          the starts to which another node would have left more GPUs of use
gain            how many more, a mean over all starts
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from harness import ITP, TRACES, command_line, save
from onlooker import Onlooker

from hivecore.scheduler import Action, Fragments, Job, PlacedPod, Role, Scheduler, Start
from hivecore.sim import simulate
from hivecore.topology import NetworkTopology
from hivecore.traces import generate, load

GPUS, RACK, LOAD = 8, 4, 0.8
PHILLY = TRACES / "philly" / "jobs.csv"


class Starts(Onlooker):
    """A world that compares starts with others."""

    def __init__(self, network: NetworkTopology, gpus: Mapping[str, int], goal: Fragments) -> None:
        self._network, self._gpus, self._goal = network, gpus, goal
        self.gains: list[float] = []

    def obey(self, actions: Sequence[Action], now: float) -> None:
        idle = {node: int(n) for node, n in self._network.free_by_node("gpu").items()}
        for start in reversed([action for action in actions if isinstance(action, Start)]):
            gpus = min(self._gpus[start.job], GPUS)
            for pod in start.pods:
                idle[pod.node] += gpus
            if gpus < GPUS:
                self.gains.append(self._gain(idle, start.pods[0], gpus))

    def _gain(self, idle: Mapping[str, int], pod: PlacedPod, gpus: int) -> float:
        """:param idle: as it was before the pod came."""
        best = max(self._usable(idle, node, gpus) for node, n in idle.items() if n >= gpus)
        return best - self._usable(idle, pod.node, gpus)

    def _usable(self, idle: Mapping[str, int], node: str, gpus: int) -> float:
        after = {**idle, node: idle[node] - gpus}
        return self._goal.usable(after, (name for name, n in after.items() if n == GPUS))


def run(trace: Any, nodes: int, goal: Fragments) -> dict[str, float]:
    network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // RACK}"} for i in range(nodes)})
    for node in network.nodes:
        network.set_free(node, {"gpu": GPUS})
    gpus = {f"j{i}": number for i, number in enumerate(trace.gpus.tolist())}
    jobs = [
        Job(name, "all", [Role("w", -(-number // GPUS), gpus=min(number, GPUS))])
        for name, number in gpus.items()
    ]
    submit, world = (trace.submit - trace.submit.min()).tolist(), Starts(network, gpus, goal)
    scheduler = Scheduler(topology=network, immediate=True)
    simulate(scheduler, jobs, submit, trace.duration.tolist(), world)
    better = sum(gain > 1e-9 for gain in world.gains)
    return {"starts": len(world.gains), "better": better, "gain": float(np.mean(world.gains))}


def traces(is_smoke: bool) -> Iterator[tuple[str, Any]]:
    files = [(path.stem, "itp", path) for path in ITP] + [("philly", "philly", PHILLY)]
    for name, kind, path in files[:1] if is_smoke else files:
        is_there = path.is_file()
        trace = load([str(path)], kind) if is_there else generate({"all": 16}, jobs=400, seed=0)
        most = 200 if is_smoke else 3000
        yield name if is_there else "generated", trace.select(np.arange(len(trace.gpus)) < most)


def main() -> int:
    arguments = command_line(__doc__)
    rows: list[dict[str, Any]] = []
    for name, trace in traces(arguments.smoke):
        span = float(trace.submit.max() - trace.submit.min())
        needed = float((trace.gpus * trace.duration).sum()) / span / GPUS / LOAD
        nodes = max(round(needed), -(-int(trace.gpus.max()) // GPUS))
        sample = [min(int(gpus), GPUS) for gpus in trace.gpus[::30]]
        for goal, sizes in (("whole nodes", ()), ("pods to come", sample)):
            about = {"trace": name, "nodes": nodes, "goal": goal}
            rows.append(about | run(trace, nodes, Fragments(sizes)))
            print(rows[-1], flush=True)
    save(arguments, "start_fragments", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
