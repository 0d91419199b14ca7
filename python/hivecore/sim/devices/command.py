"""`hivecore replay pods`: pods that share the GPUs of a cluster."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from hivecore._stateful import counted
from hivecore.sim.console import (
    Stopwatch,
    add,
    between,
    file_names,
    publish,
    replay_kind,
    try_outputs,
    whole,
)
from hivecore.sim.devices.replay import SHARING_POLICIES, DeviceReplay, replay_devices
from hivecore.sim.devices.report import devices_report
from hivecore.traces import GpuNodes, GpuPods, load_openb_nodes, load_openb_pods

__all__ = ["add_pods"]

_LOAD, _SEEDS = 1.3, 3
_SHOWN = (80, 90, 100)  # percent; the final load is added


def add_pods(kinds: Any) -> Any:
    """Add the command to a parser, and return its own parser."""
    what = "pods that share GPUs, in openb's format, until they ask for more than there is"
    kind = replay_kind(kinds, "pods", "NODES PODS", what, _run)
    add(kind, "nodes", "NODES", "openb's list of nodes", type=Path)
    add(kind, "pods", "PODS", "openb's list of pods", type=Path)
    names = SHARING_POLICIES
    what = "{} (default: all of these)"
    add(kind, "--policy", "NAME", what, choices=names, nargs="+", default=names)
    until = f"pods come until they ask for X times the GPUs (default {_LOAD})"
    add(kind, "--load", "X", until, type=between(1e-6, 100.0), default=_LOAD)
    orders = f"orders of nodes and pods, of which medians are shown (default {_SEEDS})"
    add(kind, "--seeds", "N", orders, type=whole(1, 10_000), default=_SEEDS)
    return kind


def _run(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    load, watch = arguments.load, Stopwatch()
    with watch("read"):
        nodes, pods = load_openb_nodes(arguments.nodes), load_openb_pods(arguments.pods)
    replays: list[DeviceReplay] = []
    for policy in dict.fromkeys(arguments.policy):
        with watch(policy):
            seeds = range(arguments.seeds)
            replays += [replay_devices(nodes, pods, policy, seed, load=load) for seed in seeds]
    last = max(round(100 * load), 1)
    loads = [*(each for each in _SHOWN if each < last), last]
    configuration = {
        "traces": file_names([arguments.nodes, arguments.pods]),
        "format": "openb",
        "load": load,
        "seeds": arguments.seeds,
    }
    report = devices_report(replays, loads=loads)
    report = replace(report, findings=[*report.findings, *_without_nodes(nodes, pods)])
    publish(report, watch, configuration, arguments.json, arguments.plots)


def _without_nodes(nodes: GpuNodes, pods: GpuPods) -> list[str]:
    """Return a sentence on pods that need models of GPUs that no node has."""
    existing = set(nodes.model[nodes.gpus > 0].tolist())
    wanted = (models for models, gpus in zip(pods.models, pods.gpus, strict=True) if gpus)
    lacking = [models for models in wanted if models and not models & existing]
    if not lacking:
        return []
    names = ", ".join(sorted(frozenset[str]().union(*lacking)))
    return [f"{counted(len(lacking), 'pod')} can start on no node, as none has {names}."]
