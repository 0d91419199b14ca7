"""The part of `hivecore replay` in which specs describe the schedulers."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Watch,
    file_names,
    named,
    print_sentence,
    print_table,
    print_times,
    progress_bar,
    say_written,
    write_json,
)
from hivecore.sim.specs.picture import save_specs_picture
from hivecore.sim.specs.report import specs_notes, specs_table, specs_to_json
from hivecore.sim.specs.run import Spec, replay_specs
from hivecore.sim.specs.trace_jobs import OTHERS, TraceJobs, load_jobs
from hivecore.traces import TraceFormatError

__all__ = ["add_spec_options", "named_specs", "replay_with_specs", "tenant_names"]


def add_spec_options(group: Any) -> None:
    """Add the options to a parser, or a group of one.

    :param group: of `argparse`.
    """
    group.add_argument(
        "--spec",
        "--compare",
        dest="spec",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="run the jobs under the schedulers that these files describe (see hivecore init), "
        "side by side",
    )
    group.add_argument(
        "--tenant",
        type=_renaming,
        nargs="+",
        action="extend",
        metavar="TRACE=SPEC",
        help="with --spec: whose the jobs of a tenant of the trace are; "
        f"{OTHERS}=SPEC: those of all others",
    )


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"must be TRACE=SPEC, two names, not {text!r}")
    return old, new


def tenant_names(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what ``--tenant`` says, by tenant of the trace that of the specs.

    :param arguments: of the command.
    :raises ValueError: a tenant is named twice.
    """
    names: dict[str, str] = {}
    for old, new in arguments.tenant or ():
        if names.setdefault(old, new) != new:
            raise ValueError(f"--tenant says {old}={names[old]} and {old}={new}")
    return names


def named_specs(paths: Sequence[Path], read: Callable[[Path], Spec]) -> dict[str, Spec]:
    """Return the specs of files, each by its file's name, or its path where two names are equal.

    :param paths: of the files.
    :param read: what reads one.
    :raises ValueError: a file is named twice.
    """
    if len(set(paths)) < len(paths):
        raise ValueError(f"--spec names {max(paths, key=paths.count)} twice")
    names = [path.name for path in paths]
    unique = len(set(names)) == len(names)
    return {path.name if unique else str(path): read(path) for path in paths}


def replay_with_specs(arguments: argparse.Namespace, read: Callable[[Path], Spec]) -> None:
    """Run the jobs of a trace under all asked specs, and report.

    :param arguments: of `hivecore replay`, with `spec` set.
    :param read: what reads the file of a spec.
    :raises ValueError: arguments, specs and trace do not go together.
    :raises OSError: a file cannot be read or written.
    """
    watch = Watch()
    with watch("read"):
        specs = named_specs(arguments.spec, read)
        trace = _jobs(arguments)
        trace = trace.with_tenants(tenant_names(arguments)).with_load(arguments.load or 1.0)
    given = f"{', '.join(arguments.traces)} with --load {arguments.load or 1.0:g}"
    with progress_bar(len(trace) * len(specs)) as step, watch("replay"), named(given):
        runs = replay_specs(trace, specs, step)
    print_table(specs_table(trace, runs))
    for sentence in specs_notes(trace, runs):
        print_sentence(sentence)
    if arguments.plots:
        with watch("plots"):
            say_written(save_specs_picture(trace, runs, arguments.plots))
    if arguments.json:
        configuration = {
            "traces": file_names(arguments.traces),
            "format": arguments.format,
            "specs": list(specs),
            "tenants": tenant_names(arguments),
            "load": arguments.load or 1.0,
        }
        write_json(arguments.json, specs_to_json(trace, runs, configuration, watch.seconds))
    print_times(watch)


def _jobs(arguments: argparse.Namespace) -> TraceJobs:
    try:
        return load_jobs(arguments.traces, arguments.format)
    except TraceFormatError:  # names the file itself
        raise
    except ValueError as error:
        raise ValueError(f"{', '.join(arguments.traces)}: {error}") from None
