"""Replica-aware cache and directory, compared with their twins and typical Python solutions.

    python bench/bench_replicas.py [--smoke] [--out DIR]

cache      uniform random accesses to twice as many blocks as fit, so every second one evicts, and
           as many deltas of +1 or -1 of random blocks; per access and per delta, one by one and in
           batches; peer: one heap with stale entries
report     a worker reports one block read and one evicted, to a directory of many workers
lease      per block, in batches of 64

The contenders take turns and must give the same answers. Times are CPU time in nanoseconds, the
least of several rounds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, save, show, take_turns
from peers.replica_caches import HeapCache

from hivecore.reference.replicas import ReplicaDirectory as DirectoryTwin
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory

ALPHA, BETA, MOST = 1e-5, 1000.0, 8


class Trace:
    """The same accesses and deltas for every contender; rounds continue where the
    last one ended.
    """

    def __init__(self, cache: Any, blocks: int, length: int, batches: bool) -> None:
        self.cache, self.blocks, self.length, self.batches = cache, blocks, length, batches
        self.rng = np.random.default_rng(1)
        self.hits: list[bool] = []
        self.warm_up()

    def warm_up(self) -> None:
        for block in range(self.blocks):
            self.cache.access(block)
        changes = self.rng.integers(0, 4, self.blocks)
        self.cache.apply(list(range(self.blocks)), changes.tolist())

    def accesses(self) -> float:
        blocks = self.rng.integers(self.blocks, size=self.length)
        if self.batches:
            answers: list[Any] = []
            seconds = cpu_seconds(lambda: answers.append(self.cache.access_many(blocks)))
            self.hits += answers[0][0].tolist()
        else:
            listed, access, take = blocks.tolist(), self.cache.access, self.hits.append

            def run() -> None:
                for block in listed:
                    take(access(block))

            seconds = cpu_seconds(run)
        return 1e9 * seconds / self.length

    def deltas(self) -> float:
        blocks = self.rng.integers(self.blocks, size=self.length)
        changes = self.rng.integers(0, 2, self.length) * 2 - 1
        if isinstance(self.cache, ReplicaAwareCache):
            seconds = cpu_seconds(lambda: self.cache.apply(blocks, changes))
        else:
            lists = blocks.tolist(), changes.tolist()
            seconds = cpu_seconds(lambda: self.cache.apply(*lists))
        return 1e9 * seconds / self.length


def cache_figures(capacity: int, length: int, rounds: int) -> dict[str, Any]:
    blocks = 2 * capacity
    options = {"alpha": ALPHA, "beta": BETA, "max_count": MOST}
    contenders: dict[str, Any] = {
        "one by one": ReplicaAwareCache(capacity, blocks, **options),
        "batch": ReplicaAwareCache(capacity, blocks, **options),
        "heap": HeapCache(capacity, ALPHA, BETA, MOST),
    }
    traces = {
        name: Trace(cache, blocks, length, name == "batch") for name, cache in contenders.items()
    }
    measures: dict[str, Callable[[], float]] = {}
    for name, trace in traces.items():
        measures[f"access, {name}"] = trace.accesses
        measures[f"delta, {name}"] = trace.deltas
    figures = take_turns(measures, rounds)
    del figures["delta, one by one"]  # those come in batches as well
    hits = [trace.hits for trace in traces.values()]
    assert all(given == hits[0] for given in hits)
    contenders["batch"].check()
    return figures


def directory_figures(workers: int, blocks: int, reports: int, rounds: int) -> dict[str, float]:
    held = [np.random.default_rng(w).choice(blocks, blocks // 100) for w in range(workers)]
    measures = {}
    answers: dict[str, list[Any]] = {"kernel": [], "twin": []}
    for name, make in (("kernel", ReplicaDirectory), ("twin", DirectoryTwin)):
        directory: Any = make(workers, blocks)
        for worker in range(workers):
            directory.join(worker, held[worker].tolist())
        rng = np.random.default_rng(3)

        def report(directory: Any = directory, rng: Any = rng, name: str = name) -> float:
            readers = rng.integers(workers, size=reports).tolist()
            what = rng.integers(blocks, size=(reports, 2)).tolist()
            call, take = directory.report, answers[name].append

            def run() -> None:
                for worker, (added, removed) in zip(readers, what, strict=True):
                    take(len(call(worker, [added], [removed])))

            return 1e9 * cpu_seconds(run) / reports

        def lease(directory: Any = directory, rng: Any = rng, name: str = name) -> float:
            readers = rng.integers(workers, size=max(reports // 64, 1)).tolist()
            what = [held[worker][:64].tolist() for worker in readers]
            call, take = directory.lease, answers[name].append

            def run() -> None:
                for worker, wanted in zip(readers, what, strict=True):
                    take(int(call(worker, wanted).sum()))

            return 1e9 * cpu_seconds(run) / (64 * len(readers))

        measures[f"report, {name}"] = report
        measures[f"lease per block, {name}"] = lease
    figures = take_turns(measures, rounds)
    assert answers["kernel"] == answers["twin"]
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    rounds = 2 if smoke else 7
    sizes = [1000] if smoke else [1000, 100_000, 1_000_000]
    length = 2000 if smoke else 100_000
    figures: dict[str, Any] = {
        "cache": {f"{n} blocks": cache_figures(n, length, rounds) for n in sizes},
        "directory": {
            f"{n} workers": directory_figures(n, 2000, 200 if smoke else 2000, rounds)
            for n in ([10] if smoke else [10, 100, 1000])
        },
    }
    show(figures)
    save(arguments, "replicas", figures)


if __name__ == "__main__":
    main()
