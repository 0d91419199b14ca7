"""The figures of the matching for people: a page matching.md, and a plot of every family."""

from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from harness import save_figure
from matching_changes import worst

PEERS = ["LEMON", "Boost", "rustworkx", "networkx", "twin"]

IN_CPP = "hivecore in C++"  # its kernel without Python, as LEMON and Boost are called

Figures = dict[str, Any]


def write_page(folder: Path, figures: Figures, surroundings: dict[str, Any]) -> None:
    contests = {name: list(group) for name, group in groupby(figures["contests"], key=family)}
    sections = [
        "# Matching",
        described(figures["versions"], surroundings) + kept(figures.get("kept_above")),
        "## Time",
        least_ahead(figures["contests"], "hivecore", PEERS),
        least_ahead(figures["contests"], IN_CPP, ["LEMON", "Boost"]),
        table(figures["contests"]),
        backend(figures["backend"]),
        "## Changes",
        changes(figures["changes"]),
        "## Memory",
        memory(figures["memory"]),
        "## Plots",
        *(f"![{name}]({plot(folder, name, group)})" for name, group in contests.items()),
    ]
    path = folder / "matching.md"
    path.write_text("\n\n".join(sections) + "\n")
    print(f"wrote {path}")


def family(contest: Figures) -> str:
    return str(contest["family"])


def described(versions: dict[str, str], surroundings: dict[str, Any]) -> str:
    named = {name: surroundings[name] for name in ("hivecore", "python", "numpy")} | versions
    listed = ", ".join(f"{name} {version}" for name, version in named.items())
    small = " **A smoke run: sizes too small to compare.**" if surroundings["smoke"] else ""
    return (
        f"{surroundings['processor']}, {surroundings['cpus']} CPUs; {listed}. CPU time: of "
        "hivecore the whole call with its certificate, of the peers the solver alone; LEMON and "
        f'Boost are called from C++, as is "{IN_CPP}", where its kernel takes a graph in one call. '
        "`bench/bench_matching.py` tells how it was measured, `bench/matching_graphs.py` what the "
        f"families are.{small}"
    )


def kept(above: int | None) -> str:
    if above is None:
        return ""
    return f" Graphs of more than {above:,} vertices, changes and memory: of an earlier run."


def table(contests: list[Figures]) -> str:
    lines = [
        f"| family | n | edges | hivecore | {IN_CPP} | " + " | ".join(PEERS) + " |",
        "| --- | ---: | ---: | ---: | ---: |" + " ---: |" * len(PEERS),
    ]
    for contest in contests:
        seconds = contest["seconds"]
        cells = [
            f"{duration(seconds[peer])} ({times(factor(seconds, peer))})" if peer in seconds else ""
            for peer in PEERS
        ]
        size = f"{contest['family']} | {contest['n']:,} | {contest['m']:,}"
        ours = duration(seconds["hivecore"])
        native = duration(seconds[IN_CPP]) if IN_CPP in seconds else ""
        lines.append(f"| {size} | {ours} | {native} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def backend(runs: list[Figures]) -> str:
    """In words: what a networkx graph costs to read."""
    factors = ", ".join(
        f"{times(factor(run['seconds'], 'networkx'))} at n = {run['n']:,}" for run in runs
    )
    return (
        "hivecore is given an array, or for a sparse graph a list of edges. As the backend of "
        f"networkx, where it has to read a networkx graph first, it is faster by {factors} (noise)."
    )


def duration(seconds: float) -> str:
    if seconds < 1e-4:
        return f"{1e6 * seconds:,.3g} us"
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.3g} ms"


def times(ratio: float) -> str:
    return f"{ratio:,.1f}x" if ratio >= 1 else f"{ratio:.2g}x"


def factor(seconds: dict[str, float], peer: str, ours: str = "hivecore") -> float:
    return seconds[peer] / seconds[ours]


def least_ahead(contests: list[Figures], ours: str, peers: list[str]) -> str:
    """In words: per peer the instance where it takes the smallest multiple of our time."""
    sentences = []
    for peer in peers:
        faced = [contest for contest in contests if {peer, ours} <= contest["seconds"].keys()]
        if not faced:
            continue
        closest = min(faced, key=lambda contest: factor(contest["seconds"], peer, ours))
        behind = sum(factor(contest["seconds"], peer, ours) < 1 for contest in faced)
        sentences.append(
            f"- {peer}: {closest['family']}, n = {closest['n']:,}, where it takes "
            f"{times(factor(closest['seconds'], peer, ours))} as long; it is faster on {behind} of "
            f"{len(faced)} instances."
        )
    return "\n".join([f"Where {ours} is least ahead, peer by peer:", "", *sentences])


def changes(measured: list[Figures]) -> str:
    by_scratch, by_parity = worst(measured)
    head = (
        "Median of one event of a `Matcher` and the next answer, and in parentheses as a part of "
        "the changed graph's solution from scratch: one of n jobs gets other weights, one leaves "
        "(n - 1 are left), a new one comes (n again). The dearest takes "
        f"{by_scratch:.2f} of a solution from scratch; the three together at most "
        f"{times(by_parity)} as long at odd n as at the even n before it."
    )
    lines = [
        "| family | n | a job changes | leaves | comes |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for each in measured:
        cells = [
            f"{duration(seconds)} ({seconds / each['scratch'][event]:.2f})"
            for event, seconds in each["seconds"].items()
        ]
        lines.append(f"| {each['family']} | {each['n']:,} | " + " | ".join(cells) + " |")
    return "\n".join([head, "", *lines])


def memory(measured: list[Figures]) -> str:
    if not measured:
        return "Not measured: only Linux tells a process's peak."
    lines = [
        f"- {each['lanes']} lanes, n = {each['n']:,}: {each['bytes_per_entry']:.2f} bytes"
        for each in measured
    ]
    head = "Peak of one call on a dense array, per entry of the array and beyond the array itself:"
    return "\n".join([head, "", *lines])


def plot(folder: Path, name: str, contests: list[Figures]) -> str:
    """CPU seconds over n, one line per contender; gives the name of the file."""
    figure, axes = plt.subplots(figsize=(5, 4))
    for contender in ["hivecore", *PEERS]:
        points = [(c["n"], c["seconds"][contender]) for c in contests if contender in c["seconds"]]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=contender)
    axes.set(xscale="log", yscale="log", xlabel="vertices", ylabel="CPU seconds", title=name)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    file = f"matching_{name.replace(' ', '_')}.png"
    save_figure(figure, folder / file, bbox_inches="tight")
    plt.close(figure)
    return file
