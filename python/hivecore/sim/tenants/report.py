"""What tenants got under each policy, on one trace or many."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from hivecore._stateful import counted
from hivecore.sim import columns
from hivecore.sim.figures import mean
from hivecore.sim.metrics import findings, summarize
from hivecore.sim.replay import LENDING, POLICIES, Replay
from hivecore.sim.report import Report, dropped
from hivecore.sim.sweep import Point
from hivecore.sim.tenants.pictures import (
    excess_picture,
    fragmentation_picture,
    tenants_picture,
)
from hivecore.sim.workload import GPUS_PER_NODE, Workload

__all__ = ["sweep_report", "tenants_report"]

_TITLE = "Queueing delay in minutes"
_NOTES = [
    "later: than in the private cluster; excess: by how much",
    "fragmented: free GPUs that are not in wholly free nodes",
]


def tenants_report(replay: Replay) -> Report:
    """Return a report with a row per tenant and policy, with pictures if all
    policies are included.
    """
    summaries = {policy: summarize(replay, policy) for policy in replay.runs}
    rows: list[list[Any]] = []
    for of_tenant in zip(*summaries.values(), strict=True):
        for policy, each in zip(summaries, of_tenant, strict=True):
            figures = columns.values(each)
            if policy == "private":
                figures[3:6] = [None] * 3
            # Nodes are shared, so fragmentation belongs to a policy, not a tenant.
            fragmented = None if each.tenant else replay.runs[policy].fragmentation
            rows.append([each.tenant or "all", each.jobs, policy, *figures, fragmented])
    pictures = {
        "tenants": partial(tenants_picture, replay),
        "excess": partial(excess_picture, replay),
        "fragmentation": partial(fragmentation_picture, replay),
    }
    lends = "lending: cells, and waiting jobs run on idle ones, which may be taken back"
    return Report(
        _TITLE,
        [
            columns.label("tenant", once=True),
            columns.Column("jobs", "{:,}", once=True),
            columns.label("policy"),
            *columns.of(type(summaries["private"][0])),
            columns.share("frag-\nmented"),
        ],
        rows,
        [*_NOTES, *([lends] if LENDING in replay.runs else [])],
        [*_notes(replay.work), *findings(replay)],
        "hivecore.replay/2",
        _data(replay),
        pictures if set(POLICIES) <= set(replay.runs) else {},
        sections=True,
    )


def _notes(work: Workload) -> list[str]:
    """Describe what each tenant owns, and what was changed or left out before the replay."""
    owned = ", ".join(
        f"{name} owns {nodes:,}" for name, nodes in zip(work.trace.tenants, work.nodes, strict=True)
    )
    sentences = [f"Nodes of {GPUS_PER_NODE} GPUs: {sum(work.nodes):,}, of which {owned}."]
    sentences += dropped(work.trace.dropped)
    if work.rounded:
        sentences.append(
            f"{counted(work.rounded, 'job')} rounded up to a cell size, in all policies alike."
        )
    for left_out, why in (
        (work.unowned, "their tenants own no node"),
        (work.oversized, "larger than all that their tenants own"),
    ):
        if left_out.jobs:
            sentences.append(
                f"{counted(left_out.jobs, 'job')} ({left_out.gpu_hours:,.0f} GPU-hours) left out: "
                f"{why}."
            )
    return sentences


def _data(replay: Replay) -> dict[str, Any]:
    work = replay.work
    policies = {}
    for policy, run in replay.runs.items():
        *tenants, everyone = summarize(replay, policy)
        policies[policy] = {
            "all": columns.as_json(everyone),
            "tenants": {each.tenant: columns.as_json(each) for each in tenants},
            "fragmentation": run.fragmentation,
            "borrowing": asdict(run.borrowing) if run.borrowing else None,
        }
    return {
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
        "policies": policies,
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
    }


_OF_SWEEP: tuple[columns.Column, ...] = (
    columns.count("seeds"),
    columns.time("mean\ndelay"),
    columns.Column("jobs\nlater", "{:.2%}"),
    columns.time("mean\nexcess"),
    columns.time("max\nexcess"),
    columns.share("GPUs\nused"),
    columns.share("frag-\nmented"),
    columns.count("jobs\nrefused"),
)


def _of_seeds(points: Sequence[Point]) -> list[float | None]:
    """Average the points of a load and policy or spec over seeds; the longest
    excess is a maximum.
    """
    figures = [point.figures for point in points]
    later = sum(each.later for each in figures)
    known = [each.fragmentation for each in points if each.fragmentation is not None]
    return [
        len(points),
        mean([each.mean_delay for each in figures]),
        later / max(sum(each.jobs for each in figures), 1),
        sum(each.later * each.mean_excess for each in figures) / max(later, 1),
        max(each.max_excess for each in figures),
        mean([each.utilisation for each in figures]),
        mean(known) if known else None,
        sum(each.refused for each in points),
    ]


def sweep_report(points: Sequence[Point]) -> Report:
    """Return a report with a row per load and policy or spec: means over seeds."""
    groups: dict[tuple[float, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.load, point.policy), []).append(point)
    shown = slice(None if any(point.refused for point in points) else -1)
    return Report(
        _TITLE,
        [
            columns.Column("load", "{:g}", is_name=True, once=True),
            columns.label("policy"),
            *_OF_SWEEP[shown],
        ],
        [(*names, *_of_seeds(group)[shown]) for names, group in groups.items()],
        _NOTES,
        schema="hivecore.sweep/2",
        data={
            "points": [
                {name: value for name, value in asdict(point).items() if name != "figures"}
                | columns.as_json(point.figures)
                for point in points
            ]
        },
        sections=True,
    )
