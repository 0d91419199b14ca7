"""`hivecore replay jobs`: training jobs that policies stop, or let share GPUs."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from hivecore._stateful import counted
from hivecore.sim.console import (
    Stopwatch,
    add,
    between,
    file_names,
    named,
    publish,
    replay_kind,
    try_outputs,
    whole,
)
from hivecore.sim.preemptive.failures import RandomFailures
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.muri import MuriOptions
from hivecore.sim.preemptive.report import jobs_report
from hivecore.sim.preemptive.schedule import JOB_POLICIES, schedule
from hivecore.sim.report import dropped
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.traces import load_training

__all__ = ["add_jobs"]

_HOUR = 3600.0
_MTBF = between(0.01, 1e9)


def add_jobs(kinds: Any) -> Any:
    """Add the command to a parser, and return its own parser."""
    what = "training jobs under policies that stop them, or let several share GPUs: completion "
    what += "times; TRACE is in Muri's format"
    kind = replay_kind(kinds, "jobs", "TRACE", what, _run)
    add(kind, "--policy", "NAME", "{}", choices=JOB_POLICIES, nargs="+", required=True)
    add(kind, "--nodes", "N", "of 8 GPUs each (default 8)", type=whole(1, 10**5), default=8)
    failing = "jobs fail at random, on average once in so many hours"
    add(kind, "--job-mtbf", "HOURS", failing, type=_MTBF)
    add(kind, "--node-mtbf", "HOURS", "nodes do, and are back an hour later", type=_MTBF)
    add(kind, "--seed", "N", "of the failures, the same for all policies", type=whole(0))
    grouped = "of muri-exact: jobs in groups per set of GPUs (default 3 8; Muri's own are 4 4)"
    add(kind, "--candidates", ("MUST", "MAY"), grouped, type=whole(), nargs=2)
    split = "of muri: split groups that take longer than their jobs one after another"
    add(kind, "--autopack", "on|off", f"{split} (default on)", choices=("on", "off"))
    return kind


def _run(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    policies = list(dict.fromkeys(arguments.policy))
    (path,), nodes = arguments.traces, arguments.nodes
    failing = arguments.job_mtbf is not None or arguments.node_mtbf is not None
    if arguments.seed is not None and not failing:
        raise ValueError("--seed needs --job-mtbf or --node-mtbf")
    if arguments.node_mtbf is not None and "tiresias" in policies:
        raise ValueError("--node-mtbf has no meaning for tiresias, which places no job on a node")
    muri = _muri_options(arguments, policies)
    watch = Stopwatch()
    with watch("read"):
        trace = load_training(path)
        jobs = Jobs.of(trace)
    if (largest := max(jobs.gpus)) > nodes * GPUS_PER_NODE:
        raise ValueError(
            f"{path}: a job of {largest} GPUs does not fit on {counted(nodes, 'node')} of "
            f"{GPUS_PER_NODE} GPUs (--nodes)"
        )
    failures = RandomFailures(
        len(jobs),
        nodes,
        arguments.seed or 0,
        job_mtbf=_HOUR * (arguments.job_mtbf or inf),
        node_mtbf=_HOUR * (arguments.node_mtbf or inf),
    )
    outcomes = {}
    for policy in policies:
        with watch(policy), named(f"{path} under {policy}"):
            record = bool(arguments.plots) and policy.startswith("muri")
            outcomes[policy] = schedule(jobs, policy, nodes, muri, failures, record=record)
    configuration = {
        "traces": file_names([path]),
        "format": "muri",
        "nodes": nodes,
        "job_mtbf_hours": arguments.job_mtbf,
        "node_mtbf_hours": arguments.node_mtbf,
        "seed": (arguments.seed or 0) if failing else None,
        "candidates": list(muri.candidates),
        "autopack": muri.autopack,
    }
    report = jobs_report(jobs, nodes, outcomes, dropped(trace.dropped))
    publish(report, watch, configuration, arguments.json, arguments.plots)


def _muri_options(arguments: argparse.Namespace, policies: Sequence[str]) -> MuriOptions:
    if arguments.autopack and not any(policy.startswith("muri") for policy in policies):
        raise ValueError("--autopack needs a policy of muri")
    options = MuriOptions(autopack=arguments.autopack != "off")
    if not arguments.candidates:
        return options
    if not any(policy.startswith("muri-exact") for policy in policies):
        raise ValueError("--candidates needs --policy muri-exact-s or muri-exact-l")
    must, may = arguments.candidates
    if not must <= min(may, options.largest):
        raise ValueError(
            f"--candidates {must} {may}: allowed are MUST from 1 to {options.largest}, "
            "and MAY from MUST on"
        )
    return replace(options, candidates=(must, may))
