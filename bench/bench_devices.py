"""Devices: all nodes filtered and scored in a call, decisions, gangs, joint choice, memory.

    python bench/bench_devices.py [--smoke] [--out DIR]

filter     10,000 machines of 8 GPUs on 4 switches in random states, nearly all different: can they
           take 4 GPUs, half a GPU, a partition of 4 (H100), 2 GPUs with a NIC on each switch and a
           virtual function of it; per call that has seen none of it, and again; beside what one
           writes in NumPy, which must find the same nodes and scores, and the twin, on some nodes
life       schedule, commit and release of one pod of a request that was seen before, through
           Python; p50 and p99 over many pods, other pods in between
gang       32 pods of 8 GPUs and 8 NICs, on idle machines: decided, then committed, all or none
curve      filter and repeated schedule from 100 to 100,000 nodes
sharing    gpushare: filter and bind, best fit over machines of 8 cards
reserved   pods through reservations of 4 GPUs, of 1,000 that they may use and through one that they
           name; all nodes filtered with these; beside the same without reservations
trial      at 100,000 nodes: an owner is released and 4 GPUs are scheduled, in a trial that undoes
           it, and on a copy
memory     bytes of a node with 8 GPUs and 8 NICs, idle and with four owners
joint      random states of the machines of Koordinator's measured figures: how many requests for 1,
           2 and 4 whole GPUs with whole NICs on the same switches are refused although a choice
           serves them, by exhaustive search; beside Koordinator's greedy choice (`bench/peers/`)

Times are CPU time, the least of several rounds in which the contenders take turns; p50 and p99 are
wall-clock. Koordinator's Go figures that documents name beside these are of another run.
"""

import itertools
import sys
from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, percentiles, save, show, take_turns
from peers.devices_numpy import NumpyDevices
from peers.koordinator_devices import Refusal, place

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    VirtualFunction,
)
from hivecore.reference.devices.choice import Choice, choose
from hivecore.reference.devices.eligible import View
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.score import node_score

GIB = 1 << 30
SIZE = 80 * GIB
FUNCTIONS = 30


class Cluster:
    """Machines in random states, in hivecore and in arrays."""

    def __init__(self, nodes: int, seed: int = 1) -> None:
        rng = Random(seed)
        self.inventory = NodeDevices.uniform(
            8, gpu_memory=SIZE, nics=4, functions=FUNCTIONS, sockets=2, switches=4, model="H100"
        )
        self.names = [f"n{i}" for i in range(nodes)]
        self.ours = DeviceCluster(dict.fromkeys(self.names, self.inventory))
        memory = np.full((nodes, 8), SIZE)
        core = np.full((nodes, 8), 100)
        nics = np.full((nodes, 4), 100)
        functions = np.full((nodes, 4), FUNCTIONS)
        for node, name in enumerate(self.names):
            held = []
            for gpu in range(8):
                draw = rng.random()
                if draw < 0.5:
                    whole = draw < 0.3
                    cores = 100 if whole else rng.randint(1, 60)
                    bytes_ = SIZE if whole else rng.randint(1, 60 * GIB)
                    held.append(DeviceAllocation("gpu", gpu, {"core": cores, "memory": bytes_}))
                    memory[node, gpu] -= bytes_
                    core[node, gpu] -= cores
            for nic in range(4):
                if rng.random() < 0.4:
                    share = rng.choice((100, rng.randint(1, 90)))
                    entry = VirtualFunction(f"{nic:03}:{rng.randrange(FUNCTIONS):03}")
                    held.append(DeviceAllocation("rdma", nic, {"share": share}, entry))
                    nics[node, nic] -= share
                    functions[node, nic] -= 1
            self.ours.recover(f"owner{node}", name, held)
        self.arrays = NumpyDevices(SIZE, memory, core, nics, functions)

    def twin(self, node: int) -> NodeState:
        state = NodeState(self.inventory)
        charges = tuple(
            Charge(
                allocation.type,
                allocation.minor,
                dict(allocation.amounts),
                allocation.function and allocation.function.bus_id,
            )
            for allocation in self.ours.allocations(f"owner{node}")
        )
        state.charge("owner", charges)
        return state


PAIRS = np.array([[i < 4 for i in range(8)], [i >= 4 for i in range(8)]])
REQUESTS: dict[str, tuple[dict[str, Any], Callable[[NumpyDevices], Any]]] = {
    "4 GPUs": ({"gpus": 4}, lambda arrays: arrays.whole(4)),
    "half a GPU": (
        {"gpus": 1, "core": 50, "memory_percent": 50},
        lambda arrays: arrays.share(50),
    ),
    "a partition of 4": (
        {"gpus": 4, "partition": "best-effort"},
        lambda arrays: arrays.partition(PAIRS),
    ),
    "2 GPUs, a NIC and VF on each switch": (
        {
            "gpus": 2,
            "nics": 1,
            "nic_percent": 1,
            "nic_wishes": {"vf_selector": {}},
            "joint": ("gpu", "rdma"),
            "same_pcie": True,
        },
        lambda arrays: arrays.joint(2, 1, True),
    ),
}


