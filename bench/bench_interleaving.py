"""Efficiencies and groups of jobs against the twin, NumPy, and Muri's own way of grouping.

    python bench/bench_interleaving.py [--smoke] [--out DIR]

Measured is CPU time, the least of some rounds in which the contenders take turns. All pairs: jobs
of random stages on four resources, all different; NumPy once with arrays over all pairs, and once
row by row over half of them, which stays in the cache. The twin is measured on fewer jobs and its
time per pair taken. Answers are compared. Groups: jobs of one size that need four times the GPUs
that there are, of eight profiles and of profiles all different; the twin matches as Muri's
simulator does, in Python, and is measured once. Methods: the same jobs grouped by matchings, local
search, exactly, and by the default, "auto", and what the groups are worth; HiGHS, through SciPy,
solves the exact program once, its columns and their worth given. Of many jobs matchings and "auto"
alone. What an event costs a Grouper. Last, Muri's rounds for buckets whose weights are not stored:
once each, in a process of its own, with its peak of memory beyond what it had before.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, save, take_turns
from scipy.optimize import LinearConstraint, milp

from hivecore.interleaving import Grouper, Grouping, efficiencies, group_jobs
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import KernelModel
from hivecore.interleaving.grouping import group_candidates
from hivecore.reference import interleaving as twin
from hivecore.reference.muri_matching import muri_matching

RESOURCES = 4
MOST_PROFILES, MOST_JOBS = 16, 256  # that all methods are measured with
LARGE = [(n, profiles, 0.0) for n in (10_000, 20_000) for profiles in (100, n)]
LARGE += [(n, 8, 0.02) for n in (10_000, 20_000)]  # nearly tied: the slowest
METHODS = [(32, 8), (64, 8), (256, 8), (32, 16), (256, 256), (1000, 1000), (4000, 8)]


def over_all_pairs(jobs: np.ndarray) -> np.ndarray:
    n, k = jobs.shape
    best = np.full((n, n), np.inf)
    for offset in range(1, k):
        time = np.zeros((n, n))
        for slot in range(k):
            time += np.maximum(jobs[:, slot][:, None], jobs[:, (slot - offset) % k])
        np.minimum(best, time, out=best)
    busy = jobs.sum(axis=1)
    return (busy[:, None] + busy) / (k * best)


def row_by_row(jobs: np.ndarray) -> np.ndarray:
    n, k = jobs.shape
    stages, busy = np.ascontiguousarray(jobs.T), jobs.sum(axis=1)
    result = np.empty((n, n))
    for i in range(n):
        best = np.full(n - i, np.inf)
        for offset in range(1, k):
            time = np.zeros(n - i)
            for slot in range(k):
                time += np.maximum(jobs[i, slot], stages[(slot - offset) % k, i:])
            np.minimum(best, time, out=best)
        result[i, i:] = result[i:, i] = (busy[i] + busy[i:]) / (k * best)
    return result


def pairs(n: int, sample: int, rounds: int) -> dict[str, Any]:
    jobs = np.random.default_rng(0).random((n, RESOURCES))
    few = [tuple(row) for row in jobs[:sample].tolist()]
    result = efficiencies(jobs)
    apart = ~np.eye(n, dtype=bool)
    assert np.allclose(result[apart], over_all_pairs(jobs)[apart], rtol=1e-12, atol=0)
    assert np.allclose(result[apart], row_by_row(jobs)[apart], rtol=1e-12, atol=0)
    assert result[:sample, :sample].tolist() == twin.efficiencies(few)
    seconds = take_turns(
        {
            "hivecore": lambda: cpu_seconds(lambda: efficiencies(jobs)),
            "NumPy, all pairs": lambda: cpu_seconds(lambda: over_all_pairs(jobs)),
            "NumPy, row by row": lambda: cpu_seconds(lambda: row_by_row(jobs)),
        },
        rounds,
    )
    of_sample = take_turns({"twin": lambda: cpu_seconds(lambda: twin.efficiencies(few))}, 2)
    seconds["twin"] = of_sample["twin"] * (n / sample) ** 2
    show(f"pairs of {n}", seconds)
    return {"jobs": n, "resources": RESOURCES, "twin_jobs": sample, "seconds": seconds}


def lists(n: int, size: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    jobs = rng.random((200, size))
    groups = rng.permuted(np.tile(np.arange(200), (n, 1)), axis=1)[:, :size]
    rows = [tuple(row) for row in jobs.tolist()]
    sample = groups[: max(1, n // (20 if size <= RESOURCES else 1000))].tolist()
    assert efficiencies(jobs, sample).tolist() == twin.efficiencies(rows, sample)
    seconds = take_turns(
        {"hivecore": lambda: cpu_seconds(lambda: efficiencies(jobs, groups))}, rounds
    )
    of_sample = take_turns(
        {"twin": lambda: cpu_seconds(lambda: twin.efficiencies(rows, sample))}, 1
    )
    seconds["twin"] = of_sample["twin"] * n / len(sample)
    show(f"{n} groups of {size}", seconds)
    return {"groups": n, "size": size, "seconds": seconds}


def grouping(n: int, profiles: int, model: KernelModel, limit: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    kinds = rng.random((profiles, RESOURCES if model == "barrier" else 3))
    jobs = kinds[np.arange(n) % profiles]
    rows, gpus = [tuple(row) for row in jobs.tolist()], [1] * n
    room = n // 4

    def native() -> list[list[int]]:
        candidates = Candidates.of(jobs, gpus, model=model)
        return group_candidates(candidates, room, method="muri", least_waste_first=False).groups

    def readable() -> list[list[int]]:
        return twin.group_jobs(
            rows, gpus, room, matcher=muri_matching, model=model, merge_order="index"
        )

    seconds = take_turns({"hivecore": lambda: cpu_seconds(native)}, rounds)
    if n <= limit:
        assert sorted(map(len, native())) == sorted(map(len, readable()))
        seconds |= take_turns({"twin": lambda: cpu_seconds(readable)}, 1)
    show(f"grouping {n}, {profiles} profiles, {model}", seconds)
    return {"jobs": n, "profiles": profiles, "model": model, "seconds": seconds}


def methods(n: int, profiles: int, rounds: int) -> dict[str, Any]:
    """What the methods cost and give; HiGHS solves the same program as "exact"."""
    rng = np.random.default_rng(n + profiles)
    kinds = rng.random((profiles, RESOURCES))
    types = rng.permutation(n) if n == profiles else rng.integers(0, profiles, n)
    jobs, gpus, room = kinds[types], [1] * n, n // 3

    def call(method: str) -> Grouping:
        return group_jobs(jobs, gpus, room, method=method, weight="gain")

    many = n > MOST_JOBS or profiles > MOST_PROFILES
    names = ["muri", "auto"] if many else ["muri", "local", "exact", "auto"]
    values = {name: call(name).value for name in names}
    assert values["auto"] >= values["muri"]
    seconds = take_turns({name: turn_of(call, name) for name in names}, rounds)
    if not many:
        program = Program(kinds, np.bincount(types, minlength=profiles), room)
        seconds |= take_turns({"HiGHS": lambda: cpu_seconds(program.solve)}, 1)
        values["HiGHS"] = program.solve()
        assert abs(values["exact"] / values["HiGHS"] - 1) < 1e-7
    times = ", ".join(f"{name} {1e3 * time:,.2f} ms" for name, time in seconds.items())
    gains = {name: f"{value / values['muri'] - 1:+.1%}" for name, value in values.items()}
    print(f"{n} jobs of {profiles} profiles: {times}; {gains}", flush=True)
    return {"jobs": n, "profiles": profiles, "seconds": seconds, "values": values}


class Program:
    """Groups of up to four jobs that make the most progress, as an integer program for SciPy."""

    def __init__(self, kinds: np.ndarray, jobs: np.ndarray, capacity: int) -> None:
        sizes = range(1, RESOURCES + 1)
        groups = [g for p in sizes for g in combinations_with_replacement(range(len(kinds)), p)]
        starts = np.cumsum([0, *map(len, groups)])
        rows = kinds[[kind for group in groups for kind in group]]
        places = [list(range(first, end)) for first, end in pairwise(starts)]
        # A round lasts S / (k efficiency), and solo times add up to S.
        self._worth = RESOURCES * efficiencies(rows, places)
        self._worth[: len(kinds)] = 1.0
        columns = np.zeros((len(kinds) + 1, len(groups)))
        for column, group in enumerate(groups):
            np.add.at(columns[:, column], list(group), 1)
        columns[-1] = 1
        self._rows = LinearConstraint(columns, np.append(jobs, 0), np.append(jobs, capacity))

    def solve(self) -> float:
        whole = np.ones(len(self._worth))
        options = {"mip_rel_gap": 1e-9}
        result = milp(-self._worth, constraints=self._rows, integrality=whole, options=options)
        return -float(result.fun)


def events(n: int, rounds: int) -> dict[str, Any]:
    """What a scheduler waits for when one job ends and another comes."""
    rng = np.random.default_rng(n)
    kinds = rng.random((8, RESOURCES))
    grouper = Grouper(RESOURCES, n // 4, restart_cost=0.05)
    for job in range(n):
        grouper.add(job, kinds[rng.integers(8)], 1, priority=float(rng.random()))
    grouper.groups()
    newest = n

    def event() -> None:
        nonlocal newest
        grouper.remove(next(iter(grouper.groups()[0].jobs)))
        grouper.add(newest, kinds[newest % 8], 1, priority=float(rng.random()))
        newest += 1
        grouper.groups()

    seconds = take_turns({"hivecore": lambda: cpu_seconds(event)}, 4 * rounds)
    show(f"Grouper of {n} jobs, one event", seconds)
    return {"jobs": n, "seconds": seconds}


def large(n: int, profiles: int, noise: float) -> dict[str, Any]:
    """Seconds of the CPU and of the clock, and MiB, in a process of its own."""
    command = [sys.executable, __file__, "--large", str(n), str(profiles), str(noise)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print(f"{n} jobs of {profiles} profiles, {noise:.0%} noise: {output.strip()}", flush=True)
    return {"jobs": n, "profiles": profiles, "noise": noise, **json.loads(output)}


def large_here(n: int, profiles: int, noise: float) -> dict[str, float]:
    rng = np.random.default_rng(n + profiles)
    kinds = rng.random((profiles, RESOURCES))
    jobs = kinds[rng.permutation(n) if n == profiles else rng.integers(0, profiles, n)]
    jobs = jobs * rng.uniform(1 - noise, 1 + noise, jobs.shape)
    before, clock = peak_mebibytes(), time.perf_counter()
    cpu = cpu_seconds(lambda: group_jobs(jobs, [1] * n, n // 4, method="muri"))
    wall = time.perf_counter() - clock
    return {"cpu": cpu, "wall": wall, "MiB": peak_mebibytes() - before}


def peak_mebibytes() -> float:
    """Of this process; what `getrusage` says begins with that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def turn_of(call: Callable[[str], Any], name: str) -> Callable[[], float]:
    return lambda: cpu_seconds(lambda: call(name))


