"""The jobs of any trace, independent of a cluster: submission time, GPUs, duration."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_instance
from hivecore.scheduler import Data
from hivecore.traces import (
    GpuPods,
    StorageTrace,
    Trace,
    TrainingTrace,
    load,
    load_openb_pods,
    load_storage,
    load_training,
)

__all__ = ["OTHERS", "TraceJobs", "load_jobs"]

_Floats = npt.NDArray[np.float64]

#: Stands for all tenants of the trace that are not named.
OTHERS = "*"


@dataclass(frozen=True, slots=True, eq=False)
class TraceJobs:
    """Jobs in order of submission.

    :param tenant: of each job.
    :param submit: float64[jobs], seconds, ascending.
    :param duration: float64[jobs], seconds at full speed, positive.
    :param gpus: float64[jobs], number of GPUs; of pods that share GPUs, the sum of their parts.
    :param stages: per job, seconds of each resource in an iteration; empty if unknown.
    :param data: what each job reads; empty if unknown.
    :param datasets_gb: size of each dataset by name.
    :param pods: what each job asks of devices, row by row; ``None`` for whole GPUs.
    :param dropped: reason -> number of jobs left out.

    `load_jobs` reads them from files.
    """

    tenant: tuple[str, ...]
    submit: _Floats
    duration: _Floats
    gpus: _Floats
    stages: tuple[tuple[float, ...], ...] = ()
    data: tuple[Data, ...] = ()
    datasets_gb: Mapping[str, float] = field(default_factory=dict)
    pods: GpuPods | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.submit)

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Return the jobs of a trace, in its order.

        :param trace: any trace.

        >>> trace = Trace.from_columns(["a"], ["x"], [5.0], [60.0], [12])
        >>> TraceJobs.of(trace).gpus.tolist()
        [12.0]
        """
        as_instance(trace, "trace", Trace)
        return cls(
            tuple(trace.tenants[code] for code in trace.tenant.tolist()),
            trace.submit,
            trace.duration,
            trace.gpus.astype(np.float64),
            dropped=trace.dropped,
        )

    @classmethod
    def of_training(cls, trace: TrainingTrace, tenant: str) -> Self:
        """Return the jobs of a trace in Muri's format, whose duration is that of all iterations
        alone.

        :param trace: any such trace.
        :param tenant: of all jobs.
        """
        return cls(
            (tenant,) * trace.jobs,
            trace.submit,
            trace.iterations * trace.iteration_ms / 1000.0,
            trace.gpus.astype(np.float64),
            stages=tuple(map(tuple, (trace.stages_ms / 1000.0).tolist())),
            dropped=trace.dropped,
        )

    @classmethod
    def of_storage(cls, trace: StorageTrace, tenant: str) -> Self:
        """Return the jobs of a trace with datasets; at full speed they never wait for data.

        :param trace: any such trace.
        :param tenant: of all jobs.
        """
        names, sizes = trace.dataset.tolist(), trace.dataset_gb.tolist()
        rates, totals = trace.rate_mbps.tolist(), trace.total_gb.tolist()
        return cls(
            (tenant,) * trace.jobs,
            trace.submit,
            trace.total_gb * 1000.0 / trace.rate_mbps,
            trace.gpus.astype(np.float64),
            data=tuple(map(Data, names, rates, totals)),
            datasets_gb=dict(zip(names, sizes, strict=True)),
            dropped=trace.dropped,
        )

    @classmethod
    def of_pods(cls, pods: GpuPods, tenant: str) -> Self:
        """Return a job for each pod of a list with times, without pods that never ran.

        :param pods: with creation and deletion times.
        :param tenant: of all jobs.
        :raises ValueError: the list has no times, or no pod that ran.
        """
        if pods.created is None or pods.deleted is None:
            raise ValueError("the pods of this list have no creation_time and deletion_time")
        duration = pods.deleted - pods.created
        faults = {"missing": np.isnan(duration), "negative": duration < 0, "zero": duration == 0}
        rows = np.flatnonzero(duration > 0)
        rows = rows[np.argsort(pods.created[rows], kind="stable")]
        if not len(rows):
            raise ValueError("no pod of this list ran for any time")
        return cls(
            (tenant,) * len(rows),
            pods.created[rows] - pods.created[rows[0]],
            duration[rows],
            pods.total_milli[rows] / 1000.0,
            pods=_selected(pods, rows),
            dropped={
                f"{fault} duration": int(rows.sum()) for fault, rows in faults.items() if rows.any()
            },
        )

    def with_tenants(self, names: Mapping[str, str]) -> Self:
        """Return the same jobs for other tenants.

        :param names: tenant in the trace -> new tenant; `OTHERS` stands for all that are not named.
            Otherwise these keep their names.
        :raises ValueError: the trace has no such tenant.

        >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [1, 1])
        >>> TraceJobs.of(trace).with_tenants({"x": "vision", "*": "speech"}).tenant
        ('vision', 'speech')
        """
        tenants = dict.fromkeys(self.tenant)
        unknown = [name for name in names if name != OTHERS and name not in tenants]
        if unknown:
            known = ", ".join(tenants)
            raise ValueError(f"the trace has no tenant {unknown[0]!r}, it has {known}")
        to = {name: names.get(name, names.get(OTHERS, name)) for name in tenants}
        return replace(self, tenant=tuple(to[name] for name in self.tenant))

    def with_load(self, factor: float) -> Self:
        """Return the same jobs with times between submissions divided by a factor.

        :param factor: positive.
        """
        return replace(self, submit=self.submit / factor)


