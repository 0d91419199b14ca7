"""Cache policies, seeded shuffles and the clairvoyant cache against the best peers.

    python bench/bench_caching_policies.py [--smoke] [--out DIR]

A million items, a quarter of which fit. Two traces of four million accesses: four epochs of a
shuffle each (few hits), and draws with replacement by Zipf's law with exponent 1 (many).

simulate       millions of accesses per second; beside it libcachesim's process_trace of an
               oracleGeneral file with the same requests, which it maps into memory
ids            nanoseconds per access of LRU where half of the items fit, three epochs of a shuffle
               each: dense ids, the same relabelled as random int64 and as strings, and libcachesim;
               beside it the least that memory allows, NumPy's `positions[ids] = values`
clairvoyant    millions of accesses per second of jobs in turns, one access per call and 64

Contenders take turns and start from empty caches. Where the definitions of a policy are the same,
the hits must be: of libcachesim's all but Random, which is none (it draws from its hash table),
and Belady, which admits every miss. Times are CPU time, the least of several rounds.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, report, save, take_turns

from hivecore.caching import ClairvoyantCache, EpochShuffle, simulate
from hivecore.reference.caching import ClairvoyantCache as ClairvoyantTwin

try:
    import libcachesim
except ImportError:
    libcachesim = None

PEERS = {
    "uniform": None,
    "lru": "LRU",
    "fifo": "FIFO",
    "random": "Random",
    "lfu": "LFU",
    "clock": "Clock",
    "sieve": "Sieve",
    "s3fifo": "S3FIFO",
    "min": "Belady",
}
SAME = {"lru", "fifo", "lfu", "clock", "sieve", "s3fifo"}
REQUEST = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def shuffled(items: int, epochs: int) -> Any:
    shuffle = EpochShuffle(1, items)
    return np.concatenate([shuffle.order(epoch) for epoch in range(epochs)])


def zipf(items: int, accesses: int) -> Any:
    rng = np.random.default_rng(1)
    weights = np.cumsum(1 / np.arange(1, items + 1))
    ranks = np.searchsorted(weights, rng.random(accesses) * weights[-1])
    return rng.permutation(items).astype(np.uint32)[ranks]


def write_requests(trace: Any, path: Path) -> None:
    """In libcachesim's format oracleGeneral: each request knows when its item comes next."""
    requests = np.zeros(len(trace), dtype=REQUEST)
    requests["id"], requests["size"] = trace, 1
    requests["next"] = -1
    order = np.argsort(trace, kind="stable")
    same = trace[order[1:]] == trace[order[:-1]]
    requests["next"][order[:-1][same]] = order[1:][same] + 1
    requests.tofile(path)


def process_trace(policy: str, path: Path, capacity: int) -> tuple[Callable[[], Any], Any]:
    cache = getattr(libcachesim, PEERS[policy] or "")(capacity)
    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    return lambda: cache.process_trace(reader), cache


def simulations(trace: Any, capacity: int, rounds: int, path: Path) -> dict[str, float]:
    write_requests(trace, path)
    hits: dict[str, int] = {}
    contenders = {}
    millions = len(trace) / 1e6

    def ours(policy: str) -> float:
        def run() -> None:
            hits[policy] = simulate(policy, trace, capacity)

        # The allocator cleans up after the previous contender at the first large request.
        simulate(policy, trace[:1000], capacity)
        return cpu_seconds(run) / millions

    def theirs(policy: str) -> float:
        run, _ = process_trace(policy, path, capacity)
        ratios: list[Any] = []
        seconds = cpu_seconds(lambda: ratios.append(run()))
        hits[f"{policy}, libcachesim"] = len(trace) - round(ratios[0][0] * len(trace))
        return seconds / millions

    for policy, peer in PEERS.items():
        contenders[policy] = lambda policy=policy: ours(policy)
        if libcachesim and peer:
            contenders[f"{policy}, libcachesim"] = lambda policy=policy: theirs(policy)
    seconds = take_turns(contenders, rounds)
    figures = {name: 1 / per_million for name, per_million in seconds.items()}
    for policy in PEERS:
        if (peer := f"{policy}, libcachesim") in figures:
            figures[f"{policy} / libcachesim"] = figures[policy] / figures[peer]
            assert policy not in SAME or hits[policy] == hits[peer], policy
            if policy == "min":
                assert simulate("min", trace, capacity - 1) <= hits[peer] <= hits["min"]
    for policy in PEERS:
        figures[f"{policy}, hit ratio"] = hits[policy] / len(trace)
    return figures