def show(what: str, seconds: dict[str, float]) -> None:
    ours = seconds["hivecore"]
    others = {name: f"{time / ours:,.1f}x" for name, time in seconds.items() if name != "hivecore"}
    print(f"{what:40} {1e3 * ours:10,.3f} ms  slower: {others}", flush=True)


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    rounds = 1 if smoke else 5
    sizes = [16] if smoke else [32, 256, 1000]
    limit = 16 if smoke else 256
    figures = {
        "pairs": [pairs(n, min(n, 100), rounds) for n in ([60] if smoke else [200, 2000])],
        "lists": [
            lists(n, size, rounds)
            for n, size in ([(20, 3)] if smoke else [(100_000, 3), (100_000, 4), (2000, 8)])
        ],
        "grouping": [
            grouping(n, profiles, model, limit, rounds)
            for n in sizes
            for profiles in (8, n)
            for model in ("barrier", "artifact")
        ],
        "methods": [
            methods(n, profiles, rounds) for n, profiles in ([(12, 3)] if smoke else METHODS)
        ],
        "events": [events(n, rounds) for n in ([16] if smoke else [32, 256])],
        "large": [large(*row) for row in ([(300, 8, 0.02)] if smoke else LARGE)],
    }
    save(arguments, "interleaving", figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--large"]:
        print(json.dumps(large_here(*map(int, sys.argv[2:4]), float(sys.argv[4]))))
    else:
        main()
