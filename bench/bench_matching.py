"""Maximum-weight matching against LEMON, Boost, rustworkx, networkx and the twin, by family.

    python bench/bench_matching.py [--smoke] [--out DIR] [--largest N]

Measured is CPU time: of hivecore the whole call, which computes the numbers of its certificate, and
the reading of its pairs; of a peer the solver alone (its graph is built before). That is for LEMON
`run()` of a solver that is there already, for Boost its one function, for rustworkx and networkx
the Python call. LEMON and Boost are called from C++; beside them hivecore is too, where its kernel
takes a graph in one call. The contenders of an instance take turns: all of them three times, but
those that need two seconds or more only once; the best turn counts. In one turn short solves are
repeated for 20 ms, by everyone, and the fastest counts. All answers must weigh the same; hivecore's
is verified, outside the clock. `--largest N` measures instances of at most N vertices and nothing
else, and keeps the other figures of DIR. LEMON and Boost run in processes of their own, compiled
here from their headers, without which they are left out; of Boost it takes those of the algorithm
as rewritten in 2025, which may lie in a folder named by CPLUS_INCLUDE_PATH. A peer is left out of
the sizes where it would take more than about a minute. Beside the figures in matching.json go a
page of them, matching.md, and a plot of every family. Last come networkx with hivecore as its
backend, and what a change costs a matcher that stays, at even and at odd n.
"""

import json
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import matching_graphs as graphs
import matching_peers as peers
import networkx as nx
import rustworkx as rx
from harness import command_line, save, surroundings, take_turns
from matching_changes import changes
from matching_graphs import Graph
from matching_memory import BITS, bytes_per_entry
from matching_page import IN_CPP, times, write_page
from matching_peers import Run

from hivecore.matching import max_weight_matching

TINY = [4, 6, 8, 10, 16, 20, 32, 50]
DENSE = [*TINY, 100, 200, 500, 1000, 2000]
SPARSE = [20, 100, 1000, 10_000, 100_000]

MANY = {"networkx": 1000, "rustworkx": 10_000, "LEMON": 1_000_000, "Boost": 1000}
FEW = {"networkx": 200, "rustworkx": 1000, "LEMON": 1000, "Boost": 1000, "twin": 200}

# The generator, the sizes, and the largest size at which each peer is still measured.
FAMILIES: dict[str, tuple[Callable[[int], Graph], list[int], dict[str, int]]] = {
    "uniform": (graphs.uniform, [*DENSE, 4000], {**FEW, "LEMON": 4000, "Boost": 4000}),
    "ties": (graphs.ties, DENSE, FEW),
    "noise": (graphs.noise, DENSE, FEW),
    "manhattan": (graphs.manhattan, DENSE, FEW),
    "random": (graphs.random, [*SPARSE, 1_000_000], MANY),
    "kNN": (graphs.nearest, SPARSE, {**MANY, "LEMON": 100_000}),
    "path": (graphs.path, [*SPARSE, 1_000_000], MANY),
    "chain": (graphs.chain, [*SPARSE, 1_000_000], MANY),
    "triangles": (
        graphs.triangles,
        [18, 102, 1002, 10_002, 100_002],
        {"networkx": 1002, "rustworkx": 10_002, "LEMON": 100_002, "Boost": 1002},
    ),
    "sparse delta": (
        graphs.sparse_delta,
        [24, 104, 1004, 5004, 20_004],
        {"networkx": 1004, "rustworkx": 1004, "LEMON": 20_004, "Boost": 1004},
    ),
    "dense delta": (
        graphs.dense_delta,
        [24, 84, 252, 504, 1000],
        {"networkx": 252, "rustworkx": 1000, "LEMON": 1000, "Boost": 1000},
    ),
    "hard cards": (
        graphs.hard_cards,
        [6, 18, 36, 60, 180, 600],
        {"networkx": 600, "rustworkx": 600, "LEMON": 600, "Boost": 600, "twin": 180},
    ),
}
CHANGES = {
    False: [
        (n + odd, rounds) for n, rounds in [(200, 60), (1000, 60), (2000, 20)] for odd in (0, 1)
    ],
    True: [(60, 5), (61, 5)],
}
BACKEND = [10, 50, 100, 200]
SMOKE = 60
QUICK = 2.0  # seconds


def hivecore(graph: Graph) -> Run:
    given = graphs.as_array(graph) if graphs.is_complete(graph) else graph

    def run() -> tuple[float, int]:
        seconds, _ = peers.timed(lambda: max_weight_matching(given).pairs)
        edges = max_weight_matching(given)
        assert edges.exact
        assert edges.verify()
        return seconds, edges.weight

    return run


def is_small(graph: Graph) -> bool:
    """Whether the kernel takes it in one call."""
    few = graph.n <= 512 and len(graph.ends) <= 4096
    return graph.n <= 64 if graphs.is_complete(graph) else few


