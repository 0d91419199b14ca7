"""The tables of figures in README.md and docs/, made from the files in bench/results/.

A table stands between the comments `<!-- table: NAME -->` and `<!-- end -->`. `python
docs/scripts/tables.py` writes every table again; a test fails while one does not match its results.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

Row = tuple[str, ...]

_MARK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Results:
    """The files of bench/results, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The figures of one file."""
        if name not in self._read:
            document = json.loads((self._folder / f"{name}.json").read_text("utf-8"))
            if document["smoke"]:
                raise ValueError(
                    f"bench/results/{name}.json is of a small run, not of `make bench`"
                )
            self._read[name] = document["figures"]
        return self._read[name]

    def titled(self, name: str, title: str) -> dict[str, Any]:
        """One titled part of the figures of a file."""
        [part] = [part for part in self[name] if part["title"] == title]
        return part


def _time(seconds: float) -> str:
    """A duration with two or three digits, in the unit that suits it."""
    for unit, scale in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if seconds < 999.5 * scale or unit == "s":
            break
    return f"{_digits(seconds / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def _times(factor: float) -> str:
    """How many times as long: two digits, 1,200x rather than 1,234x."""
    if factor < 9.95:
        return f"{factor:.1f}x" if factor >= 0.995 else f"{factor:.2f}x"
    step = 10 ** max(0, len(str(int(factor))) - 2)
    return f"{round(factor / step) * step:,}x"


def _share(part: float) -> str:
    return f"{100 * part:.1f} %"


def _table(head: Row, rows: Iterable[Row]) -> str:
    """A table whose first column is text."""
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _each(head: str, line: str, runs: Iterable[dict[str, Any]]) -> str:
    """A line for each run, in which fields stand for what was measured; cells are between bars."""
    return _lines(head, "\n".join(line.format_map(run) for run in runs))


def _lines(head: str, text: str) -> str:
    """The same from lines, whose cells are between bars."""
    rows = [tuple(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]
    return _table(tuple(head.split(" | ")), rows)


# --- cells -------------------------------------------------------------------------------------


def _buddy(results: Results) -> str:
    pair = results.titled("cells", "pair at 1,048,576 leaves")
    many = results.titled("cells", "allocate_many at 1,048,576 leaves")
    scale = results.titled("cells", "scale")
    size = results.titled("cells", "size at 1,048,576 leaves")
    rows = [
        (
            f"{what} at 1,048,576 GPUs",
            _time(run["kernel"] * 1e-9),
            f"{_time(run['peer'] * 1e-9)} ({_times(run['peer / kernel'])})",
            f"{_time(run['twin'] * 1e-9)} ({_times(run['twin / kernel'])})",
        )
        for what, run in (
            ("release + allocate, two calls and the loop", pair),
            ("`allocate_many`, per cell", many),
        )
    ]
    rows += [
        (f"a long series of pairs at {int(leaves.split()[0]):,} GPUs", _time(ns * 1e-9), "", "")
        for leaves, ns in scale.items()
        if leaves.endswith("leaves")
    ]
    rows += [
        (f"{what} at 1,048,576 GPUs", _time(size[key] * 1e-3), "", "")
        for what, key in (
            ("build", "build, ms"),
            ("copy", "copy, ms"),
            ("save", "to_bytes, ms"),
            ("load", "from_bytes, ms"),
        )
    ]
    rows.append(("memory per GPU", f"{size['bytes per leaf']:.2f} bytes", "", ""))
    return _table(("`BuddyAllocator`", "hivecore", "best pure Python", "readable twin"), rows)


def _cell_cluster(results: Results) -> str:
    figures = results["cell_cluster"]
    curve = {point["gpus"]: point for point in figures["curve"]}
    sizes = (1024, 65536, 1048576)
    points = [curve[size] for size in sizes]
    medians = {
        "a decision that a group has to wait": "wait",
        "a node becomes bad or healthy": "node_event",
        "what-if copy": "copy",
        "start from HiveD's YAML": "start",
    }
    seconds: dict[str, Callable[[Any], float]] = {
        "release + schedule + commit, 1 to 8 GPUs, median": lambda p: p["group"]["p50"],
        "the same, 99th percentile": lambda p: p["group"]["p99"],
        "the same where the placement is read, median": lambda p: p["read"]["p50"],
        "the same for a gang of 8 pods of 8 GPUs, median": lambda p: p["gang"]["p50"],
        **{said: lambda p, key=key: p[key]["p50"] for said, key in medians.items()},
        "recovery, per group": lambda p: p["recovery"]["ns"] / p["recovery"]["groups"],
    }
    rows = [(what, *(_time(ns(p) * 1e-9) for p in points)) for what, ns in seconds.items()]
    rows.append(("memory per GPU", *(f"{point['bytes_per_gpu']:.0f} bytes" for point in points)))
    return _table(("`CellCluster`", *(f"{size:,} GPUs" for size in sizes)), rows)


def _evictions(results: Results) -> str:
    def share(run: dict[str, Any]) -> str:
        return f"{100 * run['evicting'] / run['guaranteed']:.2f} %"

    return _churns(results, "guaranteed groups that evict another group", share)


def _evicted(results: Results) -> str:
    def share(run: dict[str, Any]) -> str:
        return f"{100 * run['evicted_gpus'] / run['guaranteed_gpus']:.2f}"

    return _churns(results, "GPUs evicted per 100 GPUs of guaranteed groups admitted", share)


def _churns(results: Results, what: str, share: Callable[[dict[str, Any]], str]) -> str:
    rows: dict[tuple[float, float], list[str]] = {}
    hived = {}
    for run in results["evictions"]["churn"]:
        kind = run["load"], run["share"]
        about = f"{100 * kind[0]:.0f} % in use, {100 * kind[1]:.0f} % of the requests opportunistic"
        rows.setdefault(kind, [about]).append(share(run))
        if "hived" in run:
            hived[kind] = share(run["hived"])
    head = (
        what,
        "hivecore",
        '`evictions="least"`',
        '`"private"`',
        "HiveD's",
    )
    return _table(head, [(*row, hived[kind]) for kind, row in rows.items()])


def _packing(results: Results) -> str:
    return _each(
        "two thirds in use | nodes partly used | HiveD's | racks of a gang of 8 nodes | HiveD's",
        "{gpus:,} GPUs | {partly_used:.0f} | {hived[partly_used]:.0f} | {racks_per_gang:.1f} "
        "| {hived[racks_per_gang]:.1f}",
        results["evictions"]["packing"],
    )


def _mixed(results: Results) -> str:
    def given(number: float | None) -> str:
        return "" if number is None else f"{number:,.0f}"

    rows = []
    for run in results["evictions"]["mixed"]:
        sides = [(run.get(n), run["hived"].get(n)) for n in ("partly_used", "in_use", "refused")]
        numbers = (given(number) for side in sides for number in side)
        rows.append((f"{run['gpus']:,.0f} GPUs", *numbers))
    head = (
        "pods of 1 to 8 GPUs",
        "nodes partly used, two thirds in use",
        "HiveD's",
        "GPUs in use after all requests",
        "HiveD's",
        "groups refused then",
        "HiveD's",
    )
    return _table(head, rows)


def _quota(results: Results) -> str:
    names = {
        "private clusters": "private clusters",
        "backfill": "private clusters with backfilling",
        "first fit": "quota, first fit",
        "best fit": "quota, best fit",
        "hivecore": "quota, the most used nodes that serve",
        "worst fit (spread)": "quota, spread over nodes",
        "cells": "cells",
        "cells, lending": "cells that lend",
    }
    rows = []
    for trace, said in (("demo", "generated"), ("itp", "Microsoft ITP")):
        runs = {
            run["placement"]: run for run in results["quota_placements"] if run["trace"] == trace
        }
        rows += [
            (
                f"{said}, {runs[name]['jobs']:,} jobs: {label}",
                f"{runs[name]['later']:,}",
                f"{runs[name]['max_hours']:,.1f} h",
                f"{runs[name]['mean_delay_minutes']:,.0f} min",
            )
            for name, label in names.items()
        ]
    head = ("trace and policy", "jobs later than in private clusters", "by up to", "mean delay")
    return _table(head, rows)


def _failures(results: Results) -> str:
    runs = [run for run in results["elastic"] if "seed" in run]
    said = dict.fromkeys((run["trace"], run["nodes"], run["on_failure"]) for run in runs)
    rows = []
    for key in said:
        chosen = [run for run in runs if (run["trace"], run["nodes"], run["on_failure"]) == key]
        stalls = sum(run["stalls"] for run in chosen)
        stalled = sum(run["stalls"] * run["mean_stall_min"] for run in chosen)
        means = [
            sum(run[name] for run in chosen) / len(chosen)
            for name in ("mean_wait_min", "mean_completion_h", "makespan_h")
        ]
        how = f"{key[0]}, {key[1]} nodes: {key[2]}"
        wait, completion, makespan = (f"{mean:,.1f}" for mean in means)
        stall = f"{stalled / stalls:,.0f} min ({stalls})"
        rows.append((how, stall, f"{wait} min", f"{completion} h", f"{makespan} h"))
    head = ("`on_failure`", "stall of a gang (number)", "mean wait", "mean completion", "makespan")
    return _table(head, rows)


def _elastic(results: Results) -> str:
    return _each(
        "gangs | mean wait | mean completion | that of gangs | makespan",
        "{trace}, {nodes} nodes: {how}, pods to the power of {power:g} | {mean_wait_min:,.0f} min "
        "| {mean_completion_h:,.1f} h | {mean_gang_completion_h:,.1f} h | {makespan_h:,.0f} h",
        (
            {**run, "how": "elastic" if run["elastic"] else "rigid"}
            for run in results["elastic"]
            if "elastic" in run
        ),
    )


def _slurm_placement(results: Results) -> str:
    runs = results["slurm_placement"]
    rows = []
    for name in sorted({run["decides"] for run in runs}, key=lambda name: (name != "Slurm", name)):
        its = [run for run in runs if run["decides"] == name]
        keys = ("extra_leaves", "makespan_s", "mean_wait_s")
        leaves, makespan, wait = (sum(run[key] for run in its) / len(its) for key in keys)
        rows.append((name, f"{leaves:.1f}", f"{makespan:.0f} s", f"{wait:.1f} s"))
    head = ("what decides", "leaf switches beyond the fewest", "makespan", "mean wait")
    return _table(head, rows)


def _slurm_throughput(results: Results) -> str:
    rows = []
    for run in results["slurm_throughput"]:
        rates, ratios = run["jobs_per_second"], run["ratios"]
        parts = [
            f"{rates[name]:.0f} a second, {ratios[name]:.2f}"
            for name in ("held, one scontrol", "broker")
        ]
        jobs = f"{run['jobs']:,} jobs, {run['settings']} settings"
        rows.append((jobs, f"{rates['plain sbatch']:.0f} a second", *parts))
    head = ("jobs of one GPU", "plain sbatch", "held, one scontrol, of plain", "broker, of plain")
    return _table(head, rows)


def _backfill(results: Results) -> str:
    rows = [
        (
            f"{run['trace']}, {run['jobs']:,} jobs: {run['rule']}",
            f"{run['mean']:,.1f} min",
            f"{run['p99']:,.0f} min",
            f"{run['promised']:,}" if run["promised"] else "",
            f"{run['broken']:,}, by {run['later']:.1f} min at most" if run["broken"] else "",
        )
        for run in results["backfill"]
    ]
    return _table(("jobs, and rule", "mean wait", "p99", "promises", "broken"), rows)


def _defragment(results: Results) -> str:
    return _each(
        "jobs | fragments | mean wait | p99 | of whole nodes | stops | GPU-hours lost",
        "{trace}, load {load:g}: {way} | {fragments:.1%} | {mean_wait_min:,.0f} min "
        "| {p99_wait_min:,.0f} min | {mean_wait_of_whole_nodes_min:,.0f} min | {stops:,} "
        "| {lost_gpu_hours:,.0f}",
        ({**run, "stops": run["moves"] + run["evictions"]} for run in results["defragment"]),
    )


def _start_fragments(results: Results) -> str:
    return _each(
        "jobs | goal | starts | another node is better | GPUs a start",
        "{trace} | {goal} | {starts:,} | {better:,} | {gain:.4f}",
        results["start_fragments"],
    )


def _spread(results: Results) -> str:
    return _each(
        "gangs | mean wait | of gangs | pods lost with a node | with a rack | racks "
        "| fullest rack over an even share",
        "{trace}, {rack} nodes a rack: {way} | {mean_wait_min:,.1f} min "
        "| {mean_wait_of_gangs_min:,.1f} min | {on_a_node:.0%} | {in_a_rack:.0%} | {racks:.2f} "
        "| {uneven:.2f}",
        results["spread"],
    )


def _demo(results: Results) -> str:
    runs = results["demo"]["configurations"]
    names = [
        name for name in dict.fromkeys(run["configuration"] for run in runs) if name != "alone"
    ]
    rows = []
    for setting in dict.fromkeys(run["setting"] for run in runs):
        row = [setting]
        for name in names:
            chosen = [
                run for run in runs if (run["setting"], run["configuration"]) == (setting, name)
            ]
            minutes = sum(run["mean_completion"] for run in chosen) / len(chosen) / 60
            later = sum(run["later"] for run in chosen) / sum(run["jobs"] for run in chosen)
            row.append(f"{minutes:,.0f} min, {later:.1%}")
        rows.append(tuple(row))
    return _table(("mean completion, jobs that start later than alone", *names), rows)


def _threads(results: Results) -> str:
    figures = results["threads"]
    said = {
        "one": "one thread",
        "each": "two threads, a cluster each",
        "shared": "two threads on one cluster",
        "RLock": "the same with a `threading.RLock` around it",
    }
    return _each(
        "`CellCluster` and threads | decisions per second | of one thread",
        "{what} | {decisions_per_second:,.0f} | {of_one_thread:.2f}",
        ({**figures[key], "what": what} for key, what in said.items()),
    )


# --- matching and interleaving -----------------------------------------------------------------


def _matching(results: Results) -> str:
    wanted = [
        ("noise", "dense: Muri's job types with 2 % noise", (4, 10, 20, 50, 200, 500, 1000, 2000)),
        ("ties", "dense: the same without noise, many ties", (4, 20, 200, 500, 1000, 2000)),
        ("uniform", "dense: uniform weights", (4, 20, 200, 500, 1000, 2000)),
        ("random", "sparse: random, 5 n edges", (10000, 100000)),
        ("kNN", "sparse: 10 nearest neighbours", (10000, 100000)),
        ("sparse delta", "sparse: delta, an adversarial family", (5004, 20004)),
        ("path", "tiny: a path", (20, 100)),
        ("chain", "tiny: a chain", (20, 100)),
        ("triangles", "tiny: triangles", (18, 102)),
        ("hard cards", "tiny: hard cards of unit weights", (6, 18, 60)),
    ]
    runs = {(run["family"], run["n"]): run["seconds"] for run in results["matching"]["contests"]}
    peers = ("LEMON", "Boost", "rustworkx", "networkx")
    rows = []
    for family, said, sizes in wanted:
        for n in sizes:
            run = runs[family, n]
            factors = [_times(run[peer] / run["hivecore"]) if peer in run else "" for peer in peers]
            native = _time(run["hivecore in C++"]) if "hivecore in C++" in run else ""
            rows.append((f"{said}, n = {n:,}", _time(run["hivecore"]), native, *factors))
    return _table(("the whole call, with its certificate", "hivecore", "in C++", *peers), rows)


def _closest(contests: list[dict[str, Any]]) -> dict[str, Any]:
    """The contest in which a peer comes closest to hivecore, or is ahead the most."""

    def least(contest: dict[str, Any]) -> float:
        seconds = contest["seconds"]
        peers = [spent for name, spent in seconds.items() if not name.startswith("hivecore")]
        return min(peers) / float(seconds["hivecore"])

    return min(contests, key=least)


def _matcher(results: Results) -> str:
    rows = [
        (
            f"{run['n']:,} noisy jobs",
            *(
                f"{_time(run['seconds'][kind])} ({run['seconds'][kind] / run['scratch'][kind]:.2f})"
                for kind in ("change", "leave", "come")
            ),
        )
        for run in results["matching"]["changes"]
        if run["family"] == "noise"
    ]
    head = ("`Matcher`: time, and part of that from scratch", "one changes", "leaves", "comes")
    return _table(head, rows)


def _backend(results: Results) -> str:
    rows = [
        (
            f"n = {run['n']:,}",
            _time(run["seconds"]["hivecore"]),
            _time(run["seconds"]["networkx"]),
            _times(run["seconds"]["networkx"] / run["seconds"]["hivecore"]),
        )
        for run in results["matching"]["backend"]
    ]
    return _table(("`nx.max_weight_matching`, noisy jobs", "hivecore", "networkx", "factor"), rows)


def _interleaving(results: Results) -> str:
    figures = results["interleaving"]
    rows = []
    for run in figures["pairs"]:
        seconds = run["seconds"]
        rows.append(
            (
                f"efficiencies of all pairs of {run['jobs']:,} jobs",
                _time(seconds["hivecore"]),
                f"NumPy row by row {_times(seconds['NumPy, row by row'] / seconds['hivecore'])}, "
                f"at once {_times(seconds['NumPy, all pairs'] / seconds['hivecore'])}",
            )
        )
    for run in figures["lists"]:
        seconds = run["seconds"]
        rows.append(
            (
                f"efficiencies of {run['groups']:,} groups of {run['size']} jobs",
                _time(seconds["hivecore"]),
                f"twin {_times(seconds['twin'] / seconds['hivecore'])}",
            )
        )
    for run in figures["grouping"]:
        seconds = run["seconds"]
        if run["model"] == "barrier" and "twin" in seconds:
            rows.append(
                (
                    f"Muri's grouping of {run['jobs']:,} jobs of {run['profiles']} profiles",
                    _time(seconds["hivecore"]),
                    f"twin {_times(seconds['twin'] / seconds['hivecore'])}",
                )
            )
    for run in figures["methods"]:
        seconds, values = run["seconds"], run["values"]
        if "exact" in seconds:
            peer = f"HiGHS, program given {_times(seconds['HiGHS'] / seconds['exact'])}"
            what = f"best groups of {run['jobs']:,} jobs of {run['profiles']} profiles, proved"
            rows.append((what, _time(seconds["exact"]), peer))
        else:
            gain = 100 * (1 - values["muri"] / values["auto"])
            peer = (
                f"Muri's rounds {_times(seconds['muri'] / seconds['auto'])}, "
                f"and {gain:.2g} % less progress"
            )
            what = f'"auto" of {run["jobs"]:,} jobs of {run["profiles"]:,} profiles'
            rows.append((what, _time(seconds["auto"]), peer))
    for run in figures["events"]:
        what = f"a `Grouper` of {run['jobs']} jobs when one ends and one comes"
        rows.append((what, _time(run["seconds"]["hivecore"]), ""))
    for run in figures.get("large", []):
        what = f"Muri's grouping of {run['jobs']:,} jobs of {run['profiles']:,} profiles"
        what += f", {run['noise']:.0%} noise".replace("%", " %") if run["noise"] else ""
        rows.append((what, _time(run["cpu"]), f"{run['MiB']:,.0f} MiB"))
    return _table(("four resources", "hivecore", "peers in the same run"), rows)


# --- devices -----------------------------------------------------------------------------------


def _devices_filter(results: Results) -> str:
    runs = results["devices"]["filter"]
    rows = []
    for request in ("4 GPUs", "half a GPU", "a partition of 4"):
        rows.append(_filtered(request, runs[request]["seconds"]))
    joint = "2 GPUs, a NIC and VF on each switch"
    said = "2 GPUs, with a NIC and a virtual function of it on each switch"
    rows.append(_filtered(said, runs[joint]["seconds"]))
    head = ("10,000 nodes filtered and scored for", "first time", "asked again", "NumPy", "twin")
    return _table(head, rows)


def _filtered(said: str, seconds: Any) -> Row:
    first = seconds["kernel"]
    peers = (_times(seconds[peer] / first) for peer in ("numpy", "twin"))
    return (said, _time(first), _time(seconds["again"]), *peers)


def _devices_life(results: Results) -> str:
    figures = results["devices"]
    life, gang, sharing = figures["life"], figures["gang"], figures["sharing"]
    curve = {point["nodes"]: point for point in figures["curve"]}
    memory = figures["memory"]
    reserved = figures["reserved"]["seconds"]
    largest = curve[100_000]
    rows = [
        ("schedule, a kind of pod seen before, median", _time(life["schedule p50"])),
        ("schedule + commit, median", _time(life["schedule and commit p50"])),
        ("the same, 99th percentile", _time(life["schedule and commit p99"])),
        ("schedule + commit at 100,000 nodes, mean", _time(largest["schedule and commit"])),
        ("a gang of 32 pods of 8 GPUs and 8 NICs, decided", _time(gang["decide"])),
        ("the same, decided and committed", _time(gang["decide and commit"])),
        ("100,000 nodes filtered, first time", _time(largest["filter"])),
        ("gpushare: filter + bind, 8 cards a node, median", _time(sharing["filter and bind p50"])),
        ("the same, 99th percentile", _time(sharing["filter and bind p99"])),
        ("pod of 2 GPUs through a reservation, decided", _time(reserved["decide through one"])),
        ("the same, decided, committed and released", _time(reserved["life through one"])),
        ("the same without reservations", _time(reserved["life without"])),
        ("the best of 1,000 reservations", _time(reserved["decide among all"])),
        ("10,000 nodes filtered with 1,000 reservations", _time(reserved["filter with all"])),
        ("memory of a node of 8 GPUs and 8 NICs, idle", f"{memory['idle']:,.0f} bytes"),
        ("the same with four owners", f"{memory['four owners']:,.0f} bytes"),
    ]
    return _table(("through Python, 10,000 nodes", "hivecore"), rows)


def _devices_koordinator(results: Results) -> str:
    ours = results["devices"]["filter"]
    rows = []
    for run in results["devices_koordinator"]:
        choice, score = (
            f"{low} us" if low == high else f"{low} to {high} us"
            for low, high in (run["choice us"], run["score us"])
        )
        low, high = (
            10_000 * 1e-6 * sum(run[part][end] for part in ("choice us", "score us"))
            for end in (0, 1)
        )
        like = run.get("like", "4 GPUs")
        taken = _time(ours[like]["seconds"]["kernel"])
        whole = f"{low:.1f} to {high:.1f} s"
        rows.append((f"{run['node']}: {run['request']}", choice, score, whole, taken))
    head = ("Koordinator's Go code, one node", "choice", "score", "10,000 nodes")
    return _table((*head, "hivecore, most like it"), rows)


def _devices_joint(results: Results) -> str:
    groups: dict[tuple[str, float], dict[int, Any]] = {}
    for run in results["devices"]["joint"]:
        groups.setdefault((run["machine"], run["NICs busy"]), {})[run["GPUs"]] = run
    rows = []
    for (machine, busy), by_gpus in groups.items():
        runs = [by_gpus[gpus] for gpus in (1, 2, 4)]
        missed = sum(run["missed"] for run in runs)
        greedy = (f"{100 * run['missed by greedy'] / run['possible']:.0f} %" for run in runs)
        rows.append((machine, f"{100 * busy:.0f} %", f"{missed}", *greedy))
    head = ("machine", "NICs in use", "hivecore misses", "GPUs first, 1 GPU", "2 GPUs", "4 GPUs")
    return _table(head, rows)


# --- data --------------------------------------------------------------------------------------


def _uniform(results: Results) -> str:
    def part(title: str) -> dict[str, Any]:
        return results.titled("caching_uniform", title)

    batch = part("batches of 1,000,000 ids")
    single = part("singles of 100,000 ids")
    lookups = part("lookups of 1,000 keys")
    memory = part("memory, 100,000 items")
    bitmap, masked = (_times(batch[f"NumPy bitmap / job{mask}"]) for mask in ("", ", mask"))
    whole, hits, each = (
        _time(ns * 1e-9) for ns in (batch["job"], batch["job, mask"], single["UniformCache, job"])
    )
    peers = ("functools.lru_cache", "cachetools.LRUCache")
    reads, keys = (
        f"`lru_cache` {_times(run[f'{peers[0]} / {of}'])}, "
        f"`cachetools` {_times(run[f'{peers[1]} / {of}'])}"
        for run, of in ((single, "UniformCache, job"), (lookups, "UniformMapping"))
    )
    per_item = f"{memory['UniformCache, no job']:.2f} / {memory['UniformCache, job']:.2f} bytes"
    bits = f"NumPy bitmap {memory['NumPy bitmap']:.0f} byte"
    pairs = single["UniformMapping"], single["functools.lru_cache / UniformMapping"]
    return _lines(
        "`UniformCache` | hivecore | peers in the same run",
        f"""1,000,000 shuffled reads of a job in one batch, per read|{whole}|NumPy bitmap {bitmap}
        the same with a mask of the hits|{hits}|NumPy bitmap {masked}
        100,000 items, one call per read|{each}|{reads}
        `UniformMapping`, look-up and store|{_time(pairs[0] * 1e-9)}|`lru_cache` {_times(pairs[1])}
        `UniformMapping`, hits of 1,000 keys|{_time(lookups["UniformMapping"] * 1e-9)}|{keys}
        memory per item, without / with a job's unread items|{per_item}|{bits}""",
    )


