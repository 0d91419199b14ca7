"""Hit ratios of cache policies when every epoch is a new shuffle: simulated, and in closed form.

    python bench/bench_caching_hit_ratios.py [--smoke] [--out DIR]

one job       every item of a dataset once per epoch; the mean over epochs after the first ones, in
              which LFU, SIEVE and S3-FIFO still learn
several jobs  on one dataset, each with a shuffle of its own and at the same speed: uniform and LRU,
              which do not know the shuffles; the clairvoyant cache, which does; MIN on the merged
              trace, the bound for all

Figures go to caching_hit_ratios.json, a page of them to caching_hit_ratios.md with a plot.
"""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from harness import command_line, save, save_figure

from hivecore.caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    expected_hit_ratio,
    simulate,
)

CLOSED = ("uniform", "random", "fifo", "lru", "min")
POLICIES = (*CLOSED, "lfu", "sieve", "s3fifo")
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
SKIPPED, COUNTED = 4, 6  # epochs
BOUND = 0.002  # simulated against closed form, at 100,000 items


def of_one_job(policy: str, items: int, share: float) -> float:
    shuffle = EpochShuffle(0, items)
    epochs = [shuffle.order(epoch) for epoch in range(SKIPPED + COUNTED + 1)]
    capacity = round(share * items)
    if policy == "min":
        # The last epoch only shows what is needed again.
        mask = np.zeros(items * len(epochs), dtype=bool)
        simulate("min", np.concatenate(epochs), capacity, out=mask)
        return float(mask[SKIPPED * items : -items].mean())
    cache = PolicyCache(policy, items, capacity)
    hits = [cache.access(order) for order in epochs[:-1]]
    return sum(hits[SKIPPED:]) / (COUNTED * items)


def of_several_jobs(jobs: int, items: int, share: float) -> dict[str, float]:
    shuffles = [EpochShuffle(seed, items) for seed in range(jobs)]
    capacity = round(share * items)
    epochs = range(SKIPPED + COUNTED + 1)
    merged = np.concatenate([np.stack([s.order(e) for s in shuffles], 1).ravel() for e in epochs])
    counted = slice(SKIPPED * items * jobs, -items * jobs)
    ratios = {}
    for policy in ("uniform", "lru", "min"):
        mask = np.zeros(len(merged), dtype=bool)
        simulate(policy, merged, capacity, out=mask)
        ratios[policy] = float(mask[counted].mean())
    cache = ClairvoyantCache(capacity, [items])
    for job, shuffle in enumerate(shuffles):
        cache.attach(job, 0, shuffle, rate=1.0, start=job / jobs, epochs=len(epochs))
    hits = np.array([cache.access(k % jobs) for k in range(len(merged))])
    ratios["clairvoyant"] = float(hits[counted].mean())
    return ratios


def page(folder: Path, single: list[dict[str, Any]], several: list[dict[str, Any]]) -> None:
    lines = [
        "# Hit ratios under a new shuffle per epoch",
        "",
        f"One job; simulated, in brackets the closed form. Epochs {SKIPPED + 1} to "
        f"{SKIPPED + COUNTED}. `bench/bench_caching_hit_ratios.py` tells the rest.",
        "",
        "| policy | " + " | ".join(f"{share:.0%} cached" for share in SHARES) + " |",
        "| --- |" + " ---: |" * len(SHARES),
    ]
    for row in single:
        cells = [
            f"{seen:.4f}" + (f" ({row['expected'][k]:.4f})" if row["expected"] else "")
            for k, seen in enumerate(row["simulated"])
        ]
        lines.append(f"| {row['policy']} | " + " | ".join(cells) + " |")
    lines += ["", "![hit ratios](caching_hit_ratios.png)", "", "Several jobs on one dataset:", ""]
    lines += ["| jobs | cached | uniform | LRU | clairvoyant | MIN |", "|" + " ---: |" * 6]
    for row in several:
        ratios = [f"{row[name]:.4f}" for name in ("uniform", "lru", "clairvoyant", "min")]
        lines.append(f"| {row['jobs']} | {row['cached']:.0%} | " + " | ".join(ratios) + " |")
    (folder / "caching_hit_ratios.md").write_text("\n".join(lines) + "\n")


def plot(folder: Path, single: list[dict[str, Any]], items: int) -> None:
    figure, axes = plt.subplots(figsize=(6, 4.5))
    fine = np.linspace(0.01, 0.99, 99)
    for number, row in enumerate(single):
        color = f"C{number}"
        if row["expected"]:
            closed = [expected_hit_ratio(row["policy"], share * items, items) for share in fine]
            axes.plot(fine, closed, color=color)
        marker = "x" if row["policy"] in ("min", "sieve") else "o"
        axes.plot(SHARES, row["simulated"], marker, color=color, label=row["policy"])
    axes.set(
        xlabel="part of the dataset that is cached",
        ylabel="hit ratio",
        title="Uniform caching serves what it holds; lines: closed forms",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, folder / "caching_hit_ratios.png", bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    arguments = command_line(__doc__)
    items = 5_000 if arguments.smoke else 100_000
    single: list[dict[str, Any]] = []
    for policy in POLICIES:
        seen = [of_one_job(policy, items, share) for share in SHARES]
        expected = []
        if policy in CLOSED:
            expected = [expected_hit_ratio(policy, share * items, items) for share in SHARES]
            if not arguments.smoke:
                assert np.abs(np.subtract(seen, expected)).max() < BOUND, (policy, seen, expected)
        single.append({"policy": policy, "simulated": seen, "expected": expected})
        print(policy, *(f"{ratio:.4f}" for ratio in seen))
    several = []
    for jobs in (2, 4, 8):
        for share in (0.25, 0.5):
            row = {"jobs": jobs, "cached": share, **of_several_jobs(jobs, items // 10, share)}
            assert row["clairvoyant"] >= 0.9 * row["min"]
            several.append(row)
            print(f"{jobs} jobs", {name: round(value, 4) for name, value in row.items()})
    save(arguments, "caching_hit_ratios", {"one job": single, "several jobs": several})
    page(arguments.out, single, several)
    plot(arguments.out, single, items)


if __name__ == "__main__":
    main()
