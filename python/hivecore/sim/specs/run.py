"""Runs the same jobs through the schedulers that several specs describe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hivecore._arguments import as_instance, as_mapping
from hivecore.scheduler import Scheduler, Sharing, StoragePool
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.sim.console import named
from hivecore.sim.looks import Notify, looks
from hivecore.sim.simulate import Outcome, simulate
from hivecore.sim.specs.scheduler_jobs import scheduler_jobs
from hivecore.sim.specs.trace_jobs import TraceJobs
from hivecore.sim.storage import reading_from
from hivecore.sim.worlds import InterleavedGpus

__all__ = ["Spec", "SpecRun", "replay_specs"]


class Spec(Protocol):
    """Describes a scheduler, such as `hivecore.interop.scheduler_file.SchedulerSpec`."""

    @property
    def tenants(self) -> tuple[str, ...]:
        """Their names; empty if any tenant is allowed."""

    @property
    def sharing(self) -> Sharing | None:
        """How jobs share GPUs."""

    @property
    def storage(self) -> StoragePool | None:
        """What jobs read from."""

    def scheduler(self, **options: Any) -> Scheduler:
        """Return a new scheduler without jobs; options override the spec."""


@dataclass(frozen=True, slots=True, eq=False)
class SpecRun:
    """What became of the jobs under a spec.

    :param gpus: of the cluster; 0 if unknown.
    :param outcome: of the jobs, which are named by their positions in the trace.
    """

    gpus: int
    outcome: Outcome


def replay_specs(
    trace: TraceJobs,
    specs: Mapping[str, Spec],
    progress: Callable[[str], Notify] | None = None,
) -> dict[str, SpecRun]:
    """Return what becomes of a trace's jobs under each spec.

    :param trace: any jobs.
    :param specs: by name.
    :param progress: called with a spec's name before its run; the result is called from time to
        time with the number of jobs submitted so far.
    :raises ValueError: a spec lacks a tenant of the trace, or what the jobs need: devices for pods
        that share GPUs, as many resources as iterations have stages, or datasets of the same sizes.

    Jobs that a scheduler rejects, or that wait forever, are in `Outcome.refused`. Stopped jobs
    start over. Jobs that share GPUs take turns on them (`InterleavedGpus`). Jobs with datasets read
    as the spec's storage allots it; specs without storage get one LRU cache and a fair network of
    the same size as the first spec with storage. If no spec has storage, no job waits for data.
    Deterministic. Cost: see `hivecore.sim.simulate`.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.traces import generate
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {'n[0-%d]': m}}, devices: {}}"
    >>> specs = {str(n + 1): SchedulerSpec.of_yaml(text % n) for n in (7, 11)}
    >>> trace = TraceJobs.of(generate({"speech": 8, "vision": 8}, jobs=300, seed=0))
    >>> runs = replay_specs(trace, specs)
    >>> runs["8"].gpus, bool(runs["8"].outcome.end.mean() > runs["12"].outcome.end.mean())
    (64, True)
    """
    as_instance(trace, "trace", TraceJobs)
    for name, spec in as_mapping(specs, "specs").items():
        _check_tenants(name, spec, trace.tenant)
    pools = [spec.storage for spec in specs.values() if spec.storage is not None]
    return {
        name: _run(name, trace, spec, pools, progress and progress(name))
        for name, spec in specs.items()
    }


def _check_tenants(name: str, spec: Spec, tenants: Sequence[str]) -> None:
    missing = sorted(set(tenants).difference(spec.tenants)) if spec.tenants else []
    if missing:
        lacks, theirs = ("tenants", "them") if len(missing) > 1 else ("tenant", "it")
        known = ", ".join(spec.tenants)
        raise ValueError(
            f"{name} has no {lacks} {', '.join(missing)}, and the trace has jobs of {theirs}: add "
            f"{theirs} there, or give the jobs to a tenant that it has ({known}), as in "
            f"--tenant {missing[0]}={spec.tenants[0]}"
        )


def _run(
    name: str,
    trace: TraceJobs,
    spec: Spec,
    pools: Sequence[StoragePool],
    progress: Notify | None,
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


def _datasets(name: str, datasets: Mapping[str, float], pool: StoragePool) -> dict[str, float]:
    sizes = dict(pool.datasets_gb)
    for dataset, size in datasets.items():
        if sizes.setdefault(dataset, size) != size:
            raise ValueError(
                f"{name}: dataset {dataset} has {sizes[dataset]:g} GB, and {size:g} in the trace"
            )
    return sizes
