"""`hivecore replay pods`: pods that share the GPUs of a cluster."""

import argparse
from pathlib import Path

from hivecore.devices.device_cluster import Policy
from hivecore.sim.console import Stopwatch, between, file_names, publish, try_outputs, whole
from hivecore.sim.devices.replay import SHARING_POLICIES, DeviceReplay, replay_devices
from hivecore.sim.devices.report import devices_report
from hivecore.traces import GpuNodes, GpuPods, load_openb_nodes, load_openb_pods

__all__ = ["add_pods"]

_LOAD, _SEEDS = 1.3, 3
_SHOWN = (80, 90, 100)  # percent; and the load at which it ends


def add_pods(kind: argparse.ArgumentParser) -> None:
    """Add its options to the parser of the command.

    :param kind: the parser.
    """
    kind.set_defaults(run=_run)
    kind.add_argument("nodes", type=Path, metavar="NODES", help="openb's list of nodes")
    kind.add_argument("pods", type=Path, metavar="PODS", help="openb's list of pods")
    kind.add_argument(
        "--policy",
        choices=SHARING_POLICIES,
        nargs="+",
        default=SHARING_POLICIES,
        metavar="NAME",
        help=f"{', '.join(SHARING_POLICIES)} (default: all of these)",
    )
    kind.add_argument(
        "--load",
        type=between(1e-6, 100.0),
        default=_LOAD,
        metavar="X",
        help=f"pods come until they ask for X times the GPUs (default {_LOAD})",
    )
    kind.add_argument(
        "--seeds",
        type=whole(1, 10_000),
        default=_SEEDS,
        metavar="N",
        help=f"orders of nodes and pods, 0 to N-1, of which medians are shown (default {_SEEDS})",
    )


def _run(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    load, watch = arguments.load, Stopwatch()
    with watch("read"):
        nodes, pods = load_openb_nodes(arguments.nodes), load_openb_pods(arguments.pods)
    replays: list[DeviceReplay] = []
    for policy in dict.fromkeys(arguments.policy):
        with watch(policy):
            seeds = range(arguments.seeds)
            replays += [_replay(nodes, pods, policy, seed, load) for seed in seeds]
    last = max(round(100 * load), 1)
    loads = [*(one for one in _SHOWN if one < last), last]
    configuration = {
        "traces": file_names([arguments.nodes, arguments.pods]),
        "format": "openb",
        "load": load,
        "seeds": arguments.seeds,
    }
    report = devices_report(replays, loads=loads)
    publish(report, watch, configuration, arguments.json, arguments.plots)


def _replay(nodes: GpuNodes, pods: GpuPods, policy: Policy, seed: int, load: float) -> DeviceReplay:
    try:
        return replay_devices(nodes, pods, policy, seed, load=load)
    except ValueError as error:  # it begins with the argument, which is an option
        option = "--" if str(error).startswith("load=") else ""
        raise ValueError(f"{option}{error}") from None
