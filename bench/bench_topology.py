"""Topology: where gangs go in a network of spines, blocks and racks.

    python bench/bench_topology.py [--smoke] [--out DIR]

place      a gang of 256 pods in 10,000 nodes of 8 slots, four levels, loads from 10 to 90 %, each
           network new; beside Koordinator's greedy way in plain Python (`bench/peers/`)
change     8 nodes change, then a gang of 8 pods is placed, through Python, at 10,000 and 100,000
           nodes
trial      an owner of 8 pods is released, a gang of 8 pods is placed, and all is undone, at 10,000
           and 100,000 nodes; beside it the same in a copy
roles      gangs of pods with a slot and of others with CPUs, in 10,000 nodes; how many are optimal
greedy     how often Koordinator's way finds nothing where there is a place, one in a wider layer,
           or one with more domains, by load and by segments
twin       small networks, beside the readable twin and an integer program; all find the same

Times are CPU time per call, p50 and p99; of the twin and the program the least of three
rounds. Kueue's figure that documents name beside these is of another run.
"""

from collections.abc import Iterable
from time import process_time
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, percentiles, save, show, take_turns
from peers.koordinator_topology import GreedyNetwork
from peers.topology_program import integer_program

from hivecore.reference.topology import Wish, build, place
from hivecore.topology import NetworkTopology, TopologyRequest, TopologyRole

SLOTS = 8
LAYERS = ("spine", "block", "rack")


def labels_of(nodes: int) -> list[list[str]]:
    """Racks of 10 nodes, blocks of 10 racks, spines of 10 blocks."""
    return [[f"s{i // 1000}", f"b{i // 100}", f"r{i // 10}"] for i in range(nodes)]


def network_of(labels: list[list[str]]) -> NetworkTopology:
    nodes = {f"n{i}": dict(zip(LAYERS, names, strict=True)) for i, names in enumerate(labels)}
    return NetworkTopology(LAYERS, nodes)


def greedy_of(network: NetworkTopology) -> GreedyNetwork:
    return GreedyNetwork([network.domain(node) for node in network.nodes])


def place_figures(nodes: int, pods: int, times: int) -> dict[str, Any]:
    network, rng = network_of(labels_of(nodes)), np.random.default_rng(1)
    greedy = greedy_of(network)
    taken: dict[str, list[float]] = {"exact": [], "koordinator": []}
    optimal = 0
    for number in range(times):
        slots = rng.binomial(SLOTS, 0.1 + 0.8 * rng.random(), nodes)
        network.set_slots(slots)
        request = TopologyRequest("gang", pods + number % 2)  # so that nothing is known of it
        network = network.copy()
        network.slots()  # what has changed is summed up here, not in the search
        begin = process_time()
        decision = network.schedule(request)
        middle = process_time()
        placed = greedy.place(slots.tolist(), request.pods)
        taken["koordinator"].append(process_time() - middle)
        taken["exact"].append(middle - begin)
        optimal += decision.optimal
        assert placed is None or decision.outcome == "bind"
    return {
        "nodes": nodes,
        "pods": pods,
        "networks": times,
        "optimal": optimal,
        **{method: percentiles(seconds) for method, seconds in taken.items()},
    }


def change_figures(nodes: int, times: int) -> dict[str, float]:
    network, rng = network_of(labels_of(nodes)), np.random.default_rng(2)
    network.set_slots(rng.integers(0, SLOTS, nodes))
    request = TopologyRequest("gang", 8)
    network.schedule(request)
    names, taken = network.nodes, []
    for _ in range(times):
        changed = [names[i] for i in rng.integers(0, nodes, 8)]
        counts = rng.integers(0, SLOTS, 8)
        begin = process_time()
        network.set_slots(counts, changed)
        decision = network.schedule(request)
        taken.append(process_time() - begin)
        assert decision.optimal
    return percentiles(taken)


def trial_figures(nodes: int, times: int) -> dict[str, dict[str, float]]:
    network, rng = network_of(labels_of(nodes)), np.random.default_rng(6)
    network.set_slots(rng.integers(1, SLOTS, nodes))
    owners = [f"owner{i}" for i in range(times)]
    for owner in owners:
        network.commit(network.schedule(TopologyRequest(owner, 8)))
    request = TopologyRequest("gang", 8)
    taken: dict[str, list[float]] = {"trial": [], "copy": []}
    for owner in owners:
        begin = process_time()
        with network.trial():
            network.release(owner)
            tried = network.schedule(request)
        taken["trial"].append(process_time() - begin)
        begin = process_time()
        branch = network.copy()
        branch.release(owner)
        copied = branch.schedule(request)
        taken["copy"].append(process_time() - begin)
        assert tried == copied
    return {way: percentiles(seconds) for way, seconds in taken.items()}