def _policies(results: Results) -> str:
    shuffled = results.titled("caching_policies", "simulate, shuffled, 1,000,000 items")
    zipf = results.titled("caching_policies", "simulate, zipf, 1,000,000 items")
    names = {
        "lru": "LRU",
        "fifo": "FIFO",
        "random": "RANDOM",
        "lfu": "LFU",
        "clock": "CLOCK",
        "sieve": "SIEVE",
        "s3fifo": "S3-FIFO",
        "min": "Belady's MIN",
    }
    rows = [
        (
            said,
            f"{shuffled[name]:.0f}",
            _times(shuffled[f"{name} / libcachesim"]),
            f"{zipf[name]:.0f}",
            _times(zipf[name] / zipf[f"{name}, libcachesim"]),
        )
        for name, said in names.items()
    ]
    head = ("1,000,000 items", "shuffled, M/s", "libCacheSim", "Zipf, M/s", "libCacheSim")
    return _table(head, rows)


def _ids(results: Results) -> str:
    figures = results.titled("caching_policies", "ids of 1,000,000 items")
    names = {
        "numpy scatter": "NumPy's `positions[ids] = values`, the least that memory allows",
        "dense": "ids from 0 on",
        "int64": "random 64-bit integers",
        "string array": "strings in a NumPy array",
        "string list": "a list of strings",
        "libcachesim": "libCacheSim, 64-bit integers",
    }
    rows = [(said, f"{figures[name]:.0f} ns") for name, said in names.items()]
    return _table(("LRU, 1,000,000 items, half of them fit", "per access"), rows)


