"""Which jobs guaranteed work evicts, and how well nodes are packed, compared with HiveD.

    python bench/bench_evictions.py [--smoke] [--out DIR]

churn      1,024 GPUs, four tenants that own all of them as rows, racks and nodes; groups come, some
           of them opportunistic, and while the load is exceeded a random group ends; victims leave
           and the group is retried. How many guaranteed groups evict others, and how many groups
           and GPUs are evicted, for each way to weigh evictions
filling    an empty cluster of 8,192 GPUs to two thirds, a quarter of the groups opportunistic
packing    two thirds of 8,192 and 65,536 GPUs in use, no opportunistic work, one group in fifty a
           gang of 8 pods of 8 GPUs, after many groups: partly used nodes, racks per gang
mixed      pods of 1 to 8 GPUs and some gangs fill clusters whose tenants own racks, nodes and half
           nodes: partly used nodes at two thirds of the GPUs, and GPUs in use when as many have
           been requested as there are
preemption the churn with three priorities, and with lazy groups: how many groups name further
           victims when they are retried after their victims have left
waiting    small clusters with bad, excluded and partly used nodes, compared with all possible
           answers: groups that wait although they fit, and groups that evict although they fit
           without evictions and want the fewest
lending    five clusters of Microsoft ITP as five tenants of one; waiting jobs run on idle cells,
           from which their owners evict them (skipped without the trace; --smoke: a generated
           trace): evicted runs, their GPU-hours, delays, and jobs that start later than in private
           clusters without lending

Decisions are deterministic, so the figures are the same on every machine. HiveD's figures are from
its Go code (microsoft/hivedscheduler, commit 66f26ac) with the same requests in another run, phase
"Filtering"; it names the victims of one node at a time, so it is called until it binds.
"""

import sys
from collections import Counter
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from evictions import Traffic, large_cluster, mixed, small_cluster
from harness import ITP, command_line, save
from lending import lending

from hivecore import traces
from hivecore._cells import GroupScheduler
from hivecore.cells import CellCluster
from hivecore.cells.affinity_group import Evictions
from hivecore.sim import Workload, own_nodes

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from cells.groups.group_ways import answers_among_bad_nodes

LOADS = (0.5, 0.66, 0.8, 0.95)
SHARES = (0.25, 0.5)

# (load, share) -> guaranteed groups, of those evicting, groups evicted, GPUs of the guaranteed
# groups, GPUs evicted; 4 seeds x 2,000 requests
HIVED_CHURN = {
    (0.5, 0.25): (5945, 14, 17, 50424, 220),
    (0.5, 0.5): (4007, 10, 12, 33823, 196),
    (0.66, 0.25): (5999, 88, 142, 48982, 1752),
    (0.66, 0.5): (4046, 124, 230, 33417, 2716),
    (0.8, 0.25): (5864, 367, 623, 47357, 6571),
    (0.8, 0.5): (4063, 392, 713, 33266, 8801),
    (0.95, 0.25): (4323, 874, 1471, 24227, 9024),
    (0.95, 0.5): (3537, 1264, 2619, 24967, 16626),
}
HIVED_FILLING = 0  # groups evicted
# GPUs -> means over 6 seeds, and of one run
HIVED_PACKING = {
    8_192: {"partly_used": 47.8, "idle": 319.7, "racks_per_gang": 5.90},
    65_536: {"partly_used": 90.0, "idle": 2699.0, "racks_per_gang": 5.74},
}
# GPUs -> means over 6 seeds, and of one run, that was ended at two thirds
HIVED_MIXED: dict[int, dict[str, float]] = {
    8_192: {"partly_used": 19.7, "in_use": 7353.3, "refused": 80.8},
    65_536: {"partly_used": 37.0},
}


def churn(
    load: float,
    share: float,
    seeds: int,
    requests: int,
    evictions: Evictions,
) -> dict[str, Any]:
    tallies = [
        Traffic(CellCluster(small_cluster(), evictions=evictions), seed, share).churn(
            load, requests
        )
        for seed in range(seeds)
    ]
    figures: dict[str, Any] = {"load": load, "share": share, "seeds": seeds, "requests": requests}
    figures["evictions"] = evictions
    for name in asdict(tallies[0]):
        values = [getattr(tally, name) for tally in tallies]
        if name.endswith("by_shape"):
            figures[name] = {
                shape: sum(counter[shape] for counter in values) for shape in sorted(values[0])
            }
        else:
            figures[name] = sum(values)
    return figures


def filling(racks: int) -> dict[str, Any]:
    traffic = Traffic(CellCluster(large_cluster(racks)), 0, 0.25)
    tally = traffic.fill(2 / 3)
    return {"gpus": traffic.gpus, "evicted": tally.evicted, "groups": len(traffic.live)}


def packing(racks: int, seeds: int, requests: int) -> dict[str, Any]:
    results = []
    for seed in range(seeds):
        traffic = Traffic(CellCluster(large_cluster(racks)), seed, 0.0, gangs=0.02)
        traffic.churn(2 / 3, requests)
        results.append(traffic.packing())
    means = {name: float(np.mean([each[name] for each in results])) for name in results[0]}
    return {"gpus": racks * 128, "seeds": seeds, "requests": requests, **means}


def mixture(racks: int, seeds: int) -> dict[str, float]:
    results = [mixed(racks, seed) for seed in range(seeds)]
    return {"seeds": seeds} | {
        name: float(np.mean([each[name] for each in results])) for name in results[0]
    }


