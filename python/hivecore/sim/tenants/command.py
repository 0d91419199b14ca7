"""`hivecore replay tenants`: a trace in private clusters, under quotas and in cells."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Stopwatch,
    factor,
    file_names,
    named,
    progress_bar,
    publish,
    try_outputs,
)
from hivecore.sim.replay import LENDING, POLICIES, replay
from hivecore.sim.tenants.report import tenants_report
from hivecore.sim.workload import Workload, own_nodes
from hivecore.traces import FORMATS, Trace, load, load_virtual_clusters

__all__ = ["MOST_NODES", "add_owners", "add_tenants", "check_nodes", "owned_trace"]

#: Beyond this a command would take days, or more memory than there is.
MOST_NODES = 10**6


def add_tenants(kind: argparse.ArgumentParser) -> None:
    """Add its options to the parser of the command.

    :param kind: the parser.
    """
    kind.set_defaults(run=_run)
    kind.add_argument(
        "--policy",
        choices=(*POLICIES, LENDING),
        nargs="+",
        default=POLICIES,
        metavar="NAME",
        help=f"{', '.join(POLICIES)} (default: these three), {LENDING}: cells on which waiting "
        "jobs may run while idle",
    )
    kind.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        metavar="NAME",
        help=f"of the trace files: {', '.join(FORMATS)}",
    )
    add_owners(kind)
    kind.add_argument(
        "--load",
        type=factor,
        default=1.0,
        metavar="X",
        help="divide the times between submissions by X; nodes are owned as without it",
    )
    kind.add_argument(
        "--opportunistic", action="store_true", help="waiting jobs may run on idle cells"
    )


def add_owners(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which nodes tenants own.

    :param parser: of a command.
    """
    owners = parser.add_mutually_exclusive_group()
    owners.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE", help="CSV file: vc,node num"
    )
    owners.add_argument(
        "--oversubscribe",
        type=factor,
        metavar="X",
        help="each tenant owns ceil(average GPUs in use / (8 X)) nodes of 8 GPUs, or as many as "
        "its largest job needs (default 1.0)",
    )


def owned_trace(arguments: argparse.Namespace) -> tuple[Trace, dict[str, int]]:
    """Return the jobs of a trace, and the nodes that their tenants own.

    :param arguments: of a command with the options of `add_owners`.
    :raises ValueError: tenants own too many nodes.
    """
    trace = load(arguments.traces, arguments.format)
    if arguments.virtual_clusters:
        said = str(arguments.virtual_clusters)
        nodes = load_virtual_clusters(arguments.virtual_clusters)
    else:
        scale = arguments.oversubscribe or 1.0
        said = f"{_traces(arguments)} with --oversubscribe {scale:g}"
        nodes = own_nodes(trace, scale)
    check_nodes(nodes, said)
    return trace, nodes


def check_nodes(nodes: Mapping[str, int], said: str) -> None:
    """Refuse more nodes than there is memory for.

    :param nodes: by tenant.
    :param said: what says so.
    :raises ValueError: they are too many.
    """
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
        named(f"{_traces(arguments)} with --load {arguments.load:g}"),
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