def _hit_ratios(results: Results) -> str:
    figures = results["caching_hit_ratios"]
    cached = (0.1, 0.25, 0.5, 0.75, 0.9)
    rows = [
        (f"one job, {run['policy']}", *(_share(ratio) for ratio in run["simulated"]))
        for run in figures["one job"]
    ]
    return _table(("part of the dataset that is cached", *(f"{c:.0%}" for c in cached)), rows)


def _shared_datasets(results: Results) -> str:
    rows = [
        (
            f"{run['jobs']} jobs, {run['cached']:.0%} cached",
            *(_share(run[name]) for name in ("uniform", "lru", "clairvoyant", "min")),
        )
        for run in results["caching_hit_ratios"]["several jobs"]
    ]
    head = ("jobs on one dataset", "uniform", "LRU", "`ClairvoyantCache`", "Belady's MIN")
    return _table(head, rows)


def _storage(results: Results) -> str:
    run = results.titled("storage", "allocate, own: 100,000 jobs, 100,000 datasets")
    level = results.titled("storage", "max-min, own: 100,000 jobs, 100,000 datasets")
    limiter = results.titled("storage", "limiter: 1,000 jobs")
    rows = []
    for name, said in (
        ("greedy", "least remote IO"),
        ("throughput", "total throughput"),
        ("max_min", "max-min fairness"),
        ("finish_time", "finish times"),
        ("fifo", "FIFO"),
        ("sjf", "SJF"),
    ):
        peers = [f"twin {_times(run[f'{name}, twin'] / run[name])}"]
        if f"{name}, NumPy" in run:
            peers.insert(0, f"NumPy {_times(run[f'{name}, NumPy'] / run[name])}")
        if name == "max_min":
            factor = level["HiGHS, cache given"] / level["kernel"]
            peers.append(f"its level by HiGHS {_times(factor)}")
        what = f"100,000 jobs with a dataset each: {said}"
        rows.append((what, _time(run[name] * 1e-3), ", ".join(peers)))
    for name, said in (
        ("take, one by one", "`RemoteIOLimiter.take`, 1,000 jobs"),
        ("take, batches of 1000", "`take_many`, per request"),
    ):
        factor = limiter["take, floats"] / limiter[name]
        row = (said, _time(limiter[name] * 1e-9), f"bucket of Python floats {_times(factor)}")
        rows.append(row)
    return _table(("shares of cache and remote IO", "hivecore", "peers in the same run"), rows)


