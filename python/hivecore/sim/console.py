"""What the parts of the command share: kinds of arguments, a watch, and ways to print and write.

Output that is read on a screen is fitted to its width. What goes to a file or a pipe has a sentence
per line and whole tables, of 80 columns if they fit. No escape sequence is written where `NO_COLOR`
is set (no-color.org), where the output is no screen, or on a dumb one.
"""

import argparse
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import fill
from time import perf_counter
from typing import Any

from hivecore.sim.tables import as_lists

__all__ = [
    "Watch",
    "between",
    "count",
    "counts",
    "file_names",
    "named",
    "number",
    "positive",
    "print_dropped",
    "print_sentence",
    "print_table",
    "print_times",
    "progress_bar",
    "say_written",
    "try_outputs",
    "write_json",
]


_LIST_WIDTH = 40  # of as_lists: figures stay near their headings


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
    raise argparse.ArgumentTypeError(f"must be a finite and positive number, not {_shown(text)}")


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


def counts(most: int) -> Callable[[str], int]:
    """Return what reads a whole number from 1 to `most`.

    :param most: the largest number.

    >>> counts(8)("8")
    8
    """

    def read(text: str) -> int:
        value = _whole(text, 1)
        if value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most}, not {_shown(text)}")
        return value

    return read


def between(least: float, most: float) -> Callable[[str], float]:
    """Return what reads a number in these limits.

    :param least: above 0.
    :param most: the largest number.

    >>> between(0.5, 2.0)("1.5")
    1.5
    """

    def read(text: str) -> float:
        value = positive(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"must be a number from {least:g} to {most:g}, not {_shown(text)}"
            )
        return value

    return read


def _whole(text: str, least: int) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= least:
            return value
    raise argparse.ArgumentTypeError(
        f"must be a whole number of at least {least}, not {_shown(text)}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:40] + "...")


@contextmanager
def named(what: str) -> Iterator[None]:
    """Put the option or the file that is to blame before the message of a `ValueError`.

    :param what: the option with its value, or the file.

    >>> with named("--load 3"):
    ...     raise ValueError("too much")
    Traceback (most recent call last):
    ValueError: --load 3: too much
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


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


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """Show how many jobs have been submitted, where someone looks at it.

    :param total: jobs of all steps.
    :returns: what is told the name of a step, and answers with what is told its jobs so far.

    >>> with progress_bar(8) as step:
    ...     step("cells")(8)
    """
    from tqdm import tqdm

    with tqdm(total=total, unit=" jobs", disable=None, leave=False) as bar:

        def step(name: str) -> Callable[[int], None]:
            bar.set_description(name)
            before = bar.n

            def move(submitted: int) -> None:
                bar.update(before + submitted - bar.n)

            return move

        yield step


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


def print_dropped(dropped: Mapping[str, int]) -> None:
    """Print how many jobs of a trace are left out, and why.

    :param dropped: as of a trace.
    """
    for reason, count in dropped.items():
        print_sentence(f"{count:,} jobs of the trace dropped: {reason}.")


def print_times(watch: Watch) -> None:
    """Print how long the steps took.

    :param watch: that timed them.
    """
    steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in watch.seconds.items())
    print_sentence(f"Time: {steps}.")


def print_sentence(text: str) -> None:
    """Print a sentence, on a screen broken between words.

    :param text: of any length.
    """
    if sys.stdout.isatty():
        text = fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False)
    print(text)


def print_table(grid: Any) -> None:
    """Print a Rich table: loosely or closely set, or where a screen is too narrow for it, as lists.

    :param grid: of `hivecore.sim.tables.empty_table`.
    """
    from rich.console import Console

    console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
    anywhere = console.options.update(width=1000)
    fits = console.measure(grid, options=anywhere).maximum <= console.width
    if not fits:
        grid.padding = 0
        needed = console.measure(grid, options=anywhere).minimum
        fits = needed <= console.width
        # In a file or a pipe a table may be wider: to cut or fold it would spoil its figures.
        if not fits and not sys.stdout.isatty() and "COLUMNS" not in os.environ:
            console.width = needed
            fits = True
    if fits:
        with console.capture() as text:  # Rich would end the process if nobody reads
            console.print(grid)
        print(text.get(), end="")
    else:
        print(as_lists(grid, min(console.width, _LIST_WIDTH)))


def try_outputs(file: Path | None, folder: Path | None) -> None:
    """Find out whether results could be written; nothing is left behind, and no file changed.

    :param file: for `write_json`; may lie in ``folder``.
    :param folder: made when it is written to, with its parents.
    :raises OSError: one cannot be written.
    """
    made: list[Path] = []
    try:
        if folder is not None:
            missing = [one for one in (folder, *folder.parents) if not one.exists()]
            for one in reversed(missing):
                one.mkdir()
                made.append(one)
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            TemporaryFile(dir=folder).close()
        # A terminal or a pipe, which opening could disturb, is taken as it is.
        if file is not None and (not file.exists() or file.is_file() or file.is_dir()):
            new = not file.exists()
            file.open("ab").close()
            if new:
                file.resolve().unlink()
    finally:
        for one in reversed(made):
            one.rmdir()


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON, and say so.

    :param path: of the file.
    :param data: for `json.dumps`.
    """
    try:
        path.write_text(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    print(f"wrote {path}")
