"""A replay as a table for people and as JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.sim.metrics import Figures, findings, summarize
from hivecore.sim.replay import LENDING, Replay
from hivecore.sim.sweep import Point
from hivecore.sim.tables import empty_table, minutes
from hivecore.sim.units import with_units
from hivecore.sim.workload import GPUS_PER_NODE, Excluded, Workload

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

__all__ = ["notes", "sweep_table", "sweep_to_json", "table", "to_json"]

_COMMON_HEADINGS = (
    "jobs\nlater",
    "mean\nexcess",
    "max\nexcess",
    "GPUs\nused",
    "frag-\nmented",
)
_SCHEMA = "hivecore.replay/2"
_SWEEP_SCHEMA = "hivecore.sweep/2"


def table(replay: Replay) -> "Table":
    """Return a Rich table with a row per tenant and policy, times in minutes.

    :param replay: outcome of a replay.

    >>> from hivecore.sim import Workload, replay
    >>> from hivecore.traces import generate
    >>> result = replay(Workload.of(generate({"x": 8}, jobs=50, seed=0), {"x": 8}))
    >>> table(result).row_count
    6
    """
    delays = ("mean\ndelay", "p99\ndelay", "max\ndelay")
    grid = _grid(("tenant", "jobs", "policy", *delays, *_COMMON_HEADINGS), LENDING in replay.runs)
    summaries = {policy: summarize(replay, policy) for policy in replay.runs}
    for rows in zip(*summaries.values(), strict=True):
        for policy, one in zip(summaries, rows, strict=True):
            first = policy == next(iter(summaries))
            grid.add_row(*_head(one, first), policy, *_cells(replay, policy, one))
        grid.add_section()
    return grid


def _grid(headings: Iterable[str], lending: bool = False) -> "Table":
    caption = (
        "later: than in the private cluster; excess: by how much\n"
        "fragmented: free GPUs that are not in wholly free nodes"
    )
    if lending:
        caption += "\nlending: cells, and waiting jobs run on idle ones, which may be taken back"
    return empty_table("Queueing delay in minutes", caption, headings)


def _head(one: Figures, first: bool) -> "tuple[Text | str, str]":
    from rich.text import Text

    # As text: a name in brackets is no colour.
    return (Text(one.tenant or "all"), f"{one.jobs:,}") if first else ("", "")


def _cells(replay: Replay, policy: str, one: Figures) -> list[str]:
    delays = map(minutes, (one.mean_delay, one.p99_delay, one.max_delay))
    excess = list(map(minutes, (one.mean_excess, one.max_excess)))
    if policy == "private":
        excess = ["", ""]
    later = "" if policy == "private" else f"{one.later:,}"
    # Nodes are shared, so fragmentation belongs to a policy and not to a tenant.
    fragmentation = "" if one.tenant else f"{replay.runs[policy].fragmentation:.1%}"
    return [*delays, later, *excess, f"{one.utilisation:.1%}", fragmentation]


def notes(work: Workload) -> list[str]:
    """Return who owns what, and what was changed or left out before the replay, in sentences.

    :param work: the replayed workload.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [3, 8])
    >>> for sentence in notes(Workload.of(trace, {"x": 1})):
    ...     print(sentence)
    Nodes of 8 GPUs: 1, of which x owns 1.
    1 jobs rounded up to a cell size, in all policies alike.
    """
    owned = ", ".join(
        f"{name} owns {nodes:,}" for name, nodes in zip(work.trace.tenants, work.nodes, strict=True)
    )
    sentences = [f"Nodes of {GPUS_PER_NODE} GPUs: {sum(work.nodes):,}, of which {owned}."]
    sentences += [
        f"{count:,} jobs of the trace dropped: {reason}."
        for reason, count in work.trace.dropped.items()
    ]
    if work.rounded:
        sentences.append(f"{work.rounded:,} jobs rounded up to a cell size, in all policies alike.")
    if work.unowned.jobs:
        sentences.append(f"{_left_out(work.unowned)}: their tenants own no node.")
    if work.oversized.jobs:
        sentences.append(f"{_left_out(work.oversized)}: larger than all that their tenants own.")
    return sentences


def _left_out(excluded: Excluded) -> str:
    return f"{excluded.jobs:,} jobs ({excluded.gpu_hours:,.0f} GPU-hours) left out"


def to_json(
    replay: Replay, configuration: Mapping[str, Any], runtime_seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return the replay as plain data for `json.dump`; times are in seconds.

    :param replay: outcome of a replay.
    :param configuration: how it was asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.

    >>> from hivecore.sim import Workload, replay
    >>> from hivecore.traces import generate
    >>> result = replay(Workload.of(generate({"x": 8}, jobs=50, seed=0), {"x": 8}))
    >>> to_json(result, {"load": 1.0}, {})["violations"]["cells"]
    {'compared': 50, 'later': 0}
    """
    work = replay.work
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "workload": {
            "jobs": work.trace.jobs,
            "gpu_hours": work.trace.gpu_hours,
            "window_seconds": work.window,
            "nodes": dict(zip(work.trace.tenants, work.nodes, strict=True)),
            "rounded": work.rounded,
            "dropped": dict(work.trace.dropped),
            "unowned": asdict(work.unowned),
            "oversized": asdict(work.oversized),
        },
        "policies": {policy: _policy(replay, policy) for policy in replay.runs},
        "violations": {
            policy: {"compared": work.trace.jobs, "later": int(replay.later(policy).sum())}
            for policy in replay.runs
            if policy != "private"
        },
        "samples": {
            "instants_seconds": np.round(replay.instants, 3).tolist(),
            **{
                policy: {"free": run.free.tolist(), "stranded": run.stranded.tolist()}
                for policy, run in replay.runs.items()
            },
        },
        "findings": findings(replay),
        "runtime_seconds": dict(runtime_seconds),
    }