def _replicas(results: Results) -> str:
    figures = results["replicas"]
    rows = []
    for size, run in figures["cache"].items():
        blocks = f"{int(size.split()[0]):,} blocks"
        for key, said, peer in (
            ("access, one by one", "access, one by one", "access, heap"),
            ("access, batch", "access, in a batch", "access, heap"),
            ("delta, batch", "change of a count, in a batch", "delta, heap"),
        ):
            factor = f"Python heap {_times(run[peer] / run[key])}"
            rows.append((f"`ReplicaAwareCache`, {blocks}: {said}", _time(run[key] * 1e-9), factor))
    for size, run in figures["directory"].items():
        workers = f"{int(size.split()[0]):,} workers"
        key = "lease per block, kernel"
        factor = f"twin {_times(run['lease per block, twin'] / run[key])}"
        row = (f"`ReplicaDirectory`, {workers}: lease, per block", _time(run[key] * 1e-9), factor)
        rows.append(row)
    return _table(("replicas", "hivecore", "peers in the same run"), rows)


# --- simulator and protocol --------------------------------------------------------------------


def _replays(results: Results) -> str:
    runs = {(run["trace"], run["task"], run.get("nodes")): run["seconds"] for run in results["sim"]}
    philly, gang, muri = ("philly", None), ("gang", 62500), ("trace2", None)
    rows = []
    for (trace, nodes), task, said in (
        (philly, "event loop alone", "Philly, 82,229 jobs: an event loop alone"),
        (philly, "cells, by hand", "Philly: cells, in a loop written for them alone"),
        (philly, "cells", "Philly: cells, by a `Scheduler`"),
        (philly, "private", "Philly: private clusters"),
        (philly, "quota", "Philly: quota"),
        (philly, "cells, lending", "Philly: cells that lend"),
        (philly, "the whole command", "the whole command: start, reading, three replays, pictures"),
        (muri, "fifo", "Muri's trace2, 5,755 jobs: FIFO"),
        (muri, "srtf", "Muri's trace2: SRTF"),
        (muri, "tiresias", "Muri's trace2: Tiresias"),
        (("cluster_trace", None), "muri-s", "400 jobs of Muri's testbed: Muri-S"),
        (gang, "quota", "one gang of 62,500 nodes: quota"),
        (gang, "cells", "one gang of 62,500 nodes: cells"),
    ):
        rows.append((said, _time(runs[trace, task, nodes])))
    return _table(("replay", "hivecore"), rows)