def filter_figures(nodes: int, sampled: int, rounds: int) -> dict[str, Any]:
    cluster = Cluster(nodes)
    figures: dict[str, Any] = {"nodes": nodes, "states": cluster.ours._core.states}
    for name, (arguments, peer) in REQUESTS.items():
        request = DeviceRequest("new", **arguments)
        answers: dict[str, Any] = {}

        def fresh(request: DeviceRequest = request, answers: Any = answers) -> float:
            cluster.ours._nodes.queries.forget()  # nothing is known of any request
            return cpu_seconds(lambda: answers.update(ours=cluster.ours.filter(request)))

        def again(request: DeviceRequest = request) -> float:
            return cpu_seconds(lambda: cluster.ours.filter(request))

        def arrays(peer: Any = peer, answers: Any = answers) -> float:
            return cpu_seconds(lambda: answers.update(numpy=peer(cluster.arrays)))

        def twins(request: DeviceRequest = request, answers: Any = answers) -> float:
            states = [cluster.twin(node) for node in range(sampled)]

            def run() -> None:
                answers["twin"] = [
                    node_score(View(state), request, "bin-pack")
                    if isinstance(choose(state, request), Choice)
                    else None
                    for state in states
                ]

            return cpu_seconds(run) * nodes / sampled

        seconds = take_turns({"kernel": fresh, "again": again, "numpy": arrays}, rounds)
        seconds["twin"] = twins()
        result = answers["ours"]
        fits, scores = answers["numpy"]
        assert (result.fits == fits).all()
        assert (result.scores[fits] == scores[fits]).all()
        assert answers["twin"] == [
            int(result.scores[node]) if result.fits[node] else None for node in range(sampled)
        ]
        figures[name] = {"seconds": seconds, "fits": float(fits.mean())}
    return figures


def life_figures(nodes: int, pods: int) -> dict[str, Any]:
    cluster = Cluster(nodes).ours
    rng = Random(2)
    kinds = [
        DeviceRequest("x", gpus=1, core=10, memory_percent=10),
        DeviceRequest("x", gpus=1),
        DeviceRequest("x", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True),
        DeviceRequest("x", gpus=1, memory=GIB),
    ]
    for kind in kinds:
        cluster.schedule(kind)
    decide, whole, running = [], [], []
    for number in range(pods):
        request = rng.choice(kinds).replace(name=f"pod{number}")
        begin = perf_counter()
        decision = cluster.schedule(request)
        middle = perf_counter()
        if decision.outcome == "bind":
            cluster.commit(decision)
            whole.append(perf_counter() - begin)
            decide.append(middle - begin)
            running.append(request.name)
        while len(running) > pods // 4:
            cluster.release(running.pop(rng.randrange(len(running))))
    return {
        "nodes": nodes,
        "pods": len(whole),
        "schedule p50": percentiles(decide)["p50"],
        **{f"schedule and commit {at}": value for at, value in percentiles(whole).items()},
    }


def gang_figures(nodes: int, rounds: int) -> dict[str, Any]:
    inventory = NodeDevices.uniform(8, nics=8, sockets=2, switches=4)
    cluster = DeviceCluster({f"n{i}": inventory for i in range(nodes)})
    kind = DeviceRequest("x", gpus=8, nics=8, joint=("gpu", "rdma"), same_pcie=True)
    gang = [kind.replace(name=f"pod{i}") for i in range(32)]
    cluster.schedule(kind)

    def decide() -> float:
        return cpu_seconds(lambda: cluster.schedule_many(gang))

    def whole() -> float:
        def run() -> None:
            decisions = cluster.schedule_many(gang)
            assert all(decision.outcome == "bind" for decision in decisions)
            cluster.commit_many(decisions)

        seconds = cpu_seconds(run)
        for entry in gang:
            cluster.release(entry.name)
        return seconds

    return {"nodes": nodes, **take_turns({"decide": decide, "decide and commit": whole}, rounds)}


