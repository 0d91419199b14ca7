"""`hivecore replay spec`: any trace under the schedulers that files describe."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Stopwatch,
    add,
    factor,
    file_names,
    files_with,
    named,
    pair,
    progress_bar,
    publish,
    replay_kind,
    try_outputs,
)
from hivecore.sim.specs.report import specs_report
from hivecore.sim.specs.run import Spec, replay_specs
from hivecore.sim.specs.trace_jobs import OTHERS, TraceJobs, load_jobs
from hivecore.traces import FORMATS, TraceFormatError

__all__ = ["add_spec", "add_specs", "named_specs", "tenant_names"]


def add_spec(kinds: Any, read: Callable[[Path], Spec]) -> None:
    """Add the command to a parser; `read` reads a spec's file."""
    what = "the jobs of any trace under the schedulers that files describe, side by side"
    kind = replay_kind(kinds, "spec", "TRACE [TRACE ...]", what, _runner(read))
    formats = (*FORMATS, "storage", "openb")
    of = "of the trace files: {} (the list of pods)"
    add(kind, "--format", "NAME", of, choices=formats, required=True)
    add_specs(kind, required=True)
    scaled = "divide the times between submissions by X"
    add(kind, "--load", "X", scaled, type=factor, default=1.0)


def add_specs(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the options that name specs, and map tenants of the trace to theirs."""
    many: dict[str, Any] = {"nargs": "+", "action": "extend"}
    what = "run the jobs under the schedulers that these files describe (see hivecore init), or in "
    what += "the clusters that kubectl has dumped to them"
    names, metavar = ("--spec", "--compare", "--cluster"), "FILE"
    parser.add_argument(
        *names, dest="spec", type=Path, metavar=metavar, help=what, required=required, **many
    )
    whose = f"with --spec: whose a tenant's jobs are; {OTHERS}=SPEC: those of all others"
    add(parser, "--tenant", "TRACE=SPEC", whose, type=pair("TRACE=SPEC, two names"), **many)


def tenant_names(arguments: argparse.Namespace) -> dict[str, str]:
    """Return ``--tenant`` as tenant of the trace -> tenant of the specs."""
    names: dict[str, str] = {}
    for old, new in arguments.tenant or ():
        if names.setdefault(old, new) != new:
            raise ValueError(f"--tenant says {old}={names[old]} and {old}={new}")
    return names


def named_specs(paths: Sequence[Path], read: Callable[[Path], Spec]) -> dict[str, Spec]:
    """Return the specs by file name, or by path if names are equal."""
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
            trace = _jobs(arguments, traces).with_load(load)
        with named("--tenant"):
            trace = trace.with_tenants(tenants)
        with (
            progress_bar(len(trace) * len(specs)) as step,
            watch("replay"),
            named(files_with(arguments, "load")),
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