def _policy(replay: Replay, policy: str) -> dict[str, Any]:
    *tenants, everyone = summarize(replay, policy)
    run = replay.runs[policy]
    return {
        "all": _plain(everyone),
        "tenants": {one.tenant: _plain(one) for one in tenants},
        "fragmentation": run.fragmentation,
        "borrowing": asdict(run.borrowing) if run.borrowing else None,
    }


def _plain(one: Figures) -> dict[str, Any]:
    return with_units({name: value for name, value in asdict(one).items() if name != "tenant"})


def sweep_table(points: Sequence[Point]) -> "Table":
    """Return a Rich table with a row per load and policy or spec: means over seeds, in minutes.

    :param points: what `sweep` returned.

    >>> from hivecore.sim import sweep
    >>> sweep_table(sweep({"x": 8}, loads=[0.5, 1.0], jobs=50)).row_count
    6
    """
    from rich.text import Text

    refusing = any(point.refused for point in points)
    more = ("jobs\nrefused",) if refusing else ()
    grid = _grid(("load", "policy", "seeds", "mean\ndelay", *_COMMON_HEADINGS, *more))
    groups: dict[tuple[float, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.load, point.policy), []).append(point)
    shown = None
    for (load, policy), group in groups.items():
        if load != shown:
            grid.add_section()
        figures = [point.figures for point in group]
        later = sum(one.later for one in figures)
        excess = sum(one.later * one.mean_excess for one in figures) / max(later, 1)
        grid.add_row(
            "" if load == shown else f"{load:g}",
            Text(policy),
            f"{len(group)}",
            minutes(float(np.mean([one.mean_delay for one in figures]))),
            f"{later / max(sum(one.jobs for one in figures), 1):.2%}",
            minutes(excess),
            minutes(max(one.max_excess for one in figures)),
            f"{np.mean([one.utilisation for one in figures]):.1%}",
            _mean_fragmentation(group),
            *([f"{sum(point.refused for point in group):,}"] if refusing else []),
        )
        shown = load
    return grid


def _mean_fragmentation(points: Sequence[Point]) -> str:
    known = [point.fragmentation for point in points if point.fragmentation is not None]
    return f"{np.mean(known):.1%}" if known else ""


def sweep_to_json(points: Sequence[Point]) -> dict[str, Any]:
    """Return the points as plain data for `json.dump`; times are in seconds.

    :param points: what `sweep` returned.

    >>> from hivecore.sim import sweep
    >>> points = sweep_to_json(sweep({"x": 8}, [1.0], jobs=50, policies=["cells"]))["points"]
    >>> points[0]["policy"], points[0]["load"], points[0]["later"]
    ('cells', 1.0, 0)
    """
    return {
        "schema": _SWEEP_SCHEMA,
        "points": [
            {name: value for name, value in asdict(point).items() if name != "figures"}
            | _plain(point.figures)
            for point in points
        ],
    }