def _muri(results: Results) -> str:
    mean = {
        (run["trace"], run["policy"], run["variant"]): run["measured"]["mean_completion"]
        for run in results["muri_figures"]
    }
    rows = []
    for trace in dict.fromkeys(trace for trace, _, _ in mean):
        row = [f"`{trace}`"]
        for kind in ("s", "l"):
            matchings = mean[trace, f"muri-{kind}", "autopack"]
            row.append(f"{matchings / 3600:,.1f} h")
            for variant in ("same candidates", "exact"):
                best = mean[trace, f"muri-exact-{kind}", variant]
                row.append(f"{100 * (best / matchings - 1):+.1f} %")
        rows.append(tuple(row))
    head = ("mean completion time", "Muri-S", "best of its candidates", "best groups")
    return _table((*head, "Muri-L", "best of its candidates", "best groups"), rows)


def _storage_systems(results: Results) -> str:
    figures = results["sim_storage"]
    systems = ("silod", "quiver", "coordl", "alluxio")
    names = {"silod": "SiloD", "quiver": "Quiver", "coordl": "CoorDL", "alluxio": "Alluxio"}
    rows = []
    for key, said in (("replay", "Muri's trace3"), ("policies", "made-up workload")):
        groups: dict[tuple[str, float, float], dict[str, list[float]]] = {}
        for run in figures[key]:
            case = (run["policy"], run["cache_gb"], run["bandwidth_mbps"])
            ratios = groups.setdefault(case, {})
            ratios.setdefault(run["storage"], []).append(run["mean_completion_over_silod"])
        for (policy, cache, bandwidth), ratios in groups.items():
            cells = []
            for system in systems:
                low, high = min(ratios.get(system, [0])), max(ratios.get(system, [0]))
                spread = f"{low:.2g} to {high:.2g}" if high - low >= 0.05 else f"{high:.2g}"
                cells.append(spread if system in ratios else "")
            case = f"{said}, {policy}, {cache:,.0f} GB, {bandwidth:,.0f} MB/s"
            rows.append((case, *cells))
    return _table(("mean completion time over SiloD's", *names.values()), rows)


