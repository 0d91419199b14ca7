"""Device claims: hard questions of one node, and a cluster of nodes.

hard       instances on which a search device by device does not end: the kernel's answer, cold;
           beside it the readable twin, which is such a search, and HiGHS through SciPy, each with a
           limit of seconds
pairs      8 GPUs and 8 NICs in pairs by PCIe root, 16 requests, on one node; the twin beside it
cluster    so many nodes of 20 devices: reading, which nodes fit, a node for a claim, filling

Times are CPU seconds, the least of several rounds; of the cluster medians of many calls.
"""

import multiprocessing
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from harness import command_line, cpu_seconds, save, show
from peers.claims_by_milp import solve

from hivecore import _dra
from hivecore.dra import DraCluster, Node, ResourceClaim, ResourceSlice, gather_pools

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from dra.hard_worlds import HARD, pairs, roots
from dra.worlds import EVERY_GATE, World, cluster_of, matches

LIMIT = 2.0  # seconds of a peer
MODES = {"first": 0, "best": 1, "any": 2}


def least(call: Callable[[], Any], rounds: int) -> float:
    return min(cpu_seconds(call) for _ in range(rounds))


def listed(slices: Any) -> list[Any]:
    return slices if isinstance(slices, list) else [slices]


def cold(slices: list[Any], claim: Any, mode: str, rounds: int) -> float:
    """The kernel alone, without answers that are known; names and numbers are there already."""
    cluster = cluster_of(*slices)
    decision = cluster.allocate([claim], "n1", mode)
    assert decision._node_class is not None
    node, kind = decision._node_class.kernel, next(iter(cluster._claim_kinds.values()))
    kernel = kind._claims()

    def search() -> None:
        _dra.search(node, kernel, MODES[mode], 1_000_000, 512)

    return least(search, rounds)


def ask_twin(slices: list[Any], claim: Any) -> None:
    World(*slices).allocate(claim, is_checked=False)


def twin_seconds(slices: list[Any], claim: Any) -> float | None:
    """Of a process of its own, which can be ended."""
    start = multiprocessing.get_context("fork").Process(target=ask_twin, args=(slices, claim))
    start.start()
    start.join(LIMIT)
    if start.is_alive():
        start.terminate()
        start.join()
        return None
    return least(lambda: ask_twin(slices, claim), 1)


def milp_seconds(slices: list[Any], claim: Any, is_served: bool) -> float | None:
    pools = gather_pools([ResourceSlice.of(part) for part in slices], Node("n1"), EVERY_GATE)
    devices = [device for pool in pools for device in pool.devices]
    sets = {name: of for pool in pools for name, of in pool.counter_sets.items()}
    answers: list[bool | None] = []
    seconds = cpu_seconds(
        lambda: answers.append(solve(devices, sets, ResourceClaim.of(claim), matches, LIMIT))
    )
    if answers[0] is None:
        return None
    assert answers[0] == is_served
    return seconds


def hard_figures(names: list[str], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        slices, claim, is_served = HARD[name]
        slices = listed(slices)
        decision = cluster_of(*slices).allocate([claim], "n1")
        assert decision.outcome == ("allocated" if is_served else "unsatisfiable")
        row = {
            "name": name,
            "is served": is_served,
            **{mode: cold(slices, claim, mode, rounds) for mode in MODES},
            "work": decision.work,
            "twin": twin_seconds(slices, claim),
            "HiGHS": milp_seconds(slices, claim, is_served),
        }
        rows.append(row)
        show(row)
    return rows


def pairs_figures(rounds: int) -> dict[str, float]:
    slices, claim = roots(*[(1, 1)] * 8), pairs(8)
    figures = {mode: cold(slices, claim, mode, rounds) for mode in MODES}
    world = World(*slices)
    figures["twin"] = least(lambda: world.allocate(claim, is_checked=False), rounds)
    return figures


# --- a cluster


def nodes_of(number: int) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"n{i:05}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": f"n{i:05}",
                "pool": {"name": f"n{i:05}", "generation": 1, "resourceSliceCount": 1},
                "devices": [device(kind, i, j) for kind, count in kinds for j in range(count)],
            },
        }
        for i in range(number)
        for driver, kinds in (("gpu.x", [("gpu", 8)]), ("net.x", [("nic", 8), ("vf", 4)]))
    ]


