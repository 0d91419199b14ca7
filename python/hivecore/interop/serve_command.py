"""`hivecore serve`: one of the scheduler extenders, over HTTP."""

import argparse
from pathlib import Path
from typing import Any

from hivecore.interop.hived.serving.command import read_config

__all__ = ["add_serve_command"]

_MAX_BODY = 64 * 1024 * 1024  # bytes; a pod and the names of 100,000 nodes are 5 MB
_HIVED_PORT, _GPUSHARE_PORT = 9096, 32766


def add_serve_command(commands: Any) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    """
    one = commands.add_parser(
        "serve",
        help="serve as a scheduler extender of Kubernetes, as HiveD or gpushare does",
        description="Serves an HTTP interface for kube-scheduler. HiveD's: /v1/extender, "
        "/v1/inspect, /v1/watch (events of pods and nodes) and /healthz. gpushare's: "
        "/gpushare-scheduler/filter, bind, inspect and watch (events of nodes, pods and "
        "ConfigMaps), and /healthz.",
    )
    one.set_defaults(run=_serve, needs=("yaml", "starlette", "uvicorn"), extra="serve")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "config", type=Path, nargs="?", metavar="CONFIG", help="HiveD's configuration file"
    )
    which.add_argument(
        "--gpushare", choices=("MiB", "GiB"), help="gpushare, its gpu-mem in this unit"
    )
    one.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    one.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"0: any free one (default {_HIVED_PORT}, of gpushare {_GPUSHARE_PORT})",
    )
    one.add_argument(
        "--max-body",
        type=_bytes,
        default=_MAX_BODY,
        metavar="BYTES",
        help=f"largest request (default {_MAX_BODY})",
    )
    one.add_argument(
        "--evictions",
        choices=("packing", "least"),
        help="of HiveD: what comes first where both cannot be had: well-packed nodes, or few "
        "evictions (default packing)",
    )


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _bytes(text: str) -> int:
    return _number(text, 1, 2**40)


def _number(text: str, low: int, high: int) -> int:
    if text.isdecimal() and len(text) <= 20 and low <= int(text) <= high:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be an integer from {low} to {high}, not {text!r}")


def _serve(arguments: argparse.Namespace) -> int:
    from hivecore.interop.kubernetes.server import serve

    if arguments.gpushare is None:
        port, extender = _HIVED_PORT, _hived(arguments)
    else:
        port, extender = _GPUSHARE_PORT, _gpushare(arguments)
    if extender is None:
        return 1
    given = port if arguments.port is None else arguments.port
    serve(extender, arguments.host, given, arguments.max_body)
    return 0


def _hived(arguments: argparse.Namespace) -> Any:
    """HiveD's extender; None: the configuration has mistakes, which have been printed."""
    from hivecore.interop.hived import Extender, HivedScheduler

    config = read_config(arguments.config)
    if config is None:
        return None
    return Extender(HivedScheduler(config, evictions=arguments.evictions or "packing"))


def _gpushare(arguments: argparse.Namespace) -> Any:
    from hivecore.devices import DeviceCluster
    from hivecore.interop.gpushare import Extender

    if arguments.evictions is not None:
        raise ValueError("--evictions has no meaning for gpushare")
    return Extender(DeviceCluster(), arguments.gpushare)
