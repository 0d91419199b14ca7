"""`hivecore replay spec`: any trace under the schedulers that files describe."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from hivecore.sim.console import (
    Stopwatch,
    factor,
    file_names,
    named,
    pair,
    progress_bar,
    publish,
    try_outputs,
)
from hivecore.sim.specs.report import specs_report
from hivecore.sim.specs.run import Spec, replay_specs
from hivecore.sim.specs.trace_jobs import OTHERS, TraceJobs, load_jobs
from hivecore.traces import FORMATS, TraceFormatError

__all__ = ["add_spec", "add_specs", "named_specs", "tenant_names"]


def add_spec(kind: argparse.ArgumentParser, read: Callable[[Path], Spec]) -> None:
    """Add its options to the parser of the command.

    :param kind: the parser.
    :param read: what reads the file of a spec.
    """
    kind.set_defaults(run=_runner(read))
    formats = (*FORMATS, "storage", "openb")
    kind.add_argument(
        "--format",
        choices=formats,
        required=True,
        metavar="NAME",
        help=f"of the trace files: {', '.join(formats)} (the list of pods)",
    )
    add_specs(kind, required=True)
    kind.add_argument(
        "--load",
        type=factor,
        default=1.0,
        metavar="X",
        help="divide the times between submissions by X",
    )


def add_specs(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the options that name specs, and whose jobs are whose.

    :param parser: of a command.
    :param required: whether there has to be one.
    """
    parser.add_argument(
        "--spec",
        "--compare",
        dest="spec",
        type=Path,
        nargs="+",
        action="extend",
        required=required,
        metavar="FILE",
        help="run the jobs under the schedulers that these files describe (see hivecore init), "
        "side by side",
    )
    parser.add_argument(
        "--tenant",
        type=pair("TRACE=SPEC, two names"),
        nargs="+",
        action="extend",
        metavar="TRACE=SPEC",
        help="with --spec: whose the jobs of a tenant of the trace are; "
        f"{OTHERS}=SPEC: those of all others",
    )


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


def _runner(read: Callable[[Path], Spec]) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        try_outputs(arguments.json, arguments.plots)
        traces, load = ", ".join(map(str, arguments.traces)), arguments.load
        tenants, watch = tenant_names(arguments), Stopwatch()
        with watch("read"):
            specs = named_specs(arguments.spec, read)
            trace = _jobs(arguments, traces).with_tenants(tenants).with_load(load)
        with (
            progress_bar(len(trace) * len(specs)) as step,
            watch("replay"),
            named(f"{traces} with --load {load:g}"),
        ):
            runs = replay_specs(trace, specs, step)
        configuration = {
            "traces": file_names(arguments.traces),
            "format": arguments.format,
            "specs": list(specs),
            "tenants": tenants,
            "load": load,
        }
        report = specs_report(trace, runs)
        publish(report, watch, configuration, arguments.json, arguments.plots)

    return run


def _jobs(arguments: argparse.Namespace, traces: str) -> TraceJobs:
    try:
        return load_jobs(arguments.traces, arguments.format)
    except TraceFormatError:  # names the file itself
        raise
    except ValueError as error:
        raise ValueError(f"{traces}: {error}") from None