def _openb(results: Results) -> str:
    chosen: dict[str, list[str]] = {}
    for run in results["devices_openb"]["replays"]:
        recorded = run["reported"]
        share = f"{run['allocated']['100']:.1f} %"
        cells = chosen.setdefault(run["policy"], [run["policy"]])
        cells += [share, f"{recorded['allocated']['100']:.1f} %" if recorded else ""]
    head = ["GPUs allocated"]
    for run in results["devices_openb"]["replays"]:
        if run["list"] not in head:
            head += [run["list"], "recorded"]
    return _table(tuple(head), (tuple(cells) for cells in chosen.values()))


def _openb_times(results: Results) -> str:
    figures = results["devices_openb"]
    rows = [
        (
            run["policy"],
            _time(run["replay"]),
            _time(run["per pod"]),
            f"{_time(run['twin'])}, {_times(run['twin'] / run['per pod'])}",
            _time(run["orders"]),
        )
        for run in figures["time"]
    ]
    whole = _time(sum(run["orders"] for run in figures["time"]))
    head = ("policy", "a replay", "a pod", "its twin", f"{figures['seeds']} orders")
    return _table(head, [*rows, ("all of them", "", "", "", whole)])


def _server(results: Results) -> str:
    runs = results["hived_server"]["contenders"]
    many, both, figures = (runs[name] for name in ("filter", "filter + bind", "one at a time"))
    polled = runs["polled"]

    def pair(run: dict[str, float], name: str) -> str:
        return " / ".join(f"{run[f'{name}_ms_{part}']:.3g} ms" for part in ("p50", "p99"))

    rows = [
        ("filter, 16 connections", f"{many['per_second']:,.0f}", pair(many, "filter")),
        ("filter + bind, 16 connections", f"{both['per_second']:,.0f}", pair(both, "bind")),
        ("filter, one at a time", "", pair(figures, "named")),
        ("filter without node names, one at a time", "", pair(figures, "unnamed")),
        ("bind, one at a time", "", pair(figures, "bind")),
        ("the same filter, in process", "", pair(runs["in process"], "named")),
        ("names in another order each time", "", pair(runs["in process"], "reordered")),
        ("without names", "", pair(runs["in process"], "unnamed")),
        ("clusterstatus, 48 MB, again and again", "", pair(polled, "poll")),
        ("filter beside it", "", pair(polled, "filter")),
    ]
    head = ("65,536 GPUs, 8,192 node names", "a second", "latency, p50 / p99")
    return _table(head, rows)


def _hived_pods(results: Results) -> str:
    chosen = results["hived_pods"]["us"]
    names = {
        "no names": "no names",
        "same list": "a list of all 8,192 nodes, the same each time",
        "read again": "an equal list of other strings",
        "other order": "one in another order each time",
        "one missing": "one without another node each time",
    }
    rows = [
        (label, *(_time(chosen[kind][way]["p50"] * 1e-6) for kind in ("pod", "gang")))
        for way, label in names.items()
    ]
    return _table(("the pods respect", "a pod of 1 to 8 GPUs", "8 pods of 8 GPUs"), rows)


# --- quotas ------------------------------------------------------------------------------------


def _quotas_fill(results: Results) -> str:
    runs = results["quotas"]["fill"]["seconds"]
    [go] = [run for run in results["quotas_koordinator"] if run["children"] == 10_000]
    low, high = go["redistribution ms"]
    rows = [
        (
            pattern,
            _time(seconds["kernel"]),
            *(_times(seconds[peer] / seconds["kernel"]) for peer in ("numpy", "twin")),
            f"{low} to {high} ms",
        )
        for pattern, seconds in runs.items()
    ]
    head = ("10,000 children, requests", "hivecore", "NumPy", "twin")
    return _table((*head, "Koordinator's Go, another run"), rows)


def _quotas_life(results: Results) -> str:
    figures = results["quotas"]
    runtimes, memory = figures["runtimes"]["seconds"], figures["memory"]
    wide, narrow = figures["reclaim"]["10,000 leaves"], figures["reclaim"]["100 leaves"]
    largest = figures["curve"][-1]
    factor = _times(runtimes["numpy"] / runtimes["kernel"])
    rows = [
        ("all runtimes of 10,000 leaves in 100 groups", _time(runtimes["kernel"])),
        ("the same in NumPy, all groups at once", factor),
        ("a request comes, one runtime is read, there, median", _time(figures["change"]["p50"])),
        (f"the same among {largest['leaves']:,} leaves", _time(largest["change"]["p50"])),
        *(
            (
                f"the same, {run['children']:,} children of one quota, {run['weights']} weights",
                _time(run["change"]["p50"]),
            )
            for run in figures["wide"]
            if run["weights"] > 1
        ),
        (
            "submit + schedule + commit + release of a gang, 4 levels deep, median",
            _time(figures["life"]["p50"]),
        ),
        ("the same, 99th percentile", _time(figures["life"]["p99"])),
        ("victims among 100,000 owners in 10,000 leaves, median", _time(wide["p50"])),
        ("the same in 100 leaves", _time(narrow["p50"])),
        *(
            (
                f"{case}, 100 leaves, 1,000 owners: the twin",
                _times(seconds["twin"] / seconds["kernel"]),
            )
            for case, seconds in (
                ("runtimes", figures["twin"]["runtimes"]),
                ("a life", figures["twin"]["life"]),
                ("victims", figures["twin"]["reclaim"]),
            )
        ),
        ("copy of 10,000 quotas with 100,000 owners", _time(figures["copy"]["copy"])),
        ("memory of a quota, for each dimension", f"{memory['quota and dimension']:,.0f} bytes"),
        ("memory of an owner beside its name", f"{memory['owner']:,.0f} bytes"),
    ]
    return _table(("through Python, 4 dimensions", "hivecore"), rows)


# --- device claims -----------------------------------------------------------------------------


def _dra_hard(results: Results) -> str:
    rows = [
        (
            row["name"],
            "yes" if row["is served"] else "no",
            *(_time(row[mode]) for mode in ("first", "best")),
            *(_time(row[peer]) if row[peer] else "no end" for peer in ("twin", "HiGHS")),
        )
        for row in results["dra"]["hard"]
    ]
    return _table(("claim", "served", "first", "best", "twin", "HiGHS"), rows)


def _dra_kubernetes(results: Results) -> str:
    rows = [
        (
            row["claim"],
            *(
                _time(row[column] * 1e-6) if row[column] else "stopped at 30 s"
                for column in ("go us", "new us", "known us")
            ),
        )
        for row in results["dra_kubernetes"]
    ]
    return _table(("claim", "Kubernetes", "a new class of nodes", "a known one"), rows)


