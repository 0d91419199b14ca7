"""Alibaba's traces of GPU jobs of 2020, 2025 and 2026; that of 2023 is in `openb`.

- 2020: `pai_task_table.csv` without a header line. A job is all tasks of one `job_name`, from the
  first start to the last end, with `inst_num` times `plan_gpu` percent of a GPU each, together
  rounded up to whole GPUs. If `pai_job_table.csv` is beside it, jobs are submitted at the times
  there, and their tenants are users; else each file is one tenant, named like the file.
- 2025: `disaggregated_DLRM_trace.csv`, instances that serve recommendations. The tenant is
  `app_name`. An instance without `creation_time` was there before the trace, and counts from 0; one
  without `deletion_time` stayed, and counts to the last time in the file.
- 2026: `job_info_df.csv`, jobs on spot GPUs and others: `worker_num` times `gpu_request` GPUs,
  rounded up. The tenant is the organization, with " spot" after it for its spot jobs.

Times are seconds. Jobs without GPUs are dropped and counted.
Source: alibaba/clusterdata, the traces of PAI (NSDI'22), Prism (NSDI'25) and GFS (ASPLOS'26).
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from hivecore.traces._part import Part, stem
from hivecore.traces._table import (
    DURATION,
    GPUS,
    MOMENT,
    NAME,
    SECONDS,
    Column,
    read_columns,
)
from hivecore.traces.errors import TraceFormatError

__all__ = ["read_2020", "read_2025", "read_2026_spot"]

_TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_SLACK = 1e-6  # of sums of fractions of GPUs
_MOST = 2**53  # GPUs, as in other formats


def read_2020(path: Path) -> Part:
    """Return the jobs of a table of tasks, with the table of jobs if it is in the same folder."""
    kinds = {"job_name": NAME, "inst_num": MOMENT, "plan_gpu": MOMENT}
    tasks = read_columns(path, {**kinds, "start_time": MOMENT, "end_time": MOMENT}, _TASKS)
    names, job = np.unique(tasks["job_name"].astype(np.str_), return_inverse=True)
    start = _of_each(np.fmin, tasks["start_time"], job, len(names))
    end = _of_each(np.fmax, tasks["end_time"], job, len(names))
    parts = np.nan_to_num(_product(tasks["inst_num"], tasks["plan_gpu"] / 100.0))
    gpus = _whole_gpus(path, names, np.bincount(job, parts, len(names)))
    tenant, submit = [stem(path)] * len(names), start
    beside = path.with_name(path.name.replace("pai_task_table", "pai_job_table"))
    if beside != path and beside.exists():
        table = read_columns(beside, {"job_name": NAME, "user": NAME, "start_time": MOMENT}, _JOBS)
        rows = {name: row for row, name in enumerate(table["job_name"].tolist())}
        of = [rows.get(name, -1) for name in names.tolist()]
        tenant = [str(table["user"][row]) if row >= 0 else "unknown user" for row in of]
        said = np.append(table["start_time"], np.nan)[of]
        submit = np.where(np.isnan(said), start, said)
    return Part.of_jobs_that_ran(names.astype(object), tenant, submit, end - start, gpus)


def _product(factor: Column, other: Column) -> Column:
    with np.errstate(over="ignore"):  # refused, as any number that is too large
        return np.asarray(factor * other)


def _whole_gpus(path: Path, names: Column, gpus: Column) -> Column:
    """Return the GPUs of jobs, rounded up."""
    if (large := np.flatnonzero(gpus > _MOST)).size:
        job = str(names[large[0]])
        raise TraceFormatError(
            f"job {job!r} has {gpus[large[0]]:g} GPUs, at most 2**53 are allowed", path
        )
    return np.ceil(gpus - _SLACK)


def _of_each(choose: np.ufunc, times: Column, job: npt.NDArray[np.intp], jobs: int) -> Column:
    """Return the least or greatest known time of each job."""
    chosen = np.full(jobs, np.nan)
    choose.at(chosen, job, times)
    return chosen


def read_2025(path: Path) -> Part:
    """Return the instances of one file."""
    kinds = {"instance_sn": NAME, "app_name": NAME, "gpu_request": GPUS}
    columns = read_columns(path, {**kinds, "creation_time": MOMENT, "deletion_time": MOMENT})
    created, deleted = columns["creation_time"], columns["deletion_time"]
    last = np.nanmax(np.concatenate([created, deleted, [0.0]]))
    submit = np.nan_to_num(created)
    return Part.of_jobs_that_ran(
        job_id=columns["instance_sn"],
        tenant=columns["app_name"].tolist(),
        submit=submit,
        duration=np.where(np.isnan(deleted), last, deleted) - submit,
        gpus=columns["gpu_request"],
    )


def read_2026_spot(path: Path) -> Part:
    """Return the jobs of one file."""
    kinds = {"job_name": NAME, "organization": NAME, "job_type": NAME, "submit_time": SECONDS}
    numbers = {"gpu_request": DURATION, "worker_num": DURATION, "duration": DURATION}
    columns = read_columns(path, {**kinds, **numbers})
    spot = [kind.strip().lower() == "spot" for kind in columns["job_type"].tolist()]
    return Part.of_jobs_that_ran(
        job_id=columns["job_name"],
        tenant=[
            f"{name} spot" if is_spot else name
            for name, is_spot in zip(columns["organization"].tolist(), spot, strict=True)
        ],
        submit=columns["submit_time"],
        duration=columns["duration"],
        gpus=_whole_gpus(
            path, columns["job_name"], _product(columns["gpu_request"], columns["worker_num"])
        ),
    )
