"""Compares a change with its base, measured in turns on this machine.

    make bench-against BASE=main             # or: python bench/against.py main --out build/against

BASE is a commit. It is checked out and compiled below --out, and each checkout runs its own
bench/test_regressions.py. The base runs first, and once more than the change: the difference
between runs of the same code is the noise of this machine. A benchmark is slower if its least time
has grown by more than that noise; then the exit status is 1.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Smaller growth is never called slower: code at another address can cost as much.
LEAST_NOISE = 0.03

Run = dict[str, float]  # the least seconds of each benchmark


@dataclass(frozen=True)
class Row:
    """The result of a benchmark; seconds are None for a side that does not have it."""

    name: str
    base: float | None
    change: float | None
    noise: float

    @property
    def verdict(self) -> str:
        if self.base is None:
            return "new"
        if self.change is None:
            return "missing"
        if self.change > self.base * (1 + self.noise):
            return "slower"
        return "faster" if self.base > self.change * (1 + self.noise) else "same"


def compare(base: Sequence[Run], change: Sequence[Run]) -> list[Row]:
    """Return a row for each benchmark of either side, from several runs of both.

    The noise of a benchmark is the spread of its base runs, (most - least) / least, but at least
    the median spread of all benchmarks, as a few runs can agree by chance.
    """
    before, after = _times(base), _times(change)
    spreads = {name: max(times) / min(times) - 1 for name, times in before.items()}
    least = max(LEAST_NOISE, median(spreads.values()))
    return [
        Row(
            name,
            min(before.get(name, ()), default=None),
            min(after.get(name, ()), default=None),
            max(least, spreads.get(name, 0)),
        )
        for name in {**before, **after}
    ]


def _times(runs: Iterable[Run]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for run in runs:
        for name, seconds in run.items():
            times.setdefault(name, []).append(seconds)
    return times


def table(rows: Iterable[Row]) -> str:
    """Return the rows in Markdown; benchmarks that have changed come first."""
    order = ["slower", "missing", "new", "faster", "same"]
    lines = [
        "| benchmark | base, us | change, us | change / base | noise | verdict |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for row in sorted(rows, key=lambda row: order.index(row.verdict)):
        ratio = f"{row.change / row.base:.2f}" if row.base and row.change else ""
        cells = [row.name, _microseconds(row.base), _microseconds(row.change), ratio]
        lines.append(f"| {' | '.join(cells)} | {row.noise:.0%} | {row.verdict} |")
    return "\n".join(lines) + "\n"


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f}"


def read(file: Path) -> Run:
    """Return the least seconds of each benchmark in a pytest-benchmark file."""
    document = json.loads(file.read_text("utf-8"))
    return {entry["name"]: entry["stats"]["min"] for entry in document["benchmarks"]}


def measure(checkout: Path, file: Path) -> Run:
    """Run the benchmarks of a checkout against its own modules, and keep the
    figures in ``file``.
    """
    python, paths = sys.executable, {**os.environ, "PYTHONPATH": str(checkout / "python")}
    where = [python, "-c", "import hivecore; print(hivecore.__file__)"]
    imported = subprocess.check_output(where, cwd=checkout, env=paths, text=True).strip()
    if not Path(imported).is_relative_to(checkout):
        raise RuntimeError(f"the benchmarks of {checkout} would import {imported}")
    options = ["-q", "--benchmark-enable", "--benchmark-only", f"--benchmark-json={file}"]
    command = [python, "-m", "pytest", "bench/test_regressions.py", *options]
    subprocess.run(command, cwd=checkout, env=paths, check=True, stdout=subprocess.DEVNULL)
    return read(file)


def check_out(commit: str, folder: Path) -> Path:
    """Check out a commit into the folder, and compile its modules."""
    if not folder.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        add = ["git", "worktree", "add", "--quiet", "--detach", str(folder), commit]
        subprocess.run(add, cwd=ROOT, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=folder, check=True)
    compile_modules = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(compile_modules, cwd=folder, check=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("base", help="a commit, such as main")
    parser.add_argument("--rounds", type=int, default=5, help="runs of the change (default: 5)")
    parser.add_argument("--out", type=Path, default=Path("build/against"), metavar="DIR")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    sides = {"base": check_out(options.base, out / "base"), "change": ROOT}
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for side in ["base", *["base", "change"] * options.rounds]:
        file = out / f"{side}-{len(runs[side])}.json"
        runs[side].append(measure(sides[side], file))
        print(f"measured {file.name}", file=sys.stderr, flush=True)
    rows = compare(**runs)
    (out / "table.md").write_text(table(rows), "utf-8")
    lines = [{**asdict(row), "verdict": row.verdict} for row in rows]
    (out / "comparison.json").write_text(json.dumps(lines, indent=1) + "\n", "utf-8")
    print(table(rows))
    return int(any(row.verdict == "slower" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