def _dra(results: Results) -> str:
    figures = results["dra"]["cluster"]
    nodes = f"{figures['nodes']:,} nodes of 20 devices"
    many = figures["many classes"]
    rows = [
        (f"{nodes}: read from objects", _time(figures["read"])),
        ("the first question", _time(figures["first question"])),
        ("which nodes fit a claim of a new kind", _time(figures["fits, new kind"])),
        ("the same again, nothing changed", _time(figures["fits, nothing changed"])),
        (
            f"which nodes fit a claim of a new kind, {many['classes']} states of use",
            _time(many["fits, new kind"]),
        ),
        ("schedule and commit a claim, median", _time(figures["schedule and commit"])),
        ("release", _time(figures["release"])),
        (
            f"{figures['claims']:,} claims for a GPU until all are in use, allocations written",
            _time(figures["fill"]),
        ),
    ]
    return _table(("through Python", "hivecore"), rows)


# --- queues ------------------------------------------------------------------------------------


def _queues(results: Results) -> str:
    ways = {
        "weighted": "weighted",
        "round-robin": "round-robin",
        "key": "key",
        "one heap": "one heap",
        "scan": "KubeDL's way",
    }
    rows = [
        (
            f"{point['jobs']:,}",
            *(_time(point["seconds"][way]) for way in ways),
            f"{point['bytes per job']:.0f}",
        )
        for point in results["queues"]["curve"]
    ]
    return _table(("jobs", *ways.values(), "bytes a job"), rows)


# --- scheduler ---------------------------------------------------------------------------------


def _scheduler(results: Results) -> str:
    figures = results["scheduler"]
    rows = [
        (
            f"a gang of {row['gang']}{where}: submit, decide, finish",
            *(_time(row[of][part]) for of in ("scheduler", "parts") for part in ("p50", "p99")),
        )
        for run, where in (("decisions", ""), ("no cells", ", no cells"))
        for row in figures[run]
    ]
    waiting = figures["waiting"]
    for event, times in waiting.items():
        if event != "jobs":
            what = f"{waiting['jobs']:,} jobs wait: {event}, and decide"
            rows.append((what, _time(times["p50"]), _time(times["p99"]), "", ""))
    pairs = figures["together"]
    what = f"{pairs['pairs']} pairs of gangs wait that start together: a job ends, and decide"
    rows.append((what, _time(pairs["p50"]), _time(pairs["p99"]), "", ""))
    for row in figures["explain"]:
        what = f"why a gang of {row['pods']} x 8 GPUs waits, and which jobs have to end"
        rows.append((what, _time(row["p50"]), _time(row["p99"]), "", ""))
    rows.append(("a branch of all of it", _time(figures["copy seconds"]), "", "", ""))
    log = figures["log"]["seconds"]
    rows += [
        (f"the same jobs {what}", _time(log[which]), "", "", "")
        for what, which in (
            ("without a log", "without"),
            ("with one", "with"),
            ("run again from it", "replay"),
        )
    ]
    return _table(("", "p50", "p99", "parts alone: p50", "p99"), rows)


def _moves(results: Results) -> str:
    figures = results["moves"]
    units = {"jobs": ("jobs", 1.0), "gpu_seconds": ("GPU-hours", 3600.0)}
    rows = []
    for plan in figures["plans"]:
        unit, scale = units[plan["cost"]]
        cost, least, peer = (
            "none found" if value is None else f"{value / scale:,.0f}"
            for value in (plan["plan"], plan["at least"], plan["emptying"])
        )
        time = _time(plan["seconds"])
        rows.append((f"{plan['goal']}: {unit}", cost, least, str(plan["moves"]), time, peer))
    head = ("", "plan", "at least", "moves", "time", "emptying the emptiest")
    return _table(head, rows)


# --- topology ----------------------------------------------------------------------------------


def _topology(results: Results) -> str:
    figures = results["topology"]
    exact, greedy = figures["place"]["exact"], figures["place"]["koordinator"]
    sizes, twin = figures["twin"], figures["twin"]["seconds"]
    kueue = results["topology_kueue"]
    nodes, took = kueue["nodes"], kueue["assignment ms"]
    near, far = (_time(figures["change"][f"{n} nodes"]["p50"]) for n in ("10,000", "100,000"))
    return _lines(
        "through Python | hivecore",
        f"""256 pods in 10,000 nodes, a new network each time, median | {_time(exact["p50"])}
        the same, 99th percentile | {_time(exact["p99"])}
        the same, Koordinator's way in Python, median | {_time(greedy["p50"])}
        8 nodes change and 8 pods are placed, 10,000 nodes, median | {near}
        the same, 100,000 nodes | {far}
        {sizes["pods"]} pods in {sizes["nodes"]} nodes | {_time(twin["kernel"])}
        the same, readable twin | {_times(twin["twin"] / twin["kernel"])}
        the same, integer programs (HiGHS) | {_times(twin["HiGHS"] / twin["kernel"])}
        another run: Kueue's assignment, {nodes:,} nodes, as its authors publish it | {took} ms""",
    )


def _topology_roles(results: Results) -> str:
    rows = [
        (
            f"{run['pods']} and {run['others']}",
            _time(run["p50"]),
            _time(run["p99"]),
            f"{run['optimal']} of {run['networks']}",
        )
        for run in results["topology"]["roles"]
    ]
    return _table(("pods of each role", "median", "99th percentile", "optimal"), rows)


def _topology_greedy(results: Results) -> str:
    rows = []
    for run in results["topology"]["greedy"]:
        of = run["placed"]
        rows.append(
            (
                f"{run['load']:.0%}".replace("%", " %"),
                "none" if run["segment"] == 1 else f"{run['segment']} pods",
                f"{of:,}",
                *(
                    f"{run[what] / of:.0%}".replace("%", " %")
                    for what in ("not found", "wider", "more domains")
                ),
            )
        )
    head = ("load", "segments", "gangs", "not placed", "in a wider layer")
    return _table((*head, "with more domains"), rows)


# --- gangs -------------------------------------------------------------------------------------


def _gangs(results: Results) -> str:
    figures = results["gangs"]
    most, least = figures["curve"][-1], figures["curve"][0]
    pods, gangs, event = most["pods"], most["gangs"], most["event"]
    crowd, preempt = figures["crowd"], figures["preempt"]
    groups = f"{crowd['groups']:,}"
    held, lost = (_time(crowd[what]["p50"]) for what in ("held up", "lost"))
    whole = f"{preempt['pending']} pods, {preempt['running']:,} running pods"
    return _lines(
        "through Python | hivecore",
        f"""an event, {pods:,} pods in {gangs:,} gangs, mean | {_time(event["mean"])}
        the same, median | {_time(event["p50"])}
        the same, 99th percentile | {_time(event["p99"])}
        an event, {least["pods"]:,} pods, mean | {_time(least["event"]["mean"])}
        a pod is held up, and {groups} groups hold what it lacks, median | {held}
        a gang gives back what {groups} failed groups lack, median | {lost}
        whole jobs leave for {whole} | {_time(preempt["seconds"])}
        memory of a pod | {most["bytes per pod"]:,.0f} bytes""",
    )


