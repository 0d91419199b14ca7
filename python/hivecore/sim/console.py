"""What all commands share: kinds of arguments, a stopwatch, and ways to print and write.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import fill
from time import perf_counter
from typing import Any

from hivecore.sim.report import Report

__all__ = [
    "Stopwatch",
    "add",
    "between",
    "factor",
    "file_names",
    "named",
    "pair",
    "picture",
    "print_report",
    "print_sentence",
    "progress_bar",
    "publish",
    "replay_kind",
    "say_written",
    "try_outputs",
    "whole",
    "write_json",
]

_LIST_WIDTH = 40  # figures stay near their headings


def add(parser: Any, name: str, metavar: str | tuple[str, str], help: str, **options: Any) -> None:
    """Add an option, or an argument, to a parser; its help may have a gap for the choices."""
    help = help.format(", ".join(options.get("choices", ())))
    parser.add_argument(name, metavar=metavar, help=help, **options)


def replay_kind(kinds: Any, name: str, files: str, what: str, run: Any) -> Any:
    """Return a new parser of a kind of replay, with the options that all have."""
    usage = f"hivecore replay {name} [options] {files}"
    help, description = what.partition(":")[0], f"Replays {what}."
    kind = kinds.add_parser(name, usage=usage, help=help, description=description)
    kind.set_defaults(run=run)
    if files.startswith("TRACE"):
        many = "+" if "..." in files else 1
        add(kind, "traces", "TRACE", "trace file, .gz is unpacked", type=Path, nargs=many)
    add(kind, "--json", "FILE", "write all figures as JSON", type=Path)
    add(kind, "--plots", "DIR", "write plots as PNG files", type=Path)
    return kind


def whole(least: int = 1, most: float = inf) -> Callable[[str], int]:
    """Return what reads a whole number in these limits."""

    def read(text: str) -> int:
        value = least - 1
        with suppress(ValueError):
            value = int(text)
        if value < least:
            raise _refused(f"a whole number of at least {least}", text)
        if value > most:
            raise _refused(f"at most {most}", text)
        return value

    return read


def between(least: float, most: float) -> Callable[[str], float]:
    """Return what reads a number in these limits, which are above 0."""

    def read(text: str) -> float:
        value = 0.0
        with suppress(ValueError):
            value = float(text)
        if not 0 < value < inf:
            raise _refused("a finite and positive number", text)
        if not least <= value <= most:
            raise _refused(f"a number from {least:g} to {most:g}", text)
        return value

    return read


def factor(text: str) -> float:
    """Return a number from a millionth to a million."""
    return between(1e-6, 1e6)(text)


def pair(sides: str) -> Callable[[str], tuple[str, str]]:
    """Return what reads two texts with an equals sign between them."""

    def read(text: str) -> tuple[str, str]:
        left, _, right = text.partition("=")
        if not (left and right):
            raise _refused(sides, text)
        return left, right

    return read


def picture(*endings: str) -> Callable[[str], Path]:
    """Return what reads the path of a picture, whose name has one of these endings."""

    def read(text: str) -> Path:
        if Path(text).suffix.lower() not in endings:
            raise argparse.ArgumentTypeError(f"must end in {' or '.join(endings)}, not {text!r}")
        return Path(text)

    return read


def _refused(allowed: str, text: str) -> argparse.ArgumentTypeError:
    shown = repr(text if len(text) <= 60 else text[:40] + "...")
    return argparse.ArgumentTypeError(f"must be {allowed}, not {shown}")


@contextmanager
def named(what: object) -> Iterator[None]:
    """Put the option or the file that is to blame before the message of a `ValueError`.

    >>> with named("--load 3"):
    ...     raise ValueError("too much")
    Traceback (most recent call last):
    ValueError: --load 3: too much
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


class Stopwatch:
    """Times the steps of a command.

    >>> watch = Stopwatch()
    >>> with watch("read"):
    ...     pass
    >>> list(watch.seconds)
    ['read']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Time what is done in this context."""
        begin = perf_counter()
        yield
        self.seconds[step] = round(perf_counter() - begin, 3)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """Show how many jobs have been submitted, where it can be seen.

    :param total: jobs of all steps.
    :returns: what is told the name of a step, and answers with what is told its jobs so far.
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


def file_names(paths: Iterable[Path]) -> list[str]:
    """Return names without folders: equal replays should give equal files on any machine."""
    return [path.name for path in paths]


def say_written(*paths: Path) -> None:
    """Print a line per file."""
    for path in paths:
        print(f"wrote {path}")


def print_sentence(text: str) -> None:
    """Print a sentence, on a screen broken between words."""
    if sys.stdout.isatty():
        text = fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False)
    print(text)


def print_report(report: Report) -> None:
    """Print a report: its table, loosely or closely set, or as lists, and its findings."""
    if report.rows:
        _print_table(report)
    for sentence in report.findings:
        print_sentence(sentence)


def _print_table(report: Report) -> None:
    from rich.console import Console

    console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
    anywhere = console.options.update(width=1000)
    table = report.table()
    fits = console.measure(table, options=anywhere).maximum <= console.width
    if not fits:
        table.padding = 0
        needed = console.measure(table, options=anywhere).minimum
        fits = needed <= console.width
        # In a file or a pipe a table may be wider: to cut or fold it would spoil its figures.
        if not fits and not sys.stdout.isatty() and "COLUMNS" not in os.environ:
            console.width = needed
            fits = True
    if fits:
        with console.capture() as text:  # Rich would end the process if the reader has gone
            console.print(table)
        print(text.get(), end="")
    else:
        print(report.lists(min(console.width, _LIST_WIDTH)))


def publish(
    report: Report,
    watch: Stopwatch,
    configuration: Mapping[str, Any],
    json_file: Path | None,
    pictures: Path | None,
) -> None:
    """Print a report, draw its pictures, write its JSON and print how long all steps took."""
    with watch("report"):
        print_report(report)
        if pictures:
            say_written(*report.save_pictures(pictures))
    if json_file:
        write_json(json_file, report.to_json(configuration, watch.seconds))
    steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in watch.seconds.items())
    print_sentence(f"Time: {steps}.")


def try_outputs(file: Path | None, folder: Path | None) -> None:
    """Find out whether results could be written; nothing is left behind, and no file changed.

    :param file: for `write_json`; may lie in ``folder``.
    :param folder: made when it is written to, with its parents.
    :raises OSError: one cannot be written.
    """
    created: list[Path] = []
    try:
        if folder is not None:
            for missing in reversed([at for at in (folder, *folder.parents) if not at.exists()]):
                missing.mkdir()
                created.append(missing)
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
        for path in reversed(created):
            path.rmdir()


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON, and say so."""
    try:
        path.write_text(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    say_written(path)
