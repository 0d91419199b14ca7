"""What the parts of the command share: kinds of arguments, a watch, and ways to print."""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

__all__ = [
    "Watch",
    "count",
    "file_names",
    "number",
    "positive",
    "print_table",
    "print_times",
    "say_written",
    "write_json",
]


def positive(text: str) -> float:
    """Return a finite and positive number.

    :param text: of the argument.
    :raises argparse.ArgumentTypeError: it is no such number.

    >>> positive("1.5")
    1.5
    """
    with suppress(ValueError):
        if 0 < (value := float(text)) < inf:
            return value
    raise argparse.ArgumentTypeError(f"must be a finite and positive number, not {text!r}")


def count(text: str) -> int:
    """Return a whole number of at least 1.

    :param text: of the argument.
    :raises argparse.ArgumentTypeError: it is no such number.

    >>> count("8")
    8
    """
    return _whole(text, 1)


def number(text: str) -> int:
    """Return a whole number of at least 0.

    :param text: of the argument.
    :raises argparse.ArgumentTypeError: it is no such number.

    >>> number("0")
    0
    """
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= least:
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, not {text!r}")


class Watch:
    """Time the steps of a command.

    >>> watch = Watch()
    >>> with watch("read"):
    ...     pass
    >>> list(watch.seconds)
    ['read']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Time what is done in this context.

        :param step: its name.
        """
        begin = perf_counter()
        yield
        self.seconds[step] = round(perf_counter() - begin, 3)


def file_names(paths: Sequence[str]) -> list[str]:
    """Return names without folders: equal replays should give equal files on any machine.

    :param paths: of files.

    >>> file_names(["a/b.csv"])
    ['b.csv']
    """
    return [Path(path).name for path in paths]


def say_written(paths: Sequence[Path]) -> None:
    """Print a line per file.

    :param paths: of files.
    """
    for path in paths:
        print(f"wrote {path}")


def print_times(watch: Watch) -> None:
    """Print how long the steps took.

    :param watch: that timed them.
    """
    steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in watch.seconds.items())
    print(f"Time: {steps}.")


def print_table(grid: Any) -> None:
    """Print a Rich table.

    :param grid: the table.
    """
    from rich.console import Console

    console = Console()
    # Never narrower than the table, in a pipe or a small window: that would cut figures off.
    needed = console.measure(grid, options=console.options.update(width=1000)).maximum
    console.width = max(console.width, needed)
    console.print(grid)


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON, and say so.

    :param path: of the file.
    :param data: for `json.dumps`.
    """
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"wrote {path}")
