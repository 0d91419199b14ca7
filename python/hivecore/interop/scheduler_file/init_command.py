"""`hivecore init`: writes a template, or the file of a cluster that kubectl has dumped."""

import argparse
from pathlib import Path
from typing import Any

from hivecore._arguments import utf8_text
from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.scheduler_file.shapes import SHAPES, shape_text

__all__ = ["add_init_command"]


def add_init_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    command = commands.add_parser(
        "init",
        help="write a commented file for a cluster, to begin with",
        description="Writes commented YAML for a cluster of this shape: one node, a rack of 16, or "
        "four of them; or for the cluster that a dump of kubectl shows. Edit it, then try "
        "`hivecore validate FILE`.",
    )
    command.set_defaults(run=_init, needs=(), extra="hived")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("shape", nargs="?", choices=SHAPES, metavar="SHAPE", help=", ".join(SHAPES))
    dump = "nodes and queues (Kueue, Volcano, KAI-Scheduler, Koordinator) as kubectl prints them"
    what.add_argument("--from", dest="dump", type=Path, metavar="DUMP", help=dump)
    flavor = "with --from, of Kueue: count only quotas and nodes of this ResourceFlavor"
    command.add_argument("--flavor", default="", metavar="NAME", help=flavor)
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="a file that is not there yet (default: printed)"
    )


def _text(arguments: argparse.Namespace) -> str:
    if arguments.dump is None:
        if arguments.flavor:
            raise ValueError("--flavor: needs --from, as only dumps have flavors")
        return shape_text(arguments.shape)
    text = utf8_text(arguments.dump)
    return ClusterDump.of_yaml(text, str(arguments.dump), flavor=arguments.flavor).text


def _init(arguments: argparse.Namespace) -> None:
    text = _text(arguments)
    if arguments.out is None:
        print(text, end="")
        return
    try:
        with arguments.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"--out {arguments.out}: exists already; name another file") from None
    print(f"wrote {arguments.out}")
