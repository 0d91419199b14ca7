"""The part of `hivecore replay` in which jobs share storage."""

import argparse
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Watch,
    between,
    counts,
    file_names,
    named,
    print_dropped,
    print_table,
    print_times,
    say_written,
    write_json,
)
from hivecore.sim.storage.metrics import StorageFigures, storage_figures
from hivecore.sim.storage.plots import save_storage_plots
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.report import storage_table, storage_to_json
from hivecore.sim.storage.rules import GPU_POLICIES, STORAGE_SYSTEMS
from hivecore.sim.storage.schedule import schedule_storage
from hivecore.sim.storage.workload import StorageCluster, StorageWorkload
from hivecore.traces import StorageTrace, load, load_storage, load_training, with_datasets

__all__ = ["STORAGE_FORMAT", "STORAGE_OPTIONS", "add_storage_options", "replay_storage"]

#: The trace format whose jobs have datasets.
STORAGE_FORMAT = "storage"
#: Options that have a meaning only with `--storage`.
STORAGE_OPTIONS = ("cache", "bandwidth", "gpus", "warm_up")
#: SiloD's cluster of 96 GPUs, as recalled: 250 GB of cache and 25 MB/s per GPU.
_GPUS, _CACHE_PER_GPU, _BANDWIDTH_PER_GPU = 96, 250.0, 25.0


def add_storage_options(group: Any) -> None:
    """Add the options to a group of a parser.

    :param group: of `argparse`.
    """
    group.add_argument(
        "--storage",
        choices=STORAGE_SYSTEMS,
        nargs="+",
        metavar="NAME",
        help=f"systems that cache what jobs read: {', '.join(STORAGE_SYSTEMS)}; TRACE is of "
        f"--format {STORAGE_FORMAT}, or its jobs get random datasets; --policy is of "
        f"{', '.join(GPU_POLICIES)} (default: fifo)",
    )
    group.add_argument(
        "--cache",
        type=between(1e-9, 1e15),
        metavar="GB",
        help="of the cluster (default 250 per GPU)",
    )
    group.add_argument(
        "--bandwidth",
        type=between(1e-9, 1e12),
        metavar="MB/S",
        help="of remote storage (default 25 per GPU)",
    )
    group.add_argument(
        "--gpus", type=counts(10**9), metavar="N", help=f"of the cluster (default {_GPUS})"
    )
    group.add_argument(
        "--warm-up",
        action="store_true",
        help="spare remote IO fills the caches of jobs that run or wait",
    )


def replay_storage(arguments: argparse.Namespace) -> None:
    """Run the jobs of a trace under all asked policies and systems, and report.

    :param arguments: of `hivecore replay`, with `storage` set.
    :raises ValueError: arguments that do not go together.
    :raises OSError: a file cannot be read or written.
    """
    policies = list(dict.fromkeys(arguments.policy or ["fifo"]))
    for policy in policies:
        if policy not in GPU_POLICIES:
            allowed = ", ".join(GPU_POLICIES)
            raise ValueError(f"--policy {policy} is none of {allowed}, which --storage needs")
    if len(arguments.traces) > 1:
        raise ValueError("--storage runs one TRACE at a time")
    if arguments.seed is not None and arguments.format == STORAGE_FORMAT:
        raise ValueError(f"--seed has no meaning: jobs of --format {STORAGE_FORMAT} have datasets")
    watch = Watch()
    seed = arguments.seed or 0
    with watch("read"):
        trace = _trace(arguments.traces[0], arguments.format, seed)
        work = StorageWorkload.of(trace)
    gpus = arguments.gpus or _GPUS
    if (largest := int(work.gpus.max())) > gpus:
        file = arguments.traces[0]
        raise ValueError(f"{file}: a job of {largest} GPUs does not fit on {gpus} GPUs (--gpus)")
    cluster = StorageCluster(
        gpus,
        arguments.cache or _CACHE_PER_GPU * gpus,
        arguments.bandwidth or _BANDWIDTH_PER_GPU * gpus,
    )
    outcomes: dict[tuple[str, str], StorageOutcome] = {}
    figures: dict[tuple[str, str], StorageFigures] = {}
    for policy in policies:
        given = f"{arguments.traces[0]} with --bandwidth {cluster.bandwidth_mbps:g}"
        with watch(policy), named(given):
            for system in dict.fromkeys(arguments.storage):
                outcome = schedule_storage(
                    work,
                    cluster,
                    policy,
                    system,
                    warm_up=arguments.warm_up,
                    record=bool(arguments.plots),
                )
                outcomes[policy, system] = outcome
                figures[policy, system] = storage_figures(work, cluster, outcome)
    print_table(storage_table(figures))
    print_dropped(trace.dropped)
    if arguments.plots:
        with watch("plots"):
            say_written(save_storage_plots(work, cluster, outcomes, arguments.plots))
    if arguments.json:
        configuration = {
            "traces": file_names(arguments.traces),
            "format": arguments.format,
            "seed": None if arguments.format == STORAGE_FORMAT else seed,
            "gpus": cluster.gpus,
            "cache_gb": cluster.cache_gb,
            "bandwidth_mbps": cluster.bandwidth_mbps,
            "warm_up": arguments.warm_up,
        }
        write_json(arguments.json, storage_to_json(figures, configuration, watch.seconds))
    print_times(watch)


def _trace(path: str | Path, format: str, seed: int) -> StorageTrace:
    if format == STORAGE_FORMAT:
        return load_storage(path)
    if format == "muri":
        return with_datasets(load_training(path), seed)
    return with_datasets(load(path, format), seed)
