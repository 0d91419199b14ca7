"""`hivecore serve`: one of the scheduler extenders, or a scheduler, over HTTP."""

import argparse
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hivecore.interop.hived.serving.command import read_config
from hivecore.interop.kubernetes.serving.logs import LEVELS, start_logging
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.interop.serve_options import (
    GPUSHARE_PORT,
    HIVED_PORT,
    MAX_BODY,
    MAX_EVENTS,
    SCHEDULER_PORT,
    add_binding,
    add_evicting,
    add_hived,
    add_listening,
    add_scheduler,
)

__all__ = ["add_serve_command"]

_OF_LOG = "fsync", "snapshot_every"
_OF_SCHEDULER = "log", "max_step", "scheduler_name", *_OF_LOG
_OF_HIVED = "evictions", "start_bad", "foreign", "lease", "no_advertise"


def add_serve_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    parser = commands.add_parser(
        "serve",
        help="serve a scheduler, or a scheduler extender of Kubernetes as HiveD or gpushare does",
        description="Serves an HTTP interface for kube-scheduler. HiveD's: /v1/extender, "
        "/v1/inspect and /v1/watch (events and lists of pods and nodes). gpushare's: "
        "/gpushare-scheduler/filter, bind, inspect and watch (events of nodes, pods and "
        "ConfigMaps). Both: /healthz, /livez, /readyz and /metrics. kube-scheduler leaves the "
        "binding of pods to the extender. With --kubeconfig or --in-cluster this process binds "
        "them, and then also watches the cluster itself and listens only when it knows it; "
        "else name a --binder, or say --no-bind if the client binds them. With --scheduler FILE "
        "it serves a scheduler for anybody: events in by POST /v1/events, actions out by "
        "GET /v1/actions; /v1/explain/JOB, /v1/what-if and /v1/status; and for kube-scheduler: "
        "/v1/extender and /v1/watch for pods with HiveD's or Koordinator's annotations.",
    )
    parser.set_defaults(run=_serve, needs=("yaml", "aiohttp", "prometheus_client"), extra="serve")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "config",
        type=Path,
        nargs="?",
        metavar="CONFIG",
        help="HiveD's configuration file; a cluster's own YAML is as with --scheduler",
    )
    which.add_argument(
        "--gpushare", choices=("MiB", "GiB"), help="gpushare, its gpu-mem in this unit"
    )
    which.add_argument(
        "--scheduler",
        type=Path,
        metavar="FILE",
        help="the scheduler of a cluster's YAML, or the to_bytes() of one",
    )
    add_binding(parser.add_argument_group("binding of pods").add_mutually_exclusive_group())
    add_evicting(parser.add_argument_group("victims"))
    add_listening(parser.add_argument_group("listening"))
    add_hived(parser.add_argument_group("of HiveD"))
    add_scheduler(parser.add_argument_group("of --scheduler"))
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="of the JSON lines on standard error"
    )


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.config is not None and _is_of_a_cluster(arguments.config):
        arguments.scheduler = arguments.config
    _check(arguments)
    start_logging(arguments.log_level)
    if arguments.scheduler is not None:
        return _scheduler(arguments, _listening(arguments, SCHEDULER_PORT, MAX_EVENTS))
    if arguments.gpushare is not None:
        return _gpushare(arguments, _listening(arguments, GPUSHARE_PORT, MAX_BODY))
    return _hived(arguments, _listening(arguments, HIVED_PORT, MAX_BODY))


def _is_of_a_cluster(path: Path) -> bool:
    """Whether it is a cluster's own YAML, and none of HiveD's."""
    return path.is_file() and SchedulerSpec.recognises(path.read_text("utf-8", errors="replace"))


def _listening(arguments: argparse.Namespace, port: int, max_body: int) -> Any:
    from hivecore.interop.kubernetes.serving.server import Listening, read_token

    _check_host(arguments.host)
    return Listening(
        arguments.host,
        port if arguments.port is None else arguments.port,
        max_body if arguments.max_body is None else arguments.max_body,
        _tls(arguments),
        "" if arguments.token_file is None else read_token(arguments.token_file),
        head_seconds=arguments.header_seconds,
    )


