"""The peers of the matching: each builds its own form of a graph and returns a run.

A run returns the CPU seconds of the solver alone, and the weight of its matching.
"""

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import process_time
from timeit import Timer
from typing import Any

import networkx as nx
import numpy as np
import rustworkx as rx
from harness import cpu_seconds
from matching_graphs import Graph, path

from hivecore.reference.matching import max_weight_matching as twin_matching

Run = Callable[[], tuple[float, int]]

_ENOUGH = 1e-4  # seconds


def timed(solve: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least CPU seconds of the solves that begin within 20 ms, and the first answer.

    Solves of less than 0.1 ms are timed in groups, as reading the clock takes half a microsecond.
    """
    answers: list[Any] = []
    end = process_time() + 0.02
    first = cpu_seconds(lambda: answers.append(solve()))
    timer = Timer(solve, timer=process_time)
    least, together = first if first >= _ENOUGH else math.inf, 1
    while process_time() < end or least == math.inf:
        seconds = timer.timeit(together)
        if seconds < _ENOUGH:
            together *= 2
        else:
            least = min(least, seconds / together)
    return least, answers[0]


def rows(graph: Graph) -> list[tuple[int, int, int]]:
    return list(zip(*graph.ends.T.tolist(), graph.weights.tolist(), strict=True))


def networkx_graph(graph: Graph) -> Any:
    product = nx.Graph()
    product.add_nodes_from(range(graph.n))
    product.add_weighted_edges_from(rows(graph))
    return product


def networkx(graph: Graph) -> Run:
    built = networkx_graph(graph)

    def run() -> tuple[float, int]:
        seconds, pairs = timed(lambda: nx.max_weight_matching(built, backend="networkx"))
        return seconds, sum(built[u][v]["weight"] for u, v in pairs)

    return run


def rustworkx(graph: Graph) -> Run:
    built = rx.PyGraph()
    built.add_nodes_from(range(graph.n))
    built.add_edges_from(rows(graph))

    def run() -> tuple[float, int]:
        seconds, pairs = timed(
            lambda: rx.max_weight_matching(built, weight_fn=int, verify_optimum=False)
        )
        return seconds, sum(built.get_edge_data(u, v) for u, v in pairs)

    return run


def twin(graph: Graph) -> Run:
    weights = {(u, v): w for u, v, w in rows(graph)}

    def run() -> tuple[float, int]:
        seconds, result = timed(lambda: twin_matching(graph.n, [*weights], [*weights.values()]))
        return seconds, sum(weights.get(pair, 0) for pair in enumerate(result.mate))

    return run


def compiled(
    name: str, folder: Path, optimize: str, libraries: tuple[str, ...] = ("",), *more: str
) -> Path | None:
    """The driver of a C++ peer, linked with the first of the libraries that is found.

    :param optimize: the compiler's option; without it, it takes half the time.
    :param more: options and sources.
    """
    compiler = shutil.which("g++") or shutil.which("c++")
    source = Path(__file__).parent / "peers" / f"{name}_driver.cpp"
    if compiler is None:
        return None
    program = folder / source.stem
    command = [compiler, optimize, "-DNDEBUG", "-std=c++17", "-w", str(source), *more]
    for library in libraries:
        linked = [*command, "-o", str(program), *([library] if library else [])]
        if subprocess.run(linked, capture_output=True, check=False).returncode == 0:
            return program
    return None


def compiled_lemon(folder: Path, optimize: str) -> Path | None:
    libraries = "-llemon", "-lemon"  # as Debian names it, as LEMON does
    return compiled("lemon", folder, optimize, libraries)


def compiled_boost(folder: Path, optimize: str) -> Path | None:
    return compiled("boost", folder, optimize)


def compiled_kernel(folder: Path, optimize: str) -> Path | None:
    """hivecore itself as a C++ scheduler calls it."""
    root = Path(__file__).parents[1] / "src" / "cpp"
    sources = [file for part in ("matching", "common") for file in (root / part).rglob("*.cpp")]
    whole = folder / "kernel.cpp"
    whole.write_text("".join(f'#include "{file}"\n' for file in sources))
    options = "-std=c++20", "-pthread", f"-I{root}"
    return compiled("hivecore", folder, optimize, ("",), *options, str(whole))


def ask(program: Path, graph: Graph) -> list[str]:
    """Return weight and seconds of a run, and the peer's version."""
    edges = np.column_stack([graph.ends, graph.weights])
    given = np.array([graph.n, len(edges)]).tobytes() + edges.tobytes()
    answer = subprocess.run([program], input=given, capture_output=True, check=True)
    return answer.stdout.decode().split()


def version_of(program: Path) -> str:
    return ask(program, path(2))[2]


def driver(program: Path, graph: Graph) -> Run:
    """One process per run."""

    def run() -> tuple[float, int]:
        weight, seconds, *_ = ask(program, graph)
        return float(seconds), int(weight)

    return run