def role_figures(nodes: int, others: int, pods: int, times: int) -> dict[str, Any]:
    network, rng = network_of(labels_of(nodes)), np.random.default_rng(5)
    role = TopologyRole("server", others, {"cpu": 24})
    request = TopologyRequest("gang", pods, amounts={"slots": 1, "cpu": 10}, role=role)
    for node, cpus in zip(network.nodes, rng.integers(0, 97, nodes).tolist(), strict=True):
        network.set_free(node, {"cpu": cpus})
    network.fits(request)  # from now on slots are added up as they change
    taken, optimal = [], 0
    for _ in range(times):
        network.set_slots(rng.binomial(SLOTS, 0.1 + 0.8 * rng.random(), nodes))
        begin = process_time()
        decision = network.schedule(request)
        taken.append(process_time() - begin)
        optimal += decision.optimal
    results = {"others": others, "pods": pods, "networks": times, "optimal": optimal}
    return {**results, **percentiles(taken)}


def used(network: NetworkTopology, placement: Iterable[str]) -> list[int]:
    """How many domains of each layer, and nodes, these nodes are."""
    paths = [network.domain(node) for node in placement]
    return [len({path[: level + 1] for path in paths}) for level in range(len(LAYERS) + 1)]


def greedy_figures(nodes: int, times: int) -> list[dict[str, Any]]:
    """Of gangs that can be placed: what Koordinator's way makes of them."""
    network, rng = network_of(labels_of(nodes)), np.random.default_rng(3)
    greedy, levels = greedy_of(network), ("", *LAYERS, "node")
    results = []
    for load in (0.3, 0.6, 0.9):
        for segment in (1, 4, 16):
            counts = {"placed": 0, "not found": 0, "wider": 0, "more domains": 0}
            for _ in range(times):
                slots = rng.binomial(SLOTS, 1 - load, nodes)
                network.set_slots(slots)
                pods = segment * int(rng.integers(1, max(2, 256 // segment)))
                multiple = {"rack": segment} if segment > 1 else {}
                request = TopologyRequest("gang", pods, multiple=multiple)
                exact = network.schedule(request)
                if exact.outcome == "wait":
                    continue
                multiples = {levels.index(layer): step for layer, step in multiple.items()}
                placed = greedy.place(slots.tolist(), pods, multiples=multiples)
                counts["placed"] += 1
                if placed is None:
                    counts["not found"] += 1
                    continue
                level, by_node = placed
                nodes_of_exact = [entry.node for entry in exact.placement]
                if level < levels.index(exact.layer):
                    counts["wider"] += 1
                elif used(network, by_node) > used(network, nodes_of_exact):
                    counts["more domains"] += 1
            results.append({"load": load, "segment": segment, **counts})
    return results


def twin_figures(nodes: int, pods: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    labels = [[f"s{i // 40}", f"b{i // 20}", f"r{i // 5}"] for i in range(nodes)]
    slots = rng.binomial(SLOTS, 0.4, nodes)
    network = network_of(labels)
    tree, wish = build(labels), Wish(pods)
    request = TopologyRequest("gang", pods)
    answers: dict[str, Any] = {}

    def kernel() -> float:
        network.set_slots(0 * slots)
        network.set_slots(slots)
        return cpu_seconds(lambda: answers.update(kernel=network.schedule(request)))

    def twin() -> float:
        return cpu_seconds(lambda: answers.update(twin=place(tree, slots.tolist(), wish)))

    def program() -> float:
        return cpu_seconds(lambda: answers.update(program=integer_program(labels, slots, wish)))

    seconds = take_turns({"kernel": kernel, "twin": twin, "HiGHS": program}, rounds)
    decision = answers["kernel"]
    level, where = answers["twin"]
    assert [
        (int(entry.node[1:]), entry.pods, entry.others) for entry in decision.placement
    ] == where
    held, numbers = answers["program"]
    counts = [1, *used(network, [entry.node for entry in decision.placement])][level:]
    assert held == level and list(numbers[: len(counts)]) == counts
    return {"nodes": nodes, "pods": pods, "seconds": seconds}


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    sizes = [100, 1000] if smoke else [10_000, 100_000]
    figures = {
        "place": place_figures(
            1000 if smoke else 10_000, 40 if smoke else 256, 5 if smoke else 400
        ),
        "change": {f"{n:,} nodes": change_figures(n, 20 if smoke else 3000) for n in sizes},
        "trial": {f"{n:,} nodes": trial_figures(n, 20 if smoke else 300) for n in sizes},
        "roles": [
            role_figures(n, others, (40 if smoke else 256) - others, 5 if smoke else 100)
            for n in sizes[:1]
            for others in ((1, 8) if smoke else (1, 8, 64, 128))
        ],
        "greedy": greedy_figures(1000, 5 if smoke else 400),
        "twin": twin_figures(40 if smoke else 120, 20 if smoke else 60, 1 if smoke else 3),
    }
    show(figures)
    save(arguments, "topology", figures)


if __name__ == "__main__":
    main()