def kinds_of_ids(items: int, rounds: int, path: Path) -> dict[str, float]:
    trace, capacity = shuffled(items, 3), items // 2
    write_requests(trace, path)
    far = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, items)[trace]
    texts = np.char.mod("%08d", np.arange(items))[trace]
    given = {"dense": trace, "int64": far, "string array": texts, "string list": texts.tolist()}
    positions, values = np.zeros(items, dtype=np.uint32), np.arange(len(trace), dtype=np.uint32)
    hits: dict[str, int] = {}

    def ours(name: str) -> float:
        simulate("lru", given[name][:1000], capacity)
        seconds = cpu_seconds(
            lambda: hits.__setitem__(name, simulate("lru", given[name], capacity))
        )
        return 1e9 * seconds / len(trace)

    def theirs() -> float:
        run, _ = process_trace("lru", path, capacity)
        return 1e9 * cpu_seconds(run) / len(trace)

    contenders = {name: partial(ours, name) for name in given}
    contenders["numpy scatter"] = lambda: (
        1e9 * cpu_seconds(lambda: positions.__setitem__(trace, values)) / len(trace)
    )
    if libcachesim:
        contenders["libcachesim"] = theirs
    figures = take_turns(contenders, rounds)
    assert len(set(hits.values())) == 1
    return figures


def clairvoyant(items: int, rounds: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for jobs in (1, 2, 4, 8):
        for count in (1, 64):

            def run(jobs: int = jobs, count: int = count) -> float:
                cache = ClairvoyantCache(items // 4, [items])
                for job in range(jobs):
                    cache.attach(job, 0, job, 1.0, job / jobs)
                for job in range(jobs):
                    cache.access(job, items // 2)
                access = cache.access

                def work() -> None:
                    for _ in range(items // count):
                        for job in range(jobs):
                            access(job, count)

                return cpu_seconds(work) / (items // count * count * jobs)

            seconds = take_turns({"": run}, rounds)[""]
            figures[f"{jobs} jobs, {count} per call"] = 1e-6 / seconds

    small = 60
    cache, twin = ClairvoyantCache(small // 4, [small]), ClairvoyantTwin(small // 4, [small])
    for job in range(4):
        for entry in (cache, twin):
            entry.attach(job, 0, job, 1.0, job / 4)
    answers: list[int] = []
    turns = [job for _ in range(2 * small) for job in range(4)]
    seconds = cpu_seconds(lambda: answers.extend(sum(twin.access(job)) for job in turns))
    assert answers == [cache.access(job) for job in turns]
    figures["4 jobs, twin, 60 items"] = len(turns) / 1e6 / seconds
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    items, rounds = (2000, 2) if arguments.smoke else (1_000_000, 3)
    if libcachesim is None:
        print("libcachesim is not installed: its lines are left out", file=sys.stderr)
    traces = {"shuffled": shuffled(items, 4), "zipf": zipf(items, 4 * items)}
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for name, trace in traces.items():
            figures = simulations(trace, items // 4, rounds, Path(folder, name))
            title = f"simulate, {name}, {items:,} items"
            reports.append(report(title, "M accesses per CPU second", figures))
        figures = kinds_of_ids(items, rounds, Path(folder, "ids"))
        reports.append(report(f"ids of {items:,} items", "ns per access", figures))
    figures = clairvoyant(2000 if arguments.smoke else 100_000, min(rounds, 3))
    reports.append(report("clairvoyant", "M accesses per CPU second", figures))
    save(arguments, "caching_policies", reports)


if __name__ == "__main__":
    main()
