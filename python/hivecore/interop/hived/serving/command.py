"""`hivecore validate`."""

import argparse
import sys
from pathlib import Path
from typing import Any

from hivecore.interop.hived.configuration.config import ConfigError, HivedConfig

__all__ = ["add_validate_command", "read_config"]


def add_validate_command(commands: Any) -> None:
    """Add the command to the subparsers of a parser.

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


def read_config(path: Path) -> HivedConfig | None:
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
    config = read_config(arguments.file)
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