# --- curves ------------------------------------------------------------------------------------


def _memory(results: Results) -> str:
    rows = []
    for axis, of, sizes in (
        ("GPUs", "a node of 8 GPUs", (16_384, 1_048_576)),
        ("jobs", "a job that waits", (10_000, 1_000_000)),
    ):
        for part, points in results["curves"][axis].items():
            by_size = {point["size"]: point for point in points}
            reached = (sizes[0], max(by_size))
            cells = (f"{size:,} {axis}: {by_size[size]['bytes each']:,.0f}" for size in reached)
            rows.append((f"{part}: {of}", *cells))
    return _table(("bytes", "among few", "among many"), rows)


# --- README ------------------------------------------------------------------------------------


def _peer(name: str, factor: float) -> str:
    """How much longer a peer takes, and whether it is faster."""
    return f"{name} {_times(factor)}{', faster' * (factor < 0.995)}"


def _installed(seconds: dict[str, float], ours: str, **peers: str) -> str:
    """The peers by the names that they have there; one that was not installed says so."""
    return "; ".join(
        _peer(name, seconds[key] / seconds[ours]) if key in seconds else f"{name}: not installed"
        for key, name in peers.items()
    )


def _quantiles(run: dict[str, float]) -> str:
    return f"{_time(run['p50'])}, p99 {_time(run['p99'])}"


def _speed(results: Results) -> str:
    run = results["readme"]
    gangs = {row["gang"]: row for row in run["scheduler"]["decisions"]}
    by_kind = [gangs["8 GPUs"], gangs["8 pods of 8 GPUs and 8 NICs"]]
    small, gang = (_quantiles(row["scheduler"]) for row in by_kind)
    by_hand = [
        _peer("its parts, called by hand,", row["parts"]["p50"] / row["scheduler"]["p50"])
        for row in by_kind
    ]
    pods = run["pods"]
    lives = {name: pods[name]["p50"] for name in ("hivecore", "HiveD") if name in pods}
    claims, cache = run["claims"], run["replicas"]
    devices = run["devices"]["4 GPUs"]["seconds"]
    every, change = run["quotas"]["every"], run["quotas"]["change"]
    again = _peer("NumPy, which computes all again,", every["numpy"] / change["p50"])
    place, greedy = run["topology"]["exact"], run["topology"]["koordinator"]
    contests = run["matching"]["contests"]
    best = next(figures for figures in contests if figures["n"] == 1000)["seconds"]
    worst = _closest(contests)
    solvers = {"Boost": "Boost", "LEMON": "LEMON", "rustworkx": "rustworkx"}
    pairs, lru, storage = run["interleaving"]["seconds"], run["caching"], run["storage"]
    trace, replays = run["simulator"]["trace"], run["simulator"]["seconds"]
    policies = ("private", "quota", "cells")
    ours = sum(replays[name] for name in policies)
    loops = sum(replays[f"{name}, by hand"] for name in policies)
    text = f"""\
scheduler | 8 GPUs of 65,536: submit, decide, finish | {small} | {by_hand[0]}
scheduler | the same, 8 pods of 8 GPUs and 8 NICs | {gang} | {by_hand[1]}
cells | a pod of 1 to 8 GPUs of {pods["gpus"]:,} goes, another one is bound \
| {_quantiles(pods["hivecore"])} | {_installed(lives, "hivecore", HiveD="HiveD's Go")}
devices | 10,000 nodes, unseen, filtered and scored for 4 GPUs | {_time(devices["kernel"])} \
| {_installed(devices, "kernel", numpy="NumPy, for such nodes alone,", twin="readable twin")}
device claims | 8 pairs of a GPU and a NIC by PCIe root, on a node | {_time(claims["first"])} \
| {_peer("readable twin", claims["twin"] / claims["first"])}
quotas | a request, and its runtime, among 40,000 children of one quota \
| {_quantiles(change)} | {again}
topology | 256 pods in 10,000 nodes, the best place | {_quantiles(place)} \
| {_peer("twin of Koordinator's greedy way", greedy["p50"] / place["p50"])}
matching | best: 1,000 noisy jobs, dense, with a proof | {_time(best["hivecore"])} \
| {_installed(best, "hivecore", **solvers)}
matching | worst of {len(contests)} graphs: {worst["family"]}, n = {worst["n"]} \
| {_time(worst["seconds"]["hivecore"])} | {_installed(worst["seconds"], "hivecore", **solvers)}
interleaving | efficiencies of all pairs of 2,000 jobs | {_time(pairs["hivecore"])} \
| {_peer("NumPy", pairs["NumPy, row by row"] / pairs["hivecore"])}
caching | LRU, 1,000,000 items, any 64-bit ids, per read | {_time(lru["int64"] * 1e-9)} \
| {_installed(lru, "int64", libcachesim="libCacheSim")}
storage | cache and remote IO for 100,000 jobs | {_time(storage["hivecore"] * 1e-3)} \
| {_peer("NumPy", storage["NumPy"] / storage["hivecore"])}
replicas | an access at 100,000 blocks, in a batch | {_time(cache["access, batch"] * 1e-9)} \
| {_peer("Python heap", cache["access, heap"] / cache["access, batch"])}
simulator | {trace} {run["simulator"]["jobs"]:,} jobs under three policies | {_time(ours)} \
| {_peer("a loop by hand for each", loops / ours)}
"""
    head = "| subject | what | hivecore | a peer takes |\n| --- | --- | ---: | --- |"
    return "\n".join([head, *(f"| {line} |" for line in text.splitlines())])


def pages(root: Path) -> list[Path]:
    """README and every page below docs/."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def renewed(text: str, results: Results) -> str:
    """The text of a page with new tables."""
    return _MARK.sub(lambda mark: f"{mark[1]}{_made(mark[2], results)}\n{mark[3]}", text)


def _made(name: str, results: Results) -> str:
    """The table of a name, from the function of this module that is called like it."""
    function = globals()["_" + name.replace("-", "_")]
    return str(function(results))


def stale(root: Path) -> dict[Path, str]:
    """The pages that do not say what the results say, with what they should say."""
    results = Results(root / "bench" / "results")
    texts = {page: page.read_text("utf-8") for page in pages(root)}
    return {page: new for page, text in texts.items() if (new := renewed(text, results)) != text}


if __name__ == "__main__":
    for page, text in stale(ROOT).items():
        page.write_text(text, "utf-8")
        print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)