def curve_figures(sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    results = []
    request = DeviceRequest(
        "new", gpus=1, nics=1, nic_percent=1, joint=("gpu", "rdma"), same_pcie=True
    )
    for nodes in sizes:
        cluster = Cluster(nodes).ours

        def fresh(cluster: DeviceCluster = cluster) -> float:
            cluster._nodes.queries.forget()
            return cpu_seconds(lambda: cluster.filter(request))

        def repeated(cluster: DeviceCluster = cluster) -> float:
            cluster.schedule(request)

            def run() -> None:
                for i in range(200):
                    entry = request.replace(name=f"pod{i}")
                    cluster.commit(cluster.schedule(entry))

            seconds = cpu_seconds(run) / 200
            for i in range(200):
                cluster.release(f"pod{i}")
            return seconds

        figures = take_turns({"filter": fresh, "schedule and commit": repeated}, rounds)
        results.append({"nodes": nodes, **figures})
    return results


def sharing_figures(nodes: int, pods: int) -> dict[str, Any]:
    cards = NodeDevices(tuple(Device("gpu", i, {"memory": 16276}) for i in range(8)))
    cluster = DeviceCluster({f"n{i}": cards for i in range(nodes)}, policy="best-fit")
    rng = Random(3)
    kinds = [DeviceRequest("x", gpus=1, memory=size) for size in (1000, 2000, 4069, 8138)]
    for number in range(4 * nodes):
        entry = rng.choice(kinds).replace(name=f"first{number}")
        cluster.allocate(entry, f"n{rng.randrange(nodes)}")
    for kind in kinds:
        cluster.schedule(kind)
    both = []
    for number in range(pods):
        entry = rng.choice(kinds).replace(name=f"pod{number}")
        begin = perf_counter()
        decision = cluster.schedule(entry)
        cluster.commit(decision)
        both.append(perf_counter() - begin)
    return {
        "nodes": nodes,
        **{f"filter and bind {at}": value for at, value in percentiles(both).items()},
    }


def reservation_figures(nodes: int, held: int, rounds: int) -> dict[str, Any]:
    inventory = NodeDevices.uniform(8, nics=4, sockets=2, switches=4)
    cluster = DeviceCluster({f"n{i}": inventory for i in range(nodes)})
    rng = Random(5)
    for node in range(nodes):
        cluster.allocate(DeviceRequest(f"other{node}", gpus=rng.randint(1, 4)), f"n{node}")
    names = [f"held{i}" for i in range(held)]
    for name in names:
        where = rng.sample(range(nodes), 5)
        request = DeviceRequest(name, gpus=4)
        cluster.reserve(cluster.schedule(request, nodes=[f"n{node}" for node in where]))
    pod = DeviceRequest("pod", gpus=2)

    def decision_among(reservations: list[str]) -> Callable[[], float]:
        def run() -> None:
            for _ in range(10):
                cluster.schedule(pod, reservations=reservations)

        return lambda: cpu_seconds(run) / 10

    def life(reservations: list[str]) -> Callable[[], float]:
        def run() -> None:
            for _ in range(100):
                cluster.commit(cluster.schedule(pod, reservations=reservations))
                cluster.release("pod")

        return lambda: cpu_seconds(run) / 100

    def filtered(reservations: list[str]) -> Callable[[], float]:
        def run() -> float:
            cluster._nodes.queries.forget()
            return cpu_seconds(lambda: cluster.filter(pod, reservations=reservations))

        return run

    seconds = take_turns(
        {
            "decide through one": decision_among(names[:1]),
            "decide among all": decision_among(names),
            "life through one": life(names[:1]),
            "life without": life([]),
            "filter with all": filtered(names),
            "filter without": filtered([]),
        },
        rounds,
    )
    decision = cluster.schedule(pod, reservations=names)
    assert decision.reservation in names
    return {"nodes": nodes, "reservations": held, "seconds": seconds}


def trial_figures(nodes: int, rounds: int) -> dict[str, Any]:
    cluster = Cluster(nodes).ours
    request = DeviceRequest("new", gpus=4)
    cluster.schedule(request)

    def attempt(cluster: DeviceCluster) -> None:
        cluster.release("owner0")
        assert cluster.schedule(request).outcome == "bind"

    def in_trials() -> float:
        def run() -> None:
            for _ in range(100):
                with cluster.trial():
                    attempt(cluster)

        return cpu_seconds(run) / 100

    def on_a_copy() -> float:
        return cpu_seconds(lambda: attempt(cluster.copy()))

    seconds = take_turns({"trial": in_trials, "copy": on_a_copy}, rounds)
    assert "owner0" in cluster
    return {"nodes": nodes, "seconds": seconds}


def memory_figures(nodes: int) -> dict[str, float]:
    inventory = NodeDevices.uniform(8, nics=8, sockets=2, switches=4)
    cluster = DeviceCluster({f"n{i}": inventory for i in range(nodes)})
    idle = sys.getsizeof(cluster) / nodes
    rng = Random(4)
    for node in range(nodes):
        for owner in range(4):
            share = rng.randint(1, 100)
            held = [
                DeviceAllocation("gpu", 2 * owner + i, {"core": share, "memory": share * GIB // 2})
                for i in range(2)
            ]
            held.append(DeviceAllocation("rdma", 2 * owner, {"share": share}))
            cluster.recover(f"o{node}.{owner}", f"n{node}", held)
    return {"idle": idle, "four owners": sys.getsizeof(cluster) / nodes}


# --- joint choice -------------------------------------------------------------------------------

# name: GPUs per switch, NICs of each switch
SHAPES = {
    "A100: 4 x (2 GPUs + 1 NIC)": (2, (1, 1, 1, 1)),
    "H800: 8 x (1 GPU + 1 NIC)": (1, (1,) * 8),
    "NICs on 2 of 4 switches": (2, (1, 0, 1, 0)),
    "4 x (2 GPUs + 2 NICs)": (2, (2, 2, 2, 2)),
}


def joint_machine(gpus: int, nics: tuple[int, ...]) -> NodeDevices:
    places = [
        {"pcie": str(i), "numa": 2 * i // len(nics), "socket": 2 * i // len(nics)}
        for i in range(len(nics))
    ]
    amounts = {"core": 100, "memory": SIZE, "memory_ratio": 100}
    on = [place for place in places for _ in range(gpus)]
    near = [place for place, count in zip(places, nics, strict=True) for _ in range(count)]
    devices = [Device("gpu", i, amounts, **place) for i, place in enumerate(on)]  # type: ignore[arg-type]
    devices += [Device("rdma", i, {"share": 100}, **place) for i, place in enumerate(near)]  # type: ignore[arg-type]
    return NodeDevices(tuple(devices))


def is_possible(inventory: NodeDevices, busy: set[tuple[str, int]], count: int) -> bool:
    """Whether some idle GPUs have an idle NIC on each of their switches: all sets are tried."""
    idle = [device for device in inventory.devices if (device.type, device.minor) not in busy]
    gpus = [entry.pcie for entry in idle if entry.type == "gpu"]
    nics = {entry.pcie for entry in idle if entry.type == "rdma"}
    return any(set(chosen) <= nics for chosen in itertools.combinations(gpus, count))


def joint_figures(states: int) -> list[dict[str, Any]]:
    results = []
    for (name, (gpus, nics)), load in itertools.product(SHAPES.items(), (0.15, 0.40)):
        inventory = joint_machine(gpus, nics)
        for count in (1, 2, 4):
            rng = Random(f"{name} {load} {count}")
            request = DeviceRequest(
                "new", gpus=count, nics=1, joint=("gpu", "rdma"), same_pcie=True
            )
            possible = ours = greedy = 0
            for _ in range(states):
                charges = [
                    Charge(
                        device.type,
                        device.minor,
                        {"core": 100, "memory_ratio": 100, "memory": SIZE}
                        if device.type == "gpu"
                        else {"share": 100},
                    )
                    for device in inventory.devices
                    if rng.random() < (0.40 if device.type == "gpu" else load)
                ]
                busy = {(charge.type, charge.minor) for charge in charges}
                if not is_possible(inventory, busy, count):
                    continue
                possible += 1
                node = NodeState(inventory)
                node.charge("others", tuple(charges))
                greedy += not isinstance(place(node, request), Refusal)
                cluster = DeviceCluster({"n": inventory})
                held = [
                    DeviceAllocation(
                        charge.type,
                        charge.minor,
                        {
                            key: charge.amounts[key]
                            for key in charge.amounts
                            if key != "memory_ratio"
                        },
                    )
                    for charge in charges
                ]
                cluster.recover("others", "n", held)
                decision = cluster.schedule(request)
                if decision.outcome == "bind":
                    decision.verify(inventory, held)
                    ours += 1
            results.append(
                {
                    "machine": name,
                    "NICs busy": load,
                    "GPUs": count,
                    "possible": possible,
                    "missed": possible - ours,
                    "missed by greedy": possible - greedy,
                }
            )
    return results


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    nodes, rounds = (300, 2) if smoke else (10_000, 9)
    sizes = [100, 300] if smoke else [100, 1000, 10_000, 100_000]
    figures = {
        "filter": filter_figures(nodes, 20 if smoke else 200, rounds),
        "life": life_figures(nodes, 200 if smoke else 20_000),
        "gang": gang_figures(nodes, rounds),
        "curve": curve_figures(sizes, 2 if smoke else 5),
        "sharing": sharing_figures(nodes, 100 if smoke else 10_000),
        "reserved": reservation_figures(nodes, 30 if smoke else 1000, rounds),
        "trial": trial_figures(sizes[-1], 2 if smoke else 5),
        "memory": memory_figures(nodes),
        "joint": joint_figures(20 if smoke else 1000),
    }
    show(figures)
    save(arguments, "devices", figures)


if __name__ == "__main__":
    main()