def _check_host(host: str) -> None:
    try:
        socket.getaddrinfo(host or None, 0)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no name of a host"
        raise ValueError(f"--host {host[:80]}: {why}") from None


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what makes no sense together."""
    cluster = arguments.kubeconfig is not None or arguments.in_cluster
    if arguments.scheduler is not None:
        _refuse(arguments, _OF_HIVED, "--scheduler")
    else:
        for name in _OF_SCHEDULER:
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} needs --scheduler")
    if arguments.gpushare is not None:
        _refuse(
            arguments, ["evict_after", *(name for name in _OF_HIVED if name != "lease")], "gpushare"
        )
    if arguments.scheduler is None and not (cluster or arguments.binder or arguments.no_bind):
        ways = "--kubeconfig FILE, --in-cluster, --binder URL or --no-bind"
        raise ValueError(f"binding of pods: give one of {ways}; see --help")
    for name in ("lease", "evict_after"):
        if getattr(arguments, name) is not None and not cluster:
            raise ValueError(f"--{name.replace('_', '-')} needs --kubeconfig or --in-cluster")
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise ValueError("--tls-cert and --tls-key go together")
    if arguments.tls_client_ca is not None and arguments.tls_cert is None:
        raise ValueError("--tls-client-ca needs --tls-cert and --tls-key")


def _refuse(arguments: argparse.Namespace, names: Iterable[str], service: str) -> None:
    for name in names:
        if getattr(arguments, name):
            raise ValueError(f"--{name.replace('_', '-')} has no meaning for {service}")


def _tls(arguments: argparse.Namespace) -> Any:
    from hivecore.interop.kubernetes.serving.server import tls_context

    if arguments.tls_cert is None:
        return None
    try:
        return tls_context(arguments.tls_cert, arguments.tls_key, arguments.tls_client_ca)
    except OSError as error:
        files = f"--tls-cert {arguments.tls_cert}, --tls-key {arguments.tls_key}"
        if arguments.tls_client_ca is not None:
            files += f", --tls-client-ca {arguments.tls_client_ca}"
        pem = "no certificate and key in PEM: " if isinstance(error, ssl.SSLError) else ""
        raise ValueError(f"{files}: {pem}{error.strerror or error}") from None


def _hived(arguments: argparse.Namespace, listening: Any) -> int:
    from hivecore.interop.hived import HivedScheduler
    from hivecore.interop.hived.serving.process import serve_hived

    config = read_config(arguments.config)
    if config is None:
        return 1
    binding = _binding(arguments)
    scheduler = HivedScheduler(
        config,
        initially_healthy=binding.api is None and not arguments.start_bad,
        evictions=arguments.evictions or "packing",
    )
    serving = serve_hived(
        arguments.config,
        scheduler,
        listening,
        binding,
        lease=arguments.lease,
        foreign={None: "nvidia.com/gpu", "none": None}.get(arguments.foreign, arguments.foreign),
        advertise=not arguments.no_advertise,
        **_evicting(arguments),
    )
    return _run(serving)


def _run(serving: Coroutine[Any, Any, None]) -> int:
    from hivecore.interop.kubernetes.serving.process import LeaseLost
    from hivecore.interop.kubernetes.serving.server import run

    try:
        run(serving)
    except LeaseLost as error:
        raise ValueError(str(error)) from None
    return 0


def _api(arguments: argparse.Namespace) -> Callable[[], Awaitable[Any]] | None:
    """What makes the connection to the API server; None: there is none."""
    if arguments.kubeconfig is None and not arguments.in_cluster:
        return None
    if not find_spec("kubernetes_asyncio"):
        raise ImportError(
            "--kubeconfig and --in-cluster need kubernetes_asyncio: "
            "pip install 'hivecore[kubernetes]'"
        )
    from hivecore.interop.kubernetes.client.api_server import ApiServer

    if arguments.in_cluster:
        return ApiServer.in_cluster
    return lambda: ApiServer.of_kubeconfig(arguments.kubeconfig)


def _binding(arguments: argparse.Namespace) -> Any:
    from hivecore.interop.kubernetes.serving.posting import PostingBinder
    from hivecore.interop.kubernetes.serving.process import Binding

    binder = None if arguments.binder is None else PostingBinder(arguments.binder)
    return Binding(_api(arguments), binder, arguments.no_bind)


def _evicting(arguments: argparse.Namespace) -> dict[str, float]:
    return {} if arguments.evict_after is None else {"evict_after": arguments.evict_after}


def _gpushare(arguments: argparse.Namespace, listening: Any) -> int:
    from hivecore.interop.gpushare.link import GpushareLink
    from hivecore.interop.gpushare.service import GpushareService
    from hivecore.interop.kubernetes.serving.process import lease_of, serve

    async def serving() -> None:
        async with _binding(arguments).connected() as (api, binds):
            service = GpushareService(arguments.gpushare, **binds)
            link = None if api is None else GpushareLink(service, api)
            await serve(service, listening, link, lease_of(api, arguments.lease))

    return _run(serving())


def _scheduler(arguments: argparse.Namespace, listening: Any) -> int:
    from hivecore.interop.extender.process import opened, serve_scheduler

    if arguments.log is None:
        for name in _OF_LOG:
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} needs --log")
    given = {name: getattr(arguments, name) for name in ("max_step", *_OF_LOG)}
    given["scheduler_names"] = arguments.scheduler_name
    limits = {name: value for name, value in given.items() if value is not None}
    binding = _binding(arguments)
    with opened(arguments.scheduler, arguments.log) as (scheduler, actions):
        return _run(
            serve_scheduler(
                scheduler, listening, actions, binding, **_evicting(arguments), **limits
            )
        )