def load_jobs(paths: Sequence[str | Path], format: str) -> TraceJobs:
    """Read the jobs of one or more trace files.

    :param paths: of the files; "openb" takes the list of pods.
    :param format: one of `hivecore.traces.FORMATS`, "storage" or "openb". If a format has no
        tenants, a file's jobs belong to a tenant with the file's name.
    :raises ValueError: the format is unknown, there is no file, two files give the same tenant, or
        a dataset has two sizes.
    :raises OSError: a file cannot be read.
    :raises TraceFormatError: a file does not follow its format.

    Jobs submitted at the same time stay in the order of the files. Cost: O(jobs log jobs).
    """
    if format not in ("muri", "storage", "openb"):
        return TraceJobs.of(load(paths, format))
    tenants = [_tenant_of(path) for path in paths]
    if len(set(tenants)) < len(tenants):
        twice = next(name for name, count in Counter(tenants).items() if count > 1)
        raise ValueError(f"several files are named {twice!r}, and the name is the tenant")
    if format == "openb":
        if len(paths) != 1:
            raise ValueError("--format openb needs one file: PODS")
        return TraceJobs.of_pods(load_openb_pods(paths[0]), tenants[0])
    if format == "muri":
        parts = [
            TraceJobs.of_training(load_training(path), tenant)
            for path, tenant in zip(paths, tenants, strict=True)
        ]
    else:
        parts = [
            TraceJobs.of_storage(load_storage(path), tenant)
            for path, tenant in zip(paths, tenants, strict=True)
        ]
    return _together(parts)


def _tenant_of(path: str | Path) -> str:
    return Path(Path(path).name.removesuffix(".gz")).stem


def _together(parts: Sequence[TraceJobs]) -> TraceJobs:
    """Return all jobs in order of submission, with times from the first one."""
    submit = np.concatenate([part.submit for part in parts])
    order = np.argsort(submit, kind="stable")
    sizes: dict[str, float] = {}
    for part in parts:
        for name, size in part.datasets_gb.items():
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"dataset {name} has {size:g} GB here, and {sizes[name]:g} there")
    rows = order.tolist()
    tenant = [name for part in parts for name in part.tenant]
    stages = [stage for part in parts for stage in part.stages]
    data = [entry for part in parts for entry in part.data]
    return TraceJobs(
        tuple(tenant[row] for row in rows),
        submit[order] - submit[order[0]],
        np.concatenate([part.duration for part in parts])[order],
        np.concatenate([part.gpus for part in parts])[order],
        tuple(stages[row] for row in rows) if stages else (),
        tuple(data[row] for row in rows) if data else (),
        sizes,
        dropped=dict(sum((Counter(part.dropped) for part in parts), Counter())),
    )


def _selected(pods: GpuPods, rows: npt.NDArray[np.intp]) -> GpuPods:
    return GpuPods(
        pods.name[rows],
        pods.cpu_milli[rows],
        pods.memory_mib[rows],
        pods.gpus[rows],
        pods.gpu_milli[rows],
        tuple(pods.models[row] for row in rows.tolist()),
    )
