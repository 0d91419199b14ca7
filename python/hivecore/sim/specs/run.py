"""The same jobs through the schedulers that several specs describe, one after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hivecore.scheduler import Scheduler, Sharing, StoragePool
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.sim.console import named
from hivecore.sim.looks import Told, looks
from hivecore.sim.simulate import Outcome, simulate
from hivecore.sim.specs.scheduler_jobs import scheduler_jobs
from hivecore.sim.specs.trace_jobs import TraceJobs
from hivecore.sim.storage import reading_from
from hivecore.sim.worlds import InterleavedGpus

__all__ = ["Spec", "SpecRun", "replay_specs"]


class Spec(Protocol):
    """What describes a scheduler, such as `hivecore.interop.scheduler_file.SchedulerSpec`."""

    @property
    def tenants(self) -> tuple[str, ...]:
        """Their names; none: anybody may come."""

    @property
    def sharing(self) -> Sharing | None:
        """On which terms jobs share GPUs."""

    @property
    def storage(self) -> StoragePool | None:
        """What jobs read from."""

    def scheduler(self, **options: Any) -> Scheduler:
        """A new one, with no job in it; options count more than what the spec says."""


@dataclass(frozen=True, slots=True, eq=False)
class SpecRun:
    """What became of the jobs under one spec.

    :param gpus: of the cluster; 0: no part knows.
    :param outcome: of the jobs, by their places in the trace, which are their names.
    """

    gpus: int
    outcome: Outcome


def replay_specs(
    trace: TraceJobs,
    specs: Mapping[str, Spec],
    progress: Callable[[str], Told] | None = None,
) -> dict[str, SpecRun]:
    """Return what becomes of the jobs of a trace under each spec.

    :param trace: any jobs.
    :param specs: by name.
    :param progress: called with a spec's name before its run; what it returns is called now and
        then with the number of jobs submitted so far.
    :raises ValueError: a spec lacks a tenant of the trace, or something that the jobs need: devices
        for pods that share GPUs, as many resources as iterations have stages; or its datasets have
        other sizes.

    Jobs that a scheduler rejects, or lets wait for ever, are named in `Outcome.refused`. Those that
    stop begin again. Jobs that share GPUs take turns on them (`InterleavedGpus`). Jobs with
    datasets read as the spec's storage allots it; where some of the specs have storage, the others
    have one LRU cache and a fair network of the same size as the first that has; where none has,
    nobody waits for data. Deterministic. Cost: see `hivecore.sim.simulate`.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.traces import generate
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {'n[0-%d]': m}}, devices: {}}"
    >>> specs = {str(n + 1): SchedulerSpec.of_yaml(text % n) for n in (7, 11)}
    >>> trace = TraceJobs.of(generate({"speech": 8, "vision": 8}, jobs=300, seed=0))
    >>> runs = replay_specs(trace, specs)
    >>> runs["8"].gpus, bool(runs["8"].outcome.end.mean() > runs["12"].outcome.end.mean())
    (64, True)
    """
    for name, spec in specs.items():
        _check_tenants(name, spec, trace.tenant)
    pools = [spec.storage for spec in specs.values() if spec.storage is not None]
    return {
        name: _run(name, trace, spec, pools, progress and progress(name))
        for name, spec in specs.items()
    }


def _check_tenants(name: str, spec: Spec, tenants: Sequence[str]) -> None:
    missing = sorted(set(tenants).difference(spec.tenants)) if spec.tenants else []
    if missing:
        raise ValueError(
            f"{name} has the tenants {', '.join(spec.tenants)}, and the trace has jobs of "
            f"{', '.join(missing)}: say whose they are, as in --tenant "
            f"NAME={spec.tenants[0]}, with a name of the trace"
        )


def _run(
    name: str,
    trace: TraceJobs,
    spec: Spec,
    pools: Sequence[StoragePool],
    progress: Told | None,
) -> SpecRun:
    options: dict[str, Any] = {}
    datasets = dict(trace.datasets_gb)
    if spec.storage is not None:
        datasets = _datasets(name, trace.datasets_gb, spec.storage)
        options["storage"] = spec.storage.replace(datasets_gb=datasets)
    scheduler = spec.scheduler(**options)
    resources = 0 if spec.sharing is None else spec.sharing.resources
    with named(name):
        jobs = scheduler_jobs(trace, scheduler, resources)
    gpus = gpus_of(scheduler)
    times = trace.submit.tolist(), trace.duration.tolist()
    watch = looks(progress, float(trace.submit[-1]))
    turns = InterleavedGpus(jobs) if spec.sharing is not None else None
    paces: dict[str, Any] = {"world": turns}
    if pools and trace.data:
        pool = (spec.storage or pools[0]).replace(datasets_gb=datasets)
        manager = scheduler if spec.storage is not None else None
        paces = {"progress": reading_from(pool, jobs, times[1], manager, turns)}
    outcome = simulate(scheduler, jobs, *times, watch=watch, may_refuse=True, **paces)
    if progress:
        progress(len(trace))
    return SpecRun(gpus, outcome)


def _datasets(name: str, told: Mapping[str, float], pool: StoragePool) -> dict[str, float]:
    sizes = dict(pool.datasets_gb)
    for dataset, size in told.items():
        if sizes.setdefault(dataset, size) != size:
            raise ValueError(
                f"{name}: dataset {dataset} has {sizes[dataset]:g} GB, and {size:g} in the trace"
            )
    return sizes
