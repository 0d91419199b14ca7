"""The options of `hivecore serve`, in groups."""

import argparse
from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = [
    "GPUSHARE_PORT",
    "HIVED_PORT",
    "MAX_BODY",
    "MAX_EVENTS",
    "SCHEDULER_PORT",
    "add_binding",
    "add_evicting",
    "add_hived",
    "add_listening",
    "add_scheduler",
]

MAX_BODY = 64 * 1024 * 1024  # bytes; a pod and the names of 100,000 nodes are 5 MB
MAX_EVENTS = 8 * 1024 * 1024  # bytes of a body for a scheduler
_HEADER_SECONDS = 5.0
HIVED_PORT, GPUSHARE_PORT, SCHEDULER_PORT = 9096, 32766, 9097


def _number(text: str, low: int, high: int) -> int:
    if text.isdecimal() and len(text) <= 20 and low <= int(text) <= high:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be an integer from {low} to {high}, not {text!r}")


_port = partial(_number, low=0, high=65535)
_bytes = partial(_number, low=1, high=2**40)
_lines = partial(_number, low=0, high=2**62)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0.0 < seconds <= 2.0**40:
        return seconds
    raise argparse.ArgumentTypeError(
        f"must be seconds, more than 0 and at most 2**40, not {text!r}"
    )


def _seconds_or_never(text: str) -> float:
    return inf if text == "never" else _seconds(text)


def _url(text: str) -> str:
    if urlsplit(text).scheme in ("http", "https") and urlsplit(text).hostname:
        return text
    raise argparse.ArgumentTypeError(f"must be http://... or https://..., not {text!r}")


def _lease(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if namespace and name and "/" not in name:
        return namespace, name
    raise argparse.ArgumentTypeError(f"must be NAMESPACE/NAME, not {text!r}")


def add_binding(group: Any) -> None:
    """How pods are bound, for the extenders."""
    group.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="this process, at the cluster of this file"
    )
    group.add_argument(
        "--in-cluster", action="store_true", help="this process, in the cluster where it is a pod"
    )
    group.add_argument(
        "--binder",
        type=_url,
        metavar="URL",
        help="the Binding objects are posted there: 2xx is bound, 404 no such pod",
    )
    group.add_argument(
        "--no-bind",
        action="store_true",
        help="the client of the bind verb; its answer has the object under Binding, which "
        "kube-scheduler does not look at",
    )


def add_evicting(group: Any) -> None:
    """When victims are evicted."""
    group.add_argument(
        "--evict-after",
        type=_seconds_or_never,
        metavar="SECONDS",
        help="evict pods that have to stop for others if they still run then: kube-scheduler "
        "leaves victims running that are of no lower class, or that have device claims; needs "
        "--kubeconfig or --in-cluster; never: leave them to others (default 5)",
    )


def add_listening(group: Any) -> None:
    """Where to listen, for which clients, and how much is read."""
    group.add_argument("--host", default="127.0.0.1", help="address (default 127.0.0.1)")
    group.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"0: any free one (default {HIVED_PORT}, of gpushare {GPUSHARE_PORT}, of a "
        f"scheduler {SCHEDULER_PORT})",
    )
    group.add_argument(
        "--max-body",
        type=_bytes,
        metavar="BYTES",
        help=f"largest request (default {MAX_BODY}, of a scheduler {MAX_EVENTS})",
    )
    group.add_argument(
        "--header-seconds",
        type=_seconds,
        default=_HEADER_SECONDS,
        metavar="SECONDS",
        help="end a connection whose request has no whole header by then (default "
        f"{_HEADER_SECONDS:g})",
    )
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="clients have to send the token in this file (Authorization: Bearer ...), but for "
        "/healthz, /livez and /readyz",
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate: serves HTTPS")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="only clients with a certificate of this authority may ask",
    )


def add_scheduler(group: Any) -> None:
    """Options of a scheduler."""
    group.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="its decisions are written there; if there are some already it goes on from them",
    )
    group.add_argument(
        "--fsync",
        choices=("always", "interval", "never"),
        help="when the log is on the disk, so that a power cut leaves it: before each answer, once "
        "a second, or when the system has it there (default interval)",
    )
    group.add_argument(
        "--snapshot-every",
        type=_lines,
        metavar="N",
        help="begin a new segment of the log with the scheduler's state when it has N lines more, "
        "and start from there; 0: never (default 10000)",
    )
    group.add_argument(
        "--scheduler-name",
        action="append",
        metavar="NAME",
        help="a profile of kube-scheduler that asks this service, may be said several times: pods "
        "with another spec.schedulerName only use up devices (default default-scheduler)",
    )
    group.add_argument(
        "--max-step",
        type=_seconds,
        metavar="SECONDS",
        help="refuse events that are further ahead of the service's clock (default 604800, a week)",
    )


def add_hived(group: Any) -> None:
    """What HiveD alone knows."""
    group.add_argument(
        "--evictions",
        choices=("packing", "least", "private"),
        help="what comes first where not all can be had: well-packed nodes, few evictions, or the "
        "nodes of a private cluster (default packing)",
    )
    group.add_argument(
        "--start-bad",
        action="store_true",
        help="nodes are bad until they are reported, as they always are with a cluster of its own",
    )
    group.add_argument(
        "--foreign",
        metavar="RESOURCE",
        help="avoid nodes where pods without HiveD's annotation hold this (default nvidia.com/gpu; "
        "none: such pods are not looked at)",
    )
    group.add_argument(
        "--lease",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="several replicas, of gpushare too: the holder of this Lease leads, the others wait",
    )
    group.add_argument(
        "--no-advertise",
        action="store_true",
        help="do not write the number of leaf cells into the capacity of nodes",
    )
