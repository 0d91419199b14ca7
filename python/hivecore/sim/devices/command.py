"""The part of `hivecore replay` in which pods share the GPUs of a cluster."""

import argparse
from typing import Any

from hivecore.devices.device_cluster import Policy
from hivecore.sim.console import (
    Watch,
    counts,
    file_names,
    print_table,
    print_times,
    say_written,
    write_json,
)
from hivecore.sim.devices.plots import save_device_plots
from hivecore.sim.devices.replay import SHARING_POLICIES, DeviceReplay, replay_devices
from hivecore.sim.devices.report import replay_table, replays_to_json
from hivecore.traces import GpuNodes, GpuPods, load_openb_nodes, load_openb_pods

__all__ = ["DEVICE_OPTIONS", "OPENB_FORMAT", "add_device_options", "replay_openb"]

#: The trace format whose pods share GPUs.
OPENB_FORMAT = "openb"
#: Options that have a meaning only with `--format openb`.
DEVICE_OPTIONS = ("seeds",)
_LOAD, _SEEDS = 1.3, 3
_MOST_LOAD, _MOST_SEEDS = 100.0, 10_000
_SHOWN = (80, 90, 100)  # percent; and the load at which it ends


def add_device_options(group: Any) -> None:
    """Add the options to a group of a parser.

    :param group: of `argparse`.
    """
    group.add_argument(
        "--seeds",
        type=counts(_MOST_SEEDS),
        metavar="N",
        help=f"with --format {OPENB_FORMAT}: orders of nodes and pods, 0 to N-1, of which medians "
        f"are shown (default {_SEEDS})",
    )


def replay_openb(arguments: argparse.Namespace) -> None:
    """Let the pods of a list come to the nodes of another under all asked policies, and report.

    :param arguments: of `hivecore replay`.
    :raises ValueError: arguments that do not go together.
    :raises OSError: a file cannot be read or written.
    """
    policies = list(dict.fromkeys(arguments.policy or SHARING_POLICIES))
    for policy in policies:
        if policy not in SHARING_POLICIES:
            allowed = ", ".join(SHARING_POLICIES)
            raise ValueError(f"--policy {policy} is none of {allowed}, which share GPUs")
    if len(arguments.traces) != 2:
        raise ValueError(f"--format {OPENB_FORMAT} needs two files, NODES and PODS")
    load, seeds = arguments.load or _LOAD, arguments.seeds or _SEEDS
    if load > _MOST_LOAD:
        raise ValueError(f"--load {load:g}: pods ask for at most {_MOST_LOAD:g} times the GPUs")
    watch = Watch()
    with watch("read"):
        nodes = load_openb_nodes(arguments.traces[0])
        pods = load_openb_pods(arguments.traces[1])
    replays: list[DeviceReplay] = []
    for policy in policies:
        with watch(policy):
            replays += [_replay(nodes, pods, policy, seed, load) for seed in range(seeds)]
    last = max(round(100 * load), 1)
    loads = [*(one for one in _SHOWN if one < last), last]
    print_table(replay_table(replays, loads=loads))
    if arguments.plots:
        with watch("plots"):
            say_written(save_device_plots(replays, arguments.plots))
    if arguments.json:
        configuration = {
            "traces": file_names(arguments.traces),
            "format": arguments.format,
            "load": load,
            "seeds": seeds,
        }
        write_json(arguments.json, replays_to_json(replays, configuration, watch.seconds, loads))
    print_times(watch)


def _replay(nodes: GpuNodes, pods: GpuPods, policy: Policy, seed: int, load: float) -> DeviceReplay:
    try:
        return replay_devices(nodes, pods, policy, seed, load=load)
    except ValueError as error:  # it begins with the argument, which is an option
        option = "--" if str(error).startswith("load=") else ""
        raise ValueError(f"{option}{error}") from None
