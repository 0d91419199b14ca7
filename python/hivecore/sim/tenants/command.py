"""`hivecore replay tenants`: a trace in private clusters, under quotas and in cells."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Stopwatch,
    add,
    factor,
    file_names,
    files_with,
    named,
    progress_bar,
    publish,
    replay_kind,
    try_outputs,
)
from hivecore.sim.replay import BACKFILL, LENDING, POLICIES, replay
from hivecore.sim.tenants.report import tenants_report
from hivecore.sim.workload import Workload, own_nodes
from hivecore.traces import FORMATS, Trace, load, load_virtual_clusters

__all__ = ["MOST_NODES", "add_owners", "add_tenants", "check_nodes", "owned_trace"]

#: Beyond this a command would take days, or too much memory.
MOST_NODES = 10**6


def add_tenants(kinds: Any) -> None:
    """Add the command to a parser."""
    what = "tenants in private clusters, under quotas and in cells: queueing delay, and excess "
    what += "over the private cluster"
    kind = replay_kind(kinds, "tenants", "TRACE [TRACE ...]", what, _run)
    what = f"{{}} (default: the first three); {LENDING}: jobs may run on idle cells"
    choices = (*POLICIES, LENDING, BACKFILL)
    add(kind, "--policy", "NAME", what, choices=choices, nargs="+", default=POLICIES)
    add(kind, "--format", "NAME", "of the trace files: {}", choices=FORMATS, required=True)
    scaled = "divide the times between submissions by X; nodes are owned as without it"
    add(kind, "--load", "X", scaled, type=factor, default=1.0)
    add_owners(kind)


def add_owners(parser: argparse.ArgumentParser) -> None:
    """Add the options for the nodes that tenants own, and for lending."""
    owners = parser.add_mutually_exclusive_group()
    add(owners, "--virtual-clusters", "FILE", "CSV file: vc,node num", type=Path)
    enough = (
        "each tenant owns ceil(average GPUs in use / (8 X)) nodes, or what its largest job needs"
    )
    add(owners, "--oversubscribe", "X", enough, type=factor)
    lent = "waiting jobs may run on idle cells"
    parser.add_argument("--opportunistic", action="store_true", help=lent)


def owned_trace(arguments: argparse.Namespace) -> tuple[Trace, dict[str, int]]:
    """Return the jobs of a trace, and the nodes that their tenants own."""
    trace, clusters = load(arguments.traces, arguments.format), arguments.virtual_clusters
    if clusters:
        said, nodes = str(clusters), load_virtual_clusters(clusters)
    else:
        said = files_with(arguments, "oversubscribe")
        nodes = own_nodes(trace, arguments.oversubscribe or 1.0)
    check_nodes(nodes, said)
    return trace, nodes


def check_nodes(nodes: Mapping[str, int], said: str) -> None:
    """Refuse more nodes than fit into memory."""
    if (total := sum(nodes.values())) > MOST_NODES:
        most = max(nodes, key=lambda name: nodes[name])
        raise ValueError(
            f"{said}: tenants own {total} nodes, {most} alone {nodes[most]}; allowed are at most "
            f"{MOST_NODES}"
        )


def _traces(arguments: argparse.Namespace) -> str:
    return ", ".join(map(str, arguments.traces))


def _run(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    policies, clusters = arguments.policy, arguments.virtual_clusters
    if arguments.opportunistic and "cells" not in policies:
        raise ValueError("--opportunistic needs --policy cells")
    if arguments.plots and not set(POLICIES).issubset(policies):
        raise ValueError("--plots shows all policies of tenants: leave --policy out")
    watch = Stopwatch()
    with watch("read"):
        trace, nodes = owned_trace(arguments)
        with named(_traces(arguments)):
            work = Workload.of(trace.scale_load(arguments.load), nodes)
    total = work.trace.jobs * len({"private", *policies})
    with (
        named(files_with(arguments, "load")),
        progress_bar(total) as step,
        watch("replay"),
    ):
        result = replay(work, policies, arguments.opportunistic, step)
    configuration: dict[str, Any] = {
        "traces": file_names(arguments.traces),
        "format": arguments.format,
        "virtual_clusters": clusters.name if clusters else None,
        "oversubscribe": None if clusters else arguments.oversubscribe or 1.0,
        "load": arguments.load,
        "opportunistic": arguments.opportunistic,
    }
    publish(tenants_report(result), watch, configuration, arguments.json, arguments.plots)
