"""`hivecore init`: a file to begin with."""

import argparse
from pathlib import Path
from typing import Any

from hivecore.interop.scheduler_file.shapes import SHAPES, shape_text

__all__ = ["add_init_command"]


def add_init_command(commands: Any) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    """
    one = commands.add_parser(
        "init",
        help="write a commented file for a cluster, to begin with",
        description="Writes commented YAML for a cluster of this shape: one node, a rack of 16, or "
        "four of them. Edit it, then try `hivecore validate FILE`.",
    )
    one.set_defaults(run=_init, needs=(), extra="hived")
    one.add_argument("shape", choices=SHAPES, metavar="SHAPE", help=", ".join(SHAPES))
    one.add_argument(
        "--out", type=Path, metavar="FILE", help="a file that is not there yet (default: printed)"
    )


def _init(arguments: argparse.Namespace) -> None:
    text = shape_text(arguments.shape)
    if arguments.out is None:
        print(text, end="")
        return
    try:
        with arguments.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"--out {arguments.out}: exists already; name another file") from None
    print(f"wrote {arguments.out}")