def preemption(lazy: float, seeds: int, requests: int) -> dict[str, Any]:
    wanted = second = 0
    for seed in range(seeds):
        cluster = CellCluster(small_cluster())
        traffic = Traffic(cluster, seed, SHARES[seed % 2], priorities=3, lazy=lazy)
        tally = traffic.churn((0.66, 0.8, 0.95, 0.99)[seed % 4], requests)
        wanted += tally.asked_again
        second += tally.second_victims
    return {"lazy": lazy, "seeds": seeds, "asked_again": wanted, "second_victims": second}


def waiting(histories: int) -> dict[str, int]:
    figures = Counter(histories=histories)
    for seed in range(histories):
        for answer in answers_among_bad_nodes(GroupScheduler, seed, 40):
            if answer.priority > 0:
                continue
            verdicts = (answer.waits_though_it_fits, answer.evicts_though_it_fits)
            figures["groups"] += 1
            figures["gangs"] += answer.pods > 1
            figures["wait_though_they_fit"] += verdicts[0] is True
            figures["evict_though_they_fit"] += verdicts[1] is True
            figures["too_many_ways_to_try"] += None in verdicts
    return dict(figures)


def itp() -> Workload:
    trace = traces.load([str(path) for path in ITP], "itp")
    return Workload.of(trace, own_nodes(trace, 1.3))


def generated() -> Workload:
    nodes = {"speech": 8, "vision": 8}
    return Workload.of(traces.generate(nodes, jobs=500, seed=0), nodes)


def percent(evicting: int, guaranteed: int) -> str:
    return f"{100 * evicting / max(1, guaranteed):.2f} %"


def main() -> int:
    arguments = command_line(__doc__)
    small = arguments.smoke
    loads = (0.66,) if small else LOADS
    churns = []
    print(
        "churn: guaranteed groups that evict, groups evicted; the same by least evictions, and in "
        "the nodes of a private cluster (HiveD)"
    )
    for load, share in product(loads, SHARES):
        size = (1, 200) if small else (4, 2000)
        row = churn(load, share, *size, "packing")
        least = churn(load, share, *size, "least")
        private = churn(load, share, *size, "private")
        churns += [row, least, private]
        line = f"  load {load:.0%}, {share:.0%} opportunistic: " + "; ".join(
            f"{percent(each['evicting'], each['guaranteed'])}, {each['evicted']:,} groups"
            for each in (row, least, private)
        )
        if not small:
            theirs = HIVED_CHURN[load, share]
            line += f" ({percent(theirs[1], theirs[0])}, {theirs[2]:,})"
            names = ("guaranteed", "evicting", "evicted", "guaranteed_gpus", "evicted_gpus")
            row["hived"] = dict(zip(names, theirs, strict=True))
        print(line)
    filled = filling(16 if small else 64)
    print(f"filling {filled['gpus']:,} GPUs: {filled['evicted']} groups evicted ({HIVED_FILLING})")
    sizes = ((16, 1, 200),) if small else ((64, 6, 4000), (512, 1, 16_000))
    packed = [packing(*size) for size in sizes]
    for row in packed:
        line = (
            f"packing {row['gpus']:,} GPUs: {row['partly_used']:.1f} of {row['nodes']:,.0f} "
            f"nodes partly used, {row['racks_per_gang']:.2f} racks per gang"
        )
        if not small:
            peer = HIVED_PACKING[row["gpus"]]
            line += f" ({peer['partly_used']:.1f}, {peer['racks_per_gang']:.2f})"
            row["hived"] = peer
        print(line)
    mixtures = [mixture(*size) for size in (((16, 1),) if small else ((128, 6), (1024, 1)))]
    for row in mixtures:
        if not small:
            row["hived"] = HIVED_MIXED[row["gpus"]]
        print(
            f"mixed {row['gpus']:,.0f} GPUs: {row['partly_used']:.1f} nodes partly used at two "
            f"thirds; all asked for, {row['in_use']:,.0f} in use, {row['refused']:.1f} groups wait"
        )
    preempted = [preemption(lazy, *((2, 200) if small else (240, 2000))) for lazy in (0.0, 0.3)]
    for row in preempted:
        print(
            f"preemption, {row['lazy']:.0%} lazy: {row['second_victims']} of "
            f"{row['asked_again']:,} groups name other victims when retried"
        )
    waited = waiting(40 if small else 1100)
    print(
        f"waiting: {waited['wait_though_they_fit']} of {waited['groups']:,} groups wait "
        f"though they fit ({waited['gangs']:,} are gangs), "
        f"{waited['evict_though_they_fit']} evict though they fit without"
    )
    lent = lending(generated() if small else itp()) if small or ITP[0].is_file() else []
    print("lending:" if lent else f"lending: skipped, there is no {ITP[0]}")
    for row in lent:
        print(
            f"  {row['evictions']}: {row['evicted_runs']:,} runs evicted, "
            f"{row['lost_gpu_hours']:,.0f} GPU-hours lost; delay {row['mean_delay_minutes']:,.0f} "
            f"minutes (p99 {row['p99_delay_minutes']:,.0f}); {row['later_than_alone']} of "
            f"{row['jobs']:,} jobs later than alone"
        )
    save(
        arguments,
        "evictions",
        {
            "churn": churns,
            "filling": filled | {"hived": HIVED_FILLING},
            "packing": packed,
            "mixed": mixtures,
            "preemption": preempted,
            "waiting": waited,
            "lending": lent,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
