"""Which jobs guaranteed work evicts, and how well nodes are packed, compared with HiveD.

    python bench/bench_evictions.py [--smoke] [--out DIR]

churn      1,024 GPUs, four tenants that own all of them as rows, racks and nodes; groups come, some
           of them opportunistic, and while the load is exceeded a random group ends; victims leave
           and the group is retried. How many guaranteed groups evict others, and how many groups
           and GPUs are evicted, for each way to weigh evictions
packing    two thirds of 8,192 and 65,536 GPUs in use, no opportunistic work, one group in fifty a
           gang of 8 pods of 8 GPUs, after many groups: partly used nodes, racks per gang
mixed      pods of 1 to 8 GPUs and some gangs fill clusters whose tenants own racks, nodes and half
           nodes: partly used nodes at two thirds of the GPUs, and GPUs in use when as many have
           been requested as there are

Decisions are deterministic, so the figures are the same on every machine. HiveD's figures are from
its Go code (microsoft/hivedscheduler, commit 66f26ac) with the same requests in another run, phase
"Filtering"; it names the victims of one node at a time, so it is called until it binds.
"""

import sys
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
from evictions import Traffic, large_cluster, mixed, small_cluster
from harness import command_line, save, show

from hivecore.cells import CellCluster
from hivecore.cells.affinity_group import Evictions

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
        figures[name] = sum(getattr(tally, name) for tally in tallies)
    return figures


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


def main() -> int:
    arguments = command_line(__doc__)
    small = arguments.smoke
    loads = (0.66,) if small else LOADS
    churns = []
    for load, share in product(loads, SHARES):
        size = (1, 200) if small else (4, 2000)
        rows = [churn(load, share, *size, way) for way in ("packing", "least", "private")]
        if not small:
            names = ("guaranteed", "evicting", "evicted", "guaranteed_gpus", "evicted_gpus")
            rows[0]["hived"] = dict(zip(names, HIVED_CHURN[load, share], strict=True))
        show(rows, "churn")
        churns += rows
    sizes = ((16, 1, 200),) if small else ((64, 6, 4000), (512, 1, 16_000))
    packed = [packing(*size) for size in sizes]
    mixtures = [mixture(*size) for size in (((16, 1),) if small else ((128, 6), (1024, 1)))]
    if not small:
        for rows, theirs in ((packed, HIVED_PACKING), (mixtures, HIVED_MIXED)):
            for row in rows:
                row["hived"] = theirs[row["gpus"]]
    show({"packing": packed, "mixed": mixtures})
    save(arguments, "evictions", {"churn": churns, "packing": packed, "mixed": mixtures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
