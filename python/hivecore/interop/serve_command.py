"""`hivecore serve`: one of the scheduler extenders, over HTTP."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hivecore.interop.hived.serving.command import read_config
from hivecore.interop.kubernetes.serving.logs import LEVELS, start_logging

__all__ = ["add_serve_command"]

_MAX_BODY = 64 * 1024 * 1024  # bytes; a pod and the names of 100,000 nodes are 5 MB
_HIVED_PORT, _GPUSHARE_PORT = 9096, 32766
_OF_HIVED = (
    *("evictions", "start_bad", "foreign", "kubeconfig", "in_cluster", "lease", "no_advertise"),
)


def add_serve_command(commands: Any) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    """
    one = commands.add_parser(
        "serve",
        help="serve as a scheduler extender of Kubernetes, as HiveD or gpushare does",
        description="Serves an HTTP interface for kube-scheduler. HiveD's: /v1/extender, "
        "/v1/inspect and /v1/watch (events and lists of pods and nodes). gpushare's: "
        "/gpushare-scheduler/filter, bind, inspect and watch (events of nodes, pods and "
        "ConfigMaps). Both: /healthz, /livez, /readyz and /metrics. Somebody has to bind pods: "
        "kube-scheduler leaves it to the extender. With --kubeconfig or --in-cluster it is this "
        "process, which then also watches the cluster itself and listens only when it knows it; "
        "else name a --binder, or say --no-bind if whoever calls binds them.",
    )
    one.set_defaults(run=_serve, needs=("yaml", "aiohttp", "prometheus_client"), extra="serve")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "config", type=Path, nargs="?", metavar="CONFIG", help="HiveD's configuration file"
    )
    which.add_argument(
        "--gpushare", choices=("MiB", "GiB"), help="gpushare, its gpu-mem in this unit"
    )
    _add_binding(one.add_argument_group("who binds pods").add_mutually_exclusive_group())
    _add_listening(one.add_argument_group("listening"))
    _add_hived(one.add_argument_group("of HiveD"))
    one.add_argument(
        "--log-level", choices=LEVELS, default="info", help="of the JSON lines on standard error"
    )


def _add_binding(group: Any) -> None:
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
        help="whoever calls the bind verb; its answer has the object under Binding, which "
        "kube-scheduler does not look at",
    )


def _add_listening(group: Any) -> None:
    group.add_argument("--host", default="127.0.0.1", help="address (default 127.0.0.1)")
    group.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"0: any free one (default {_HIVED_PORT}, of gpushare {_GPUSHARE_PORT})",
    )
    group.add_argument(
        "--max-body",
        type=_bytes,
        default=_MAX_BODY,
        metavar="BYTES",
        help=f"largest request (default {_MAX_BODY})",
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate: serves HTTPS")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="only clients with a certificate of this authority may ask",
    )


def _add_hived(group: Any) -> None:
    group.add_argument(
        "--evictions",
        choices=("packing", "least"),
        help="what comes first where both cannot be had: well-packed nodes, or few evictions "
        "(default packing)",
    )
    group.add_argument(
        "--start-bad",
        action="store_true",
        help="nodes are bad until they are reported, as they always are with a cluster of its own",
    )
    group.add_argument(
        "--foreign",
        metavar="RESOURCE",
        help="avoid nodes where pods without HiveD's annotation hold this, such as nvidia.com/gpu",
    )
    group.add_argument(
        "--lease",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="several replicas: whoever holds this Lease leads, the others stand by",
    )
    group.add_argument(
        "--no-advertise",
        action="store_true",
        help="do not write the number of leaf cells into the capacity of nodes",
    )


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _bytes(text: str) -> int:
    return _number(text, 1, 2**40)


def _number(text: str, low: int, high: int) -> int:
    if text.isdecimal() and len(text) <= 20 and low <= int(text) <= high:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be an integer from {low} to {high}, not {text!r}")


def _url(text: str) -> str:
    if urlsplit(text).scheme in ("http", "https") and urlsplit(text).hostname:
        return text
    raise argparse.ArgumentTypeError(f"must be http://... or https://..., not {text!r}")


