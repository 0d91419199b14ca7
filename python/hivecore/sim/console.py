"""Shared by all commands: types of arguments, a stopwatch, printing and writing.

On a screen, output is fitted to the width. In a file or a pipe, each sentence is a line and tables
are whole, in 80 columns if possible. No escape sequences are written if `NO_COLOR` is set
(no-color.org), if the output is not a screen, or on a dumb terminal.
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
from threading import Event, Thread
from time import perf_counter
from typing import Any

from hivecore._stateful import counted
from hivecore.sim.report import Report

__all__ = [
    "Stopwatch",
    "add",
    "between",
    "factor",
    "file_names",
    "files_with",
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

_SECONDS_BETWEEN_LINES = 10.0
_LIST_WIDTH = 40  # so that figures stay near their headings


def add(parser: Any, name: str, metavar: str | tuple[str, str], help: str, **options: Any) -> None:
    """Add an option or an argument to a parser; ``{}`` in its help is replaced by the choices."""
    help = help.format(", ".join(options.get("choices", ())))
    parser.add_argument(name, metavar=metavar, help=help, **options)


def replay_kind(kinds: Any, name: str, files: str, what: str, run: Any) -> Any:
    """Return a new parser for a kind of replay, with the common options."""
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
    """Return a parser of whole numbers within limits."""

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
    """Return a parser of positive numbers within limits."""

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
    """Parse a number from a millionth to a million."""
    return between(1e-6, 1e6)(text)


def pair(sides: str) -> Callable[[str], tuple[str, str]]:
    """Return a parser of two texts around an equals sign."""

    def read(text: str) -> tuple[str, str]:
        left, _, right = text.partition("=")
        if not (left and right):
            raise _refused(sides, text)
        return left, right

    return read


def picture(*endings: str) -> Callable[[str], Path]:
    """Return a parser of a picture's path, which must have one of these endings."""

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
    """Prefix the message of a `ValueError` with an option or a file.

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
    """Measures the duration of a command's steps.

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
        """Measure the context."""
        begin = perf_counter()
        yield
        self.seconds[step] = round(perf_counter() - begin, 3)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """Show how many jobs have been submitted: a bar, or off a terminal a line every ten seconds.

    :param total: jobs of all steps.
    :returns: step name -> a function to call with the number of its jobs so far.
    """
    from tqdm import tqdm

    if not sys.stderr.isatty():
        with _progress_lines(total) as step:
            yield step
        return
    with tqdm(total=total, unit=" jobs", leave=False) as bar:

        def step(name: str) -> Callable[[int], None]:
            bar.set_description(name)
            before = bar.n

            def move(submitted: int) -> None:
                bar.update(before + submitted - bar.n)

            return move

        yield step


@contextmanager
def _progress_lines(total: int) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """`progress_bar` as lines, for logs and pipes."""
    begin, ended = perf_counter(), Event()
    latest, submitted = "", 0

    def step(name: str) -> Callable[[int], None]:
        before = submitted

        def move(jobs: int) -> None:
            nonlocal latest, submitted
            latest, submitted = f" ({name})", before + jobs

        return move

    def say() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            seconds = perf_counter() - begin
            line = f"simulated {submitted:,} of {counted(total, 'job')}{latest}, {seconds:.0f} s"
            print(line, file=sys.stderr, flush=True)

    thread = Thread(target=say, daemon=True)
    thread.start()
    try:
        yield step
    finally:
        ended.set()
        thread.join()


def file_names(paths: Iterable[Path]) -> list[str]:
    """Return names without folders, so that equal replays give equal files on any machine."""
    return [path.name for path in paths]


def files_with(arguments: argparse.Namespace, option: str) -> str:
    """Return the trace files for messages, and an option that changes them unless by a factor of 1.

    >>> from argparse import Namespace
    >>> files_with(Namespace(traces=["a.csv", "b.csv"], load=3.0), "load")
    'a.csv, b.csv with --load 3'
    """
    files, value = ", ".join(map(str, arguments.traces)), getattr(arguments, option)
    return files if value in (None, 1.0) else f"{files} with --{option} {value:g}"


def say_written(*paths: Path) -> None:
    """Print a line for each file."""
    for path in paths:
        print(f"wrote {path}")


def print_sentence(text: str) -> None:
    """Print a sentence, wrapped on a screen."""
    if sys.stdout.isatty():
        text = fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False)
    print(text)


def print_report(report: Report) -> None:
    """Print a report: its table (loose or compact) or lists, and its findings."""
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
        # In a file or a pipe a table may be wider, as cutting or folding would spoil its figures.
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
    """Print a report and the times of all steps, draw its pictures, and write its JSON."""
    with watch("report"):
        print_report(report)
        if pictures:
            say_written(*report.save_pictures(pictures))
    if json_file:
        write_json(json_file, report.to_json(configuration, watch.seconds))
    steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in watch.seconds.items())
    print_sentence(f"Time: {steps}.")


def try_outputs(file: Path | None, folder: Path | None) -> None:
    """Check that results can be written, without leaving or changing anything.

    :param file: for `write_json`; may be inside ``folder``.
    :param folder: created when written to, with its parents.
    :raises OSError: writing is impossible.
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
        # Opening a terminal or a pipe could disturb it, so it is not checked.
        if file is not None and (not file.exists() or file.is_file() or file.is_dir()):
            new = not file.exists()
            file.open("ab").close()
            if new:
                file.resolve().unlink()
    finally:
        for path in reversed(created):
            path.rmdir()


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON, and print the path."""
    try:
        path.write_text(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    say_written(path)
