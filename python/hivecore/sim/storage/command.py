"""`hivecore replay storage`: jobs that share GPUs, cache and remote IO."""

import argparse
from pathlib import Path
from typing import Any

from hivecore._stateful import counted
from hivecore.sim.console import (
    Stopwatch,
    add,
    between,
    file_names,
    files_with,
    named,
    publish,
    replay_kind,
    try_outputs,
    whole,
)
from hivecore.sim.report import dropped
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.report import storage_report
from hivecore.sim.storage.rules import GPU_POLICIES, STORAGE_SYSTEMS
from hivecore.sim.storage.schedule import schedule_storage
from hivecore.sim.storage.workload import StorageCluster, StorageWorkload
from hivecore.traces import (
    FORMATS,
    StorageTrace,
    load,
    load_storage,
    load_training,
    with_datasets,
)

__all__ = ["add_storage"]

#: The trace format whose jobs have datasets.
_FORMAT = "storage"
#: The system that loads nothing ahead.
_LRU = "alluxio"
#: SiloD's cluster of 96 GPUs, as we remember it: 250 GB of cache and 25 MB/s per GPU.
_GPUS, _CACHE_PER_GPU, _BANDWIDTH_PER_GPU = 96, 250.0, 25.0


def add_storage(kinds: Any) -> Any:
    """Add the command to a parser, and return its own parser."""
    what = "jobs that share GPUs, cache and remote IO: completion times and throughput"
    kind = replay_kind(kinds, "storage", "TRACE", what, _run)
    formats, systems = (*FORMATS, _FORMAT), STORAGE_SYSTEMS
    of = "of TRACE: {} (the default); the others get random datasets"
    add(kind, "--format", "NAME", of, choices=formats, default=_FORMAT)
    what = "what caches what jobs read: {} (default: all of these)"
    add(kind, "--system", "NAME", what, choices=systems, nargs="+", default=systems)
    of = "of GPUs: {} (default: fifo)"
    add(kind, "--policy", "NAME", of, choices=GPU_POLICIES, nargs="+", default=["fifo"])
    add(kind, "--seed", "N", "of random datasets (default 0)", type=whole(0))
    cache, bandwidth = between(1e-9, 1e15), between(1e-9, 1e12)
    add(kind, "--cache", "GB", "of the cluster (default 250 per GPU)", type=cache)
    add(kind, "--bandwidth", "MB/S", "of remote storage (default 25 per GPU)", type=bandwidth)
    gpus = whole(1, 10**9)
    add(kind, "--gpus", "N", f"of the cluster (default {_GPUS})", type=gpus, default=_GPUS)
    warm = "spare remote IO fills caches of jobs that run or wait"
    kind.add_argument("--warm-up", action="store_true", help=warm)
    return kind


def _run(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    (path,), gpus = arguments.traces, arguments.gpus
    has_datasets = arguments.format == _FORMAT
    if arguments.seed is not None and has_datasets:
        raise ValueError(f"--seed has no meaning: jobs of --format {_FORMAT} have datasets")
    seed = arguments.seed or 0
    systems = dict.fromkeys(arguments.system)
    cold = [_LRU] if arguments.warm_up and _LRU in systems else []
    if cold == list(systems):
        raise ValueError(f"--warm-up has no meaning: {_LRU} caches only what jobs read")
    watch = Stopwatch()
    with watch("read"):
        trace = _trace(path, arguments.format, seed)
        work = StorageWorkload.of(trace)
    if (largest := int(work.gpus.max())) > gpus:
        room = counted(gpus, "GPU")
        raise ValueError(f"{path}: a job of {largest} GPUs does not fit on {room} (--gpus)")
    cluster = StorageCluster(
        gpus,
        arguments.cache or _CACHE_PER_GPU * gpus,
        arguments.bandwidth or _BANDWIDTH_PER_GPU * gpus,
    )
    outcomes: dict[tuple[str, str], StorageOutcome] = {}
    options = {"warm_up": arguments.warm_up, "record": bool(arguments.plots)}
    for policy in dict.fromkeys(arguments.policy):
        with watch(policy), named(files_with(arguments, "bandwidth")):
            for system in systems:
                outcomes[policy, system] = schedule_storage(
                    work, cluster, policy, system, **options
                )
    configuration = {
        "traces": file_names([path]),
        "format": arguments.format,
        "seed": None if has_datasets else seed,
        "gpus": cluster.gpus,
        "cache_gb": cluster.cache_gb,
        "bandwidth_mbps": cluster.bandwidth_mbps,
        "warm_up": arguments.warm_up,
    }
    findings = [f"{system}: without --warm-up, it caches only what jobs read." for system in cold]
    report = storage_report(work, cluster, outcomes, [*findings, *dropped(trace.dropped)])
    publish(report, watch, configuration, arguments.json, arguments.plots)


def _trace(path: Path, format: str, seed: int) -> StorageTrace:
    if format == _FORMAT:
        return load_storage(path)
    return with_datasets(load_training(path) if format == "muri" else load(path, format), seed)