def device(kind: str, node: int, number: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "type": {"string": kind},
        "uuid": {"string": f"{kind}-{node}-{number}"},
        "driverVersion": {"version": "550.54.15"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number:02x}"},
    }
    capacity = {"memory": {"value": "80Gi"}} if kind == "gpu" else {}
    return {"name": f"{kind}-{number}", "attributes": attributes, "capacity": capacity}


def a_class(kind: str, driver: str) -> dict[str, Any]:
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": kind},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def a_claim(name: str, count: int = 1, kind: str = "gpu") -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": kind, "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [request]}},
    }


def cluster_figures(number: int) -> dict[str, Any]:
    documents, cluster = nodes_of(number), DraCluster()
    figures: dict[str, Any] = {"nodes": number, "devices": 20 * number}
    figures["read"] = cpu_seconds(lambda: cluster.update(*documents))
    cluster.update(a_class("gpu", "gpu.x"), a_class("nic", "net.x"), a_class("vf", "net.x"))
    figures["first question"] = cpu_seconds(lambda: cluster.fits([a_claim("a")]))
    figures["fits, new kind"] = statistics.median(
        cpu_seconds(lambda n=n: cluster.fits([a_claim("a", n)])) for n in range(2, 8)
    )
    known = [a_claim("a", 2)]
    figures["fits, nothing changed"] = statistics.median(
        cpu_seconds(lambda: cluster.fits(known)) for _ in range(100)
    )
    claims = [a_claim(f"c{i}") for i in range(8 * number)]
    seconds = []

    def fill() -> None:
        for claim in claims:
            begin = process_time()
            decision = cluster.schedule([claim])
            assert decision is not None
            cluster.commit(decision)
            seconds.append(process_time() - begin)
            assert decision.allocations

    figures["fill"] = cpu_seconds(fill)
    figures["claims"] = len(claims)
    figures["schedule and commit"] = statistics.median(seconds)
    assert cluster.schedule([a_claim("one too many")]) is None
    some = range(min(1000, len(claims)))
    figures["release"] = cpu_seconds(lambda: [cluster.release(f"c{i}") for i in some]) / len(some)
    cluster.check()
    figures["many classes"] = classes_figures(min(number, 5_000))
    return figures


def classes_figures(number: int) -> dict[str, Any]:
    """Nodes in 500 states of use: which of the GPUs, NICs and VFs of each are in use."""
    cluster = DraCluster()
    cluster.update(*nodes_of(number))
    cluster.update(a_class("gpu", "gpu.x"), a_class("nic", "net.x"), a_class("vf", "net.x"))
    states = min(500, number)
    for i in range(number):
        state = i % states
        node = f"n{i:05}"
        first = int(state >= 9 * 9 * 5)  # of some nodes the first GPU is free, and others are not
        counts = {"gpu": state % 9, "nic": state // 9 % 9, "vf": state // 81 % 5}
        if first:
            cluster.commit(cluster.allocate([a_claim(f"{node}-first")], node))
            counts["gpu"] = 1 + state % 7
        for kind, count in counts.items():
            if count:
                claim = a_claim(f"{node}-{kind}", count, kind)
                cluster.commit(cluster.allocate([claim], node))
        if first:
            cluster.release(f"{node}-first")
    cluster.fits([a_claim("a")])
    classes = len({id(view.node_class) for view in cluster._views.values()})
    seconds = [cpu_seconds(lambda n=n: cluster.fits([a_claim("a", n)])) for n in (2, 3, 4)]
    return {"nodes": number, "classes": classes, "fits, new kind": statistics.median(seconds)}


def main() -> None:
    arguments = command_line(__doc__)
    small = arguments.smoke
    names = ["32 of 31", "16 x 3g and 1g"] if small else list(HARD)
    hard = hard_figures(names, 1 if small else 5)
    eight = pairs_figures(1 if small else 50)
    show(eight, "pairs")
    cluster = cluster_figures(20 if small else 5_000)
    show(cluster, "cluster")
    save(arguments, "dra", {"hard": hard, "pairs": eight, "cluster": cluster})


if __name__ == "__main__":
    main()
