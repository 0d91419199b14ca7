"""Buddy allocator against its twin and the best pure-Python allocator.

    python bench/bench_cells.py [--smoke] [--out DIR]

The chain is that of HiveD's micro-benchmark, GPU - switch - socket - node - rack with fan-outs
2, 2, 2, 16, at several sizes. *Half occupancy*: filled with cells of random levels, then emptied
in random order until half of the leaves are free.

pair           release a random cell and allocate one of the same level, through Python, both
               calls and the loop around them
allocate_many  per element, cells of random levels into the free half, as one batch
scale          the pair again, at sizes from 1,024 leaves to 16 million; rounds go on where the
               last ended, so a small chain gets more compact than a large one meanwhile

All contenders start from the same state, take turns, and must give the same answers. Times are
CPU time with warm caches, the least of several rounds.
"""

import sys
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, milliseconds, report, save, take_turns
from peers.heap_buddy import HeapBuddy

from hivecore.cells import BuddyAllocator
from hivecore.reference.cells import BuddyAllocator as BuddyTwin

FANOUTS = [2, 2, 2, 16]
LEAVES_PER_ROOT = 128
LEVELS = np.array([1, 1, 1, 1, 2, 3, 4])  # small jobs are the most

Cells = tuple[list[int], list[int]]


def half_occupied(roots: int) -> tuple[BuddyAllocator, Cells]:
    """An allocator of which half of the leaves are taken, and its cells in random order."""
    rng = np.random.default_rng(roots)
    allocator = BuddyAllocator(FANOUTS, roots)
    levels = rng.choice(LEVELS, roots * LEAVES_PER_ROOT // 2)
    cells = allocator.allocate_many(levels)
    order = rng.permutation(np.flatnonzero(cells >= 0))
    levels, cells = levels[order], cells[order]
    taken = np.cumsum(1 << (levels - 1))
    kept = int(np.searchsorted(taken, roots * LEAVES_PER_ROOT // 2, side="right"))
    allocator.release_many(levels[kept:], cells[kept:])
    return allocator, (levels[:kept].tolist(), cells[:kept].tolist())


def heap_peer(allocator: BuddyAllocator, cells: Cells) -> HeapBuddy:
    free = [allocator.free_cells(level).tolist() for level in range(1, allocator.levels + 1)]
    taken: list[list[int]] = [[] for _ in free]
    for level, index in zip(*cells, strict=True):
        taken[level - 1].append(index)
    return HeapBuddy.in_state_of(FANOUTS, allocator.roots, free, taken)


def twin_of(allocator: BuddyAllocator, cells: Cells) -> BuddyTwin:
    twin = BuddyTwin(FANOUTS, allocator.roots)
    for level, index in zip(*cells, strict=True):
        twin.allocated[level].add(index)
    for level in twin.free:
        twin.free[level] = allocator.free_cells(level).tolist()
    return twin


class Churn:
    """Pairs of release and allocate on one allocator; each round goes on where the last ended."""

    def __init__(self, allocator: Any, cells: Cells, pairs: int) -> None:
        self.release, self.allocate = allocator.release, allocator.allocate
        self.levels, self.cells = np.array(cells[0]), np.array(cells[1])
        self.rng = np.random.default_rng(1)
        self.pairs = min(pairs, len(self.levels))
        self.answers: list[int] = []

    def round(self) -> float:
        """Nanoseconds per pair: the best of three batches, the first of which finds cold caches."""
        return min(self.batch() for _ in range(3))

    def batch(self) -> float:
        picked = self.rng.choice(len(self.levels), self.pairs, replace=False)
        levels, cells = self.levels[picked].tolist(), self.cells[picked].tolist()
        release, allocate, taken = self.release, self.allocate, []
        take = taken.append

        def run() -> None:
            for level, index in zip(levels, cells, strict=True):
                release(level, index)
                take(allocate(level))

        seconds = cpu_seconds(run)
        self.cells[picked] = taken
        self.answers += taken
        return 1e9 * seconds / self.pairs


def agree(contenders: dict[str, Churn]) -> None:
    answers = [churn.answers for churn in contenders.values()]
    shortest = min(map(len, answers))
    assert shortest > 0
    assert all(given[:shortest] == answers[0][:shortest] for given in answers)


def pair(roots: int, pairs: int, rounds: int) -> dict[str, float]:
    allocator, cells = half_occupied(roots)
    peer = heap_peer(allocator, cells)
    twin = twin_of(allocator, cells)
    churns = {
        "kernel": Churn(allocator, cells, pairs),
        "peer": Churn(peer, cells, pairs),
        "twin": Churn(twin, cells, pairs),
    }
    figures = take_turns({name: churn.round for name, churn in churns.items()}, rounds)
    agree(churns)
    allocator.check()
    for name in ("peer", "twin"):
        figures[f"{name} / kernel"] = figures[name] / figures["kernel"]
    return figures


def batch(roots: int, elements: int, rounds: int) -> dict[str, float]:
    allocator, cells = half_occupied(roots)
    twin = twin_of(allocator, cells)
    levels = np.random.default_rng(2).choice(LEVELS, elements)
    answers: dict[str, list[int]] = {}

    def timed(name: str, contender: Any, batch: Any) -> float:
        taken: list[Any] = []
        seconds = cpu_seconds(lambda: taken.append(contender.allocate_many(batch)))
        answers[name] = list(taken[0])
        return 1e9 * seconds / elements

    def twin_round() -> float:
        """Afterwards the cells go back: another copy of the twin would take seconds."""
        nanoseconds = timed("twin", twin, levels.tolist())
        for level, index in zip(levels.tolist(), answers["twin"], strict=True):
            twin.release(level, int(index))
        return nanoseconds

    figures = take_turns(
        {
            "kernel": lambda: timed("kernel", allocator.copy(), levels),
            "peer": lambda: timed("peer", heap_peer(allocator, cells), levels.tolist()),
            "twin": twin_round,
        },
        rounds,
    )
    for name in ("peer", "twin"):
        assert answers[name] == answers["kernel"]
        figures[f"{name} / kernel"] = figures[name] / figures["kernel"]
    return figures


def scale(sizes: list[int], rounds: int) -> dict[str, float]:
    churns = {}
    for roots in sizes:
        allocator, cells = half_occupied(roots)
        churns[f"{roots * LEAVES_PER_ROOT} leaves"] = Churn(allocator, cells, 2000).round
    return take_turns(churns, rounds)


def size(roots: int, rounds: int) -> dict[str, float]:
    allocator, _ = half_occupied(roots)
    saved = allocator.to_bytes()

    figures = take_turns(
        {
            "build, ms": milliseconds(lambda: BuddyAllocator(FANOUTS, roots)),
            "copy, ms": milliseconds(allocator.copy),
            "to_bytes, ms": milliseconds(allocator.to_bytes),
            "from_bytes, ms": milliseconds(lambda: BuddyAllocator.from_bytes(saved)),
        },
        rounds,
    )
    figures["bytes per leaf"] = sys.getsizeof(allocator) / (roots * LEAVES_PER_ROOT)
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    roots, rounds = (8, 2) if smoke else (8192, 40)
    sizes = [8, 16] if smoke else [8, 512, 8192, 131_072]
    elements = 200 if smoke else 20_000
    leaves = f"{roots * LEAVES_PER_ROOT:,} leaves"
    save(
        arguments,
        "cells",
        [
            report(f"pair at {leaves}", "ns per pair", pair(roots, 1000, 2 if smoke else 12)),
            report(
                f"allocate_many at {leaves}",
                "ns per element",
                batch(roots, elements, 2 if smoke else 6),
            ),
            report("scale", "ns per pair", scale(sizes, rounds)),
            report(f"size at {leaves}", "as named", size(roots, rounds)),
        ],
    )


if __name__ == "__main__":
    main()