def contenders(graph: Graph, limits: dict[str, int], drivers: dict[str, Path]) -> dict[str, Run]:
    known: dict[str, Callable[[Graph], Run]] = {
        "networkx": peers.networkx,
        "rustworkx": peers.rustworkx,
        "twin": peers.twin,
    }
    known |= {name: partial(peers.driver, program) for name, program in drivers.items()}
    limits = limits | {IN_CPP: graph.n if is_small(graph) else 0}
    invited = {
        name: build(graph) for name, build in known.items() if graph.n <= limits.get(name, 0)
    }
    return {"hivecore": hivecore(graph), **invited}


def contest(runs: dict[str, Run]) -> dict[str, float]:
    """The CPU seconds of each contender."""
    weights: dict[str, int] = {}

    def turn_of(name: str) -> Callable[[], float]:
        def turn() -> float:
            seconds, weights[name] = runs[name]()
            assert weights[name] == weights["hivecore"], weights
            return seconds

        return turn

    turns = {name: turn_of(name) for name in runs}
    first = take_turns(turns, 1)
    quick = {name: turn for name, turn in turns.items() if first[name] < QUICK}
    again = take_turns(quick, 2)
    return {name: min(seconds, again.get(name, seconds)) for name, seconds in first.items()}


def contests(
    smoke: bool, drivers: dict[str, Path], kept: dict[tuple[str, int], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """One by one; those that are kept are not held again."""
    for family, (_, sizes, _) in FAMILIES.items():
        for n in [SMOKE] if smoke else sizes:
            if (family, n) in kept:
                yield kept[family, n]
                continue
            yield held(family, n, drivers)


def held(family: str, n: int, drivers: dict[str, Path]) -> dict[str, Any]:
    """One contest."""
    make, _, limits = FAMILIES[family]
    graph = make(n)
    seconds = contest(contenders(graph, limits, drivers))
    ours = seconds["hivecore"]
    others = {peer: times(t / ours) for peer, t in seconds.items() if peer != "hivecore"}
    print(f"{family:12} n {n:9,} {1e3 * ours:12,.3f} ms  slower: {others}", flush=True)
    return {"family": family, "n": n, "m": len(graph.ends), "seconds": seconds}


COMPILED = {
    "LEMON": (peers.compiled_lemon, "liblemon-dev is not installed"),
    "Boost": (peers.compiled_boost, "its matching is older than 2025"),
    IN_CPP: (peers.compiled_kernel, "it does not compile"),
}


def drivers_in(
    folder: Path, names: Iterable[str] = COMPILED, optimize: str = "-O3"
) -> dict[str, Path]:
    """The contenders in C++ that are installed."""
    drivers = {}
    for name in names:
        compiled, lacking = COMPILED[name]
        program = compiled(folder, optimize)
        if program is None:
            print(f"{name} is left out: no C++ compiler, or {lacking}")
        else:
            drivers[name] = program
    return drivers


def memory(n: int) -> list[dict[str, Any]]:
    measured = {lanes: bytes_per_entry(n, lanes) for lanes in BITS}
    return [
        {"lanes": lanes, "n": n, "bytes_per_entry": peak}
        for lanes, peak in measured.items()
        if peak is not None
    ]


def backend(n: int) -> dict[str, Any]:
    """The CPU seconds of networkx for a graph of its own, by itself and with hivecore behind it."""
    graph = peers.networkx_graph(graphs.noise(n))
    seconds = {}
    for name in ("networkx", "hivecore"):
        seconds[name], _ = peers.timed(partial(nx.max_weight_matching, graph, backend=name))
    print(f"backend      n {n:9,} {times(seconds['networkx'] / seconds['hivecore'])} faster")
    return {"family": "noise", "n": n, "seconds": seconds}


def add_largest(parser: ArgumentParser) -> None:
    parser.add_argument("--largest", type=int, default=None, metavar="N", help="vertices at most")


def main() -> None:
    arguments = command_line(__doc__, add_largest)
    before: dict[str, Any] = {}
    if arguments.largest is not None:
        before = json.loads((arguments.out / "matching.json").read_text())["figures"]
    kept = {
        (contest["family"], contest["n"]): contest
        for contest in before.get("contests", [])
        if contest["n"] > arguments.largest
    }
    versions = {"networkx": nx.__version__, "rustworkx": rx.__version__}
    with tempfile.TemporaryDirectory() as folder:
        drivers = drivers_in(Path(folder), optimize="-O0" if arguments.smoke else "-O3")
        versions |= {name: peers.version_of(drivers[name]) for name in drivers.keys() - {IN_CPP}}
        if "Boost" in versions:
            versions["Boost"] += " with the matching of 2025"
        figures = {
            "versions": versions,
            "kept_above": arguments.largest,
            "contests": list(contests(arguments.smoke, drivers, kept)),
            "backend": [backend(n) for n in ([SMOKE] if arguments.smoke else BACKEND)],
            "changes": before.get("changes")
            or [
                changes(family, FAMILIES[family][0], n, rounds)
                for family in ("noise", "ties", "uniform")
                for n, rounds in CHANGES[arguments.smoke]
            ],
            "memory": before.get("memory") or memory(200 if arguments.smoke else 2000),
        }
    save(arguments, "matching", figures)
    write_page(arguments.out, figures, surroundings(arguments))


if __name__ == "__main__":
    main()
