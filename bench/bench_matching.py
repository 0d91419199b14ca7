"""Maximum-weight matching against LEMON, rustworkx, networkx and the twin, family by family.

    python bench/bench_matching.py [--smoke] [--out DIR]

uniform   dense, weights uniform in 26 bits
ties      dense, interleaving efficiencies of jobs of ten types: many equal weights
noise     the same with 2 % noise on every stage of every job: many nearly equal weights
random    sparse, m = 5n random edges, uniform weights
kNN       sparse, each of n points in a square with its 10 nearest, short edges heavy
path      sparse, n vertices in a row, uniform weights

Weights are integers of 26 bits, so that every peer can take them. Measured is CPU time of the whole
call with its certificate for hivecore, of the solver alone for the peers (their graph is built
before). hivecore's time is the best of three runs, a peer's is one run: that favours hivecore a
little, and small factors should be read so. All answers must weigh the same; hivecore's is
verified. LEMON is compiled here from liblemon-dev's headers, without which it is left out. A peer
is left out of a family at the size where it would take more than about a minute.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import rustworkx as rx
from harness import command_line, cpu_seconds, save
from scipy.spatial import cKDTree

from hivecore.matching import max_weight_matching
from hivecore.reference.matching import max_weight_matching as twin_matching

Edges = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]
SCALE = 2**26


def complete(weights: npt.NDArray[np.int64]) -> Edges:
    u, v = np.triu_indices(len(weights), 1)
    return len(weights), np.column_stack([u, v]), weights[u, v]


def uniform(n: int) -> Edges:
    weights = np.random.default_rng(n).integers(1, SCALE, (n, n))
    return complete(weights)


def efficiencies(n: int, noise: float) -> Edges:
    """Two jobs of four stages each, in the best of the shifted orders (Muri, SIGCOMM'22)."""
    rng = np.random.default_rng(n)
    types = rng.integers(1, 100, (10, 4)).astype(float)
    stages = types[rng.integers(10, size=n)] * (1 + noise * rng.uniform(-1, 1, (n, 4)))
    best = np.zeros((n, n))
    for shift in range(4):
        together = np.maximum(stages[:, None, :], np.roll(stages, shift, axis=1)[None, :, :])
        busy = stages.sum(axis=1)
        best = np.maximum(best, (busy[:, None] + busy[None, :]) / (8 * together.sum(axis=2)))
    best = np.maximum(best, best.T)
    return complete((best * SCALE).astype(np.int64))


def random_sparse(n: int) -> Edges:
    rng = np.random.default_rng(n)
    ends = np.sort(rng.integers(n, size=(5 * n, 2)), axis=1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return n, ends, rng.integers(1, SCALE, len(ends))


def nearest(n: int) -> Edges:
    points = np.random.default_rng(n).random((n, 2))
    _, neighbours = cKDTree(points).query(points, 11)
    ends = np.column_stack([np.repeat(np.arange(n), 10), neighbours[:, 1:].ravel()])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    return n, ends, ((1 - lengths) * SCALE).astype(np.int64)


def path(n: int) -> Edges:
    ends = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    return n, ends, np.random.default_rng(n).integers(1, SCALE, n - 1)


# Largest sizes at which a peer is still measured: networkx, rustworkx, LEMON, twin.
FAMILIES: dict[str, tuple[Callable[[int], Edges], list[int], tuple[int, int, int, int]]] = {
    "uniform": (uniform, [100, 200, 500, 1000, 2000], (200, 500, 2000, 100)),
    "ties": (lambda n: efficiencies(n, 0.0), [100, 200, 500, 1000, 2000], (200, 500, 1000, 100)),
    "noise": (lambda n: efficiencies(n, 0.02), [100, 200, 500, 1000, 2000], (200, 500, 1000, 100)),
    "random": (random_sparse, [1000, 10_000, 100_000], (1000, 1000, 100_000, 0)),
    "kNN": (nearest, [1000, 10_000], (1000, 1000, 10_000, 0)),
    "path": (path, [1000, 100_000, 1_000_000], (1000, 1000, 100_000, 0)),
}
SMOKE = {"uniform": [30], "ties": [30], "noise": [30], "random": [60], "kNN": [60], "path": [60]}


def compiled_lemon(folder: Path) -> Path | None:
    compiler = shutil.which("g++") or shutil.which("c++")
    source = Path(__file__).parent / "peers" / "lemon_driver.cpp"
    if compiler is None:
        return None
    program = folder / "lemon_driver"
    command = [compiler, "-O3", "-DNDEBUG", "-std=c++17", "-w", str(source), "-o", str(program)]
    for library in ("-llemon", "-lemon"):  # as Debian names it, as LEMON does
        if subprocess.run([*command, library], capture_output=True, check=False).returncode == 0:
            return program
    return None


def lemon(program: Path, graph: Edges) -> tuple[float, int]:
    n, ends, weights = graph
    rows = np.column_stack([ends, weights]).tolist()
    text = f"{n} {len(rows)}\n" + "\n".join(f"{u} {v} {w}" for u, v, w in rows)
    answer = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    weight, seconds = answer.stdout.split()
    return float(seconds), int(weight)


def hivecore(graph: Edges, dense: bool) -> tuple[float, int]:
    n, ends, weights = graph
    given: Any = graph
    if dense:
        given = np.zeros((n, n), dtype=np.int64)
        given[ends[:, 0], ends[:, 1]] = given[ends[:, 1], ends[:, 0]] = weights
    answers: list[Any] = []
    seconds = min(cpu_seconds(lambda: answers.append(max_weight_matching(given))) for _ in range(3))
    assert answers[0].exact
    assert answers[0].verify()
    return seconds, answers[0].weight


def networkx(graph: Edges) -> tuple[float, int]:
    n, ends, weights = graph
    made = nx.Graph()
    made.add_nodes_from(range(n))
    made.add_weighted_edges_from(np.column_stack([ends, weights]).tolist())
    answers: list[Any] = []
    seconds = cpu_seconds(lambda: answers.append(nx.max_weight_matching(made, backend="networkx")))
    return seconds, sum(made[u][v]["weight"] for u, v in answers[0])


def rustworkx(graph: Edges) -> tuple[float, int]:
    n, ends, weights = graph
    made = rx.PyGraph()
    made.add_nodes_from(range(n))
    made.add_edges_from([tuple(row) for row in np.column_stack([ends, weights]).tolist()])
    answers: list[Any] = []
    seconds = cpu_seconds(
        lambda: answers.append(rx.max_weight_matching(made, weight_fn=int, verify_optimum=False))
    )
    return seconds, sum(made.get_edge_data(u, v) for u, v in answers[0])


def twin(graph: Edges) -> tuple[float, int]:
    n, ends, weights = graph
    pairs, values = [tuple(pair) for pair in ends.tolist()], weights.tolist()
    answers: list[Any] = []
    seconds = cpu_seconds(lambda: answers.append(twin_matching(n, pairs, values)))
    heavy = dict(zip(pairs, values, strict=True))
    mate = [int(partner) for partner in answers[0].mate]
    return seconds, sum(heavy[v, partner] for v, partner in enumerate(mate) if partner > v)


def measure(smoke: bool, program: Path | None) -> Iterator[dict[str, Any]]:
    for family, (make, sizes, limits) in FAMILIES.items():
        for n in SMOKE[family] if smoke else sizes:
            graph = make(n)
            dense = family in ("uniform", "ties", "noise")
            seconds, weight = hivecore(graph, dense)
            figures: dict[str, Any] = {"family": family, "n": n, "m": len(graph[1])}
            figures["hivecore"] = seconds
            peers: list[tuple[str, int, Callable[[], tuple[float, int]]]] = [
                ("networkx", limits[0], lambda graph=graph: networkx(graph)),
                ("rustworkx", limits[1], lambda graph=graph: rustworkx(graph)),
                ("twin", limits[3], lambda graph=graph: twin(graph)),
            ]
            if program is not None:
                peers.append(("LEMON", limits[2], lambda graph=graph: lemon(program, graph)))
            for name, limit, solve in peers:
                if n <= limit:
                    figures[name], theirs = solve()
                    assert theirs == weight, f"{family} {n}: {name} finds {theirs}, we {weight}"
            others = {
                name: f"{figures[name] / seconds:,.1f}x"
                for name in ("LEMON", "rustworkx", "networkx", "twin")
                if name in figures
            }
            print(f"{family:8} n {n:9,} {1e3 * seconds:12,.3f} ms  slower: {others}", flush=True)
            yield figures


def main() -> None:
    arguments = command_line(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        program = compiled_lemon(Path(folder))
        if program is None:
            print("LEMON is left out: no C++ compiler, or liblemon-dev is not installed")
        figures = list(measure(arguments.smoke, program))
    versions = {
        "networkx": nx.__version__,
        "rustworkx": rx.__version__,
        "LEMON": program is not None,
    }
    save(arguments, "matching", {"versions": versions, "seconds": figures})


if __name__ == "__main__":
    main()