def _lease(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if namespace and name and "/" not in name:
        return namespace, name
    raise argparse.ArgumentTypeError(f"must be NAMESPACE/NAME, not {text!r}")


def _serve(arguments: argparse.Namespace) -> int:
    from hivecore.interop.kubernetes.serving.server import Listening, run

    _check(arguments)
    start_logging(arguments.log_level)
    hived = arguments.gpushare is None
    port = arguments.port
    if port is None:
        port = _HIVED_PORT if hived else _GPUSHARE_PORT
    listening = Listening(arguments.host, port, arguments.max_body, _tls(arguments))
    if not hived:
        run(_gpushare(arguments, listening))
        return 0
    return _hived(arguments, listening)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what makes no sense together."""
    cluster = arguments.kubeconfig is not None or arguments.in_cluster
    if arguments.gpushare is not None:
        for name in _OF_HIVED:
            if getattr(arguments, name):
                raise ValueError(f"--{name.replace('_', '-')} has no meaning for gpushare")
    if not (cluster or arguments.binder or arguments.no_bind):
        ways = "--binder URL or --no-bind"
        if arguments.gpushare is None:
            ways = f"--kubeconfig FILE, --in-cluster, {ways}"
        raise ValueError(f"who binds pods? Say one of {ways}; see --help")
    if arguments.lease is not None and not cluster:
        raise ValueError("--lease needs --kubeconfig or --in-cluster")
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise ValueError("--tls-cert and --tls-key go together")
    if arguments.tls_client_ca is not None and arguments.tls_cert is None:
        raise ValueError("--tls-client-ca needs --tls-cert and --tls-key")


def _tls(arguments: argparse.Namespace) -> Any:
    from hivecore.interop.kubernetes.serving.server import tls_context

    if arguments.tls_cert is None:
        return None
    return tls_context(arguments.tls_cert, arguments.tls_key, arguments.tls_client_ca)


def _hived(arguments: argparse.Namespace, listening: Any) -> int:
    from hivecore.interop.hived import HivedScheduler
    from hivecore.interop.hived.serving.process import ClusterOptions, LeaseLost, serve_hived
    from hivecore.interop.kubernetes.serving.server import run

    config = read_config(arguments.config)
    if config is None:
        return 1
    api = _api(arguments)
    scheduler = HivedScheduler(
        config,
        initially_healthy=api is None and not arguments.start_bad,
        evictions=arguments.evictions or "packing",
    )
    options = ClusterOptions(
        api, _binder(arguments), arguments.lease, arguments.foreign, not arguments.no_advertise
    )
    try:
        run(serve_hived(arguments.config, scheduler, options, listening))
    except LeaseLost as error:
        raise ValueError(str(error)) from None
    return 0


def _api(arguments: argparse.Namespace) -> Callable[[], Awaitable[Any]] | None:
    """What makes the connection to the API server; None: there is none."""
    if arguments.kubeconfig is None and not arguments.in_cluster:
        return None
    try:
        import kubernetes_asyncio  # noqa: F401
    except ImportError:
        raise ImportError(
            "--kubeconfig and --in-cluster need kubernetes_asyncio: "
            "pip install 'hivecore[kubernetes]'"
        ) from None
    from hivecore.interop.kubernetes.client.api_server import ApiServer

    if arguments.in_cluster:
        return ApiServer.in_cluster
    return lambda: ApiServer.of_kubeconfig(arguments.kubeconfig)


def _binder(arguments: argparse.Namespace) -> Any:
    from hivecore.interop.kubernetes.serving.posting import PostingBinder

    return None if arguments.binder is None else PostingBinder(arguments.binder)


async def _gpushare(arguments: argparse.Namespace, listening: Any) -> None:
    from hivecore.interop.gpushare.service import GpushareService
    from hivecore.interop.kubernetes.serving.server import HttpServer

    binder = _binder(arguments)
    try:
        service = GpushareService(arguments.gpushare, binder)
        async with HttpServer(service, listening) as server:
            await server.listen()
            await asyncio.Event().wait()
    finally:
        if binder is not None:
            await binder.close()
