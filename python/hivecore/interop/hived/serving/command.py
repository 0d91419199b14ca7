"""`hivecore validate` and `hivecore serve`."""

import argparse
import sys
from pathlib import Path
from typing import Any

from hivecore.interop.hived.configuration.config import ConfigError, HivedConfig

__all__ = ["add_hived_commands"]

_MAX_BODY = 64 * 1024 * 1024  # bytes; a pod and the names of 100,000 nodes are 5 MB


def add_hived_commands(commands: Any) -> None:
    """Add the commands to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    """
    one = commands.add_parser(
        "validate",
        help="check a configuration file of HiveD",
        description="Checks a configuration file of HiveD. Prints what is in it, or every mistake "
        "with its place in the file; the exit status is 1 then.",
    )
    one.set_defaults(run=_validate, needs=("yaml",), extra="hived")
    one.add_argument("file", type=Path, metavar="FILE", help="YAML (or JSON) file")

    two = commands.add_parser(
        "serve",
        help="serve as a scheduler extender of Kubernetes, as HiveD does",
        description="Serves HiveD's HTTP interface for kube-scheduler: /v1/extender, /v1/inspect, "
        "/v1/watch (events of pods and nodes) and /healthz.",
    )
    two.set_defaults(run=_serve, needs=("yaml", "starlette", "uvicorn"), extra="serve")
    two.add_argument("config", type=Path, metavar="CONFIG", help="HiveD's configuration file")
    two.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    two.add_argument(
        "--port", type=_port, default=9096, metavar="N", help="0: any free one (default 9096)"
    )
    two.add_argument(
        "--max-body",
        type=_bytes,
        default=_MAX_BODY,
        metavar="BYTES",
        help=f"largest request (default {_MAX_BODY})",
    )
    two.add_argument(
        "--evictions",
        choices=("packing", "least"),
        default="packing",
        help="what comes first where both cannot be had: well-packed nodes, or few evictions "
        "(default packing)",
    )


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _bytes(text: str) -> int:
    return _number(text, 1, 2**40)


def _number(text: str, low: int, high: int) -> int:
    if text.isdecimal() and len(text) <= 20 and low <= int(text) <= high:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be an integer from {low} to {high}, not {text!r}")


def _read(path: Path) -> HivedConfig | None:
    """The configuration; None after its mistakes have been printed."""
    try:
        return HivedConfig.read(path)
    except ConfigError as error:
        for place, message in error.problems:
            print(f"{path}: {place + ': ' if place else ''}{message}", file=sys.stderr)
        count = len(error.problems)
        print(f"{path}: {count} mistake{'s' if count > 1 else ''}", file=sys.stderr)
        return None


def _validate(arguments: argparse.Namespace) -> int:
    config = _read(arguments.file)
    if config is None:
        return 1
    spec = config.spec
    rows: list[tuple[str, ...]] = [("chain", "cells", "nodes", "devices", "levels")]
    for name, chain in spec.chains.items():
        nodes = len(chain.nodes or ())
        levels = " > ".join(reversed(chain.levels))
        rows.append((name, str(chain.roots), str(nodes), str(chain.leaves), levels))
    _print(rows)
    rows = [("virtual cluster", "chain", "level", "cells", "pinned")]
    for vc, owned in spec.virtual_clusters.items():
        pinned = spec.pinned_cells.get(vc, {})
        before = len(rows)
        for chain_name, counts in owned.items():
            rows += [(vc, chain_name, level, str(count), "") for level, count in counts.items()]
        rows += [(vc, chain, level, "1", pin) for pin, (chain, level, _) in pinned.items()]
        if len(rows) == before:
            rows.append((vc, "", "", "0", ""))
    if len(rows) > 1:
        print()
        _print(rows)
    return 0


def _print(rows: list[tuple[str, ...]]) -> None:
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numbers = [all(map(str.isdecimal, column[1:])) for column in columns]
    for row in rows:
        cells = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, numbers, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _serve(arguments: argparse.Namespace) -> int:
    from hivecore.interop.hived.scheduler import HivedScheduler
    from hivecore.interop.hived.serving.extender import Extender
    from hivecore.interop.kubernetes.server import serve

    config = _read(arguments.config)
    if config is None:
        return 1
    scheduler = HivedScheduler(config, evictions=arguments.evictions)
    serve(Extender(scheduler), arguments.host, arguments.port, arguments.max_body)
    return 0
