"""Several specs side by side: a table and sentences for people, JSON for programs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Any

from hivecore.sim.specs.figures import SpecFigures, compared_jobs, spec_figures
from hivecore.sim.specs.run import SpecRun
from hivecore.sim.specs.trace_jobs import TraceJobs
from hivecore.sim.tables import minutes, side_by_side
from hivecore.sim.units import with_units

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["specs_notes", "specs_table", "specs_to_json"]

_SCHEMA = "hivecore.specs/2"
_REASONS = 3  # that are told of each spec
_CAPTION = (
    "completion, queueing: of jobs that run to their end under all specs\n"
    "queueing: until the run begins that is completed\n"
    "useful work: what is not lost, of what all GPUs could do until the last\n"
    "submission, or until the last end if all jobs come at once"
)


def specs_table(trace: TraceJobs, runs: Mapping[str, SpecRun]) -> "Table":
    """Return a Rich table with a row per spec, times in minutes.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.sim.specs import replay_specs
    >>> from hivecore.traces import Trace
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: {}}"
    >>> specs = {"one": SchedulerSpec.of_yaml(text)}
    >>> trace = TraceJobs.of(Trace.from_columns(["a"], ["x"], [0], [90], [8]))
    >>> table = specs_table(trace, replay_specs(trace, specs))
    >>> [str(next(iter(column.cells))) for column in table.columns][:4]
    ['one', '8', '0', '1.5']
    """
    rows = {name: _row(runs[name].gpus, spec_figures(trace, runs, name)) for name in runs}
    return side_by_side("Specs side by side; times in minutes", _CAPTION, "spec", rows)


def _row(gpus: int, one: SpecFigures) -> dict[str, str]:
    return {
        "GPUs": f"{gpus:,}" if gpus else "?",
        "jobs\nrefused": f"{one.refused:,}",
        "mean\ncompletion": _time(one.mean_completion),
        "p50": _time(one.p50_completion),
        "p99": _time(one.p99_completion),
        "mean\nqueueing": _time(one.mean_queueing),
        "useful\nwork": "?" if isnan(one.utilisation) else f"{one.utilisation:.1%}",
        "pre-\nempted": f"{one.preemptions:,}",
        "GPU-h\nlost": f"{one.lost_gpu_hours:,.0f}",
    }


def _time(seconds: float) -> str:
    return "-" if isnan(seconds) else minutes(seconds)


def specs_notes(trace: TraceJobs, runs: Mapping[str, SpecRun]) -> list[str]:
    """Return which jobs are compared, which are left out, and why jobs are refused, in sentences.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.sim.specs import replay_specs
    >>> from hivecore.traces import Trace
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: {}}"
    >>> specs = {"one": SchedulerSpec.of_yaml(text)}
    >>> trace = TraceJobs.of(Trace.from_columns([*"ab"], "xx", [0, 0], [90, 90], [8, 16]))
    >>> for sentence in specs_notes(trace, replay_specs(trace, specs)):
    ...     print(sentence)
    1 of 2 jobs run to their end under all specs.
    one refuses 1 jobs: 2 pods with 8 gpu each: idle and healthy, the nodes have room for 1 (1).
    """
    sentences = [
        f"{count:,} jobs of the trace dropped: {reason}." for reason, count in trace.dropped.items()
    ]
    compared = int(compared_jobs(runs).sum())
    sentences.append(f"{compared:,} of {len(trace):,} jobs run to their end under all specs.")
    for name, run in runs.items():
        reasons = Counter(run.outcome.refused.values()).most_common()
        if not reasons:
            continue
        told = [f"{reason} ({count:,})" for reason, count in reasons[:_REASONS]]
        rest = sum(count for _, count in reasons[_REASONS:])
        if rest:
            told.append(f"other reasons ({rest:,})")
        sentences.append(f"{name} refuses {len(run.outcome.refused):,} jobs: {'; '.join(told)}.")
    return sentences


def specs_to_json(
    trace: TraceJobs,
    runs: Mapping[str, SpecRun],
    configuration: Mapping[str, Any],
    runtime_seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the comparison as plain data for `json.dump`; times are in seconds.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.
    :param configuration: how it was asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.

    Figures that there are not are null.
    """
    tenants = dict.fromkeys(trace.tenant)
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "workload": {
            "jobs": len(trace),
            "gpu_hours": float(trace.gpus @ trace.duration) / 3600.0,
            "dropped": dict(trace.dropped),
            "compared": int(compared_jobs(runs).sum()),
        },
        "specs": {
            name: {
                "gpus": run.gpus or None,
                "all": _plain(spec_figures(trace, runs, name)),
                "tenants": {
                    tenant: _plain(spec_figures(trace, runs, name, tenant)) for tenant in tenants
                },
                "refusals": dict(Counter(run.outcome.refused.values()).most_common()),
            }
            for name, run in runs.items()
        },
        "runtime_seconds": dict(runtime_seconds),
    }


def _plain(one: SpecFigures) -> dict[str, Any]:
    figures = {
        name: None if isinstance(value, float) and isnan(value) else value
        for name, value in asdict(one).items()
    }
    return with_units(figures)
