"""Training jobs that read a dataset repeatedly, for schedulers of cache and remote IO.

hivecore's CSV layout for them: `job_id,dataset,dataset_gb,epochs,rate_mbps,gpus,submit`, or
`total_gb` instead of `epochs` if a log has a job's total reads. Sizes are in GB of 1000 MB, rates
in MB/s, times in seconds. `save_storage` and `load_storage` preserve a trace bit for bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hivecore._stateful import counted
from hivecore.traces._part import dropped_jobs, jobs_that_ran
from hivecore.traces._table import (
    DURATION,
    GPUS,
    NAME,
    SECONDS,
    Column,
    Kind,
    check_seconds,
    line_of,
    read_columns,
    read_header,
    read_text,
    write_columns,
)
from hivecore.traces.errors import TraceFormatError

__all__ = ["StorageTrace", "load_storage", "save_storage"]

_HEADER = ("job_id", "dataset", "dataset_gb", "total_gb", "rate_mbps", "gpus", "submit")


def _positive(cells: list[str]) -> Column:
    values = SECONDS.convert(cells)
    if not (values > 0).all():
        raise ValueError
    return values


_POSITIVE = Kind("a finite and positive number", _positive)
_KINDS = {
    "job_id": NAME,
    "dataset": NAME,
    "dataset_gb": _POSITIVE,
    "rate_mbps": _POSITIVE,
    "gpus": GPUS,
    "submit": SECONDS,
}


@dataclass(frozen=True, slots=True, eq=False)
class StorageTrace:
    """Training jobs with their datasets, sorted by submission time.

    :param job_id: str[jobs], as the source calls its jobs.
    :param dataset: str[jobs], what a job reads; equal names are one dataset.
    :param dataset_gb: float64[jobs], GB that one epoch reads, positive, equal for equal names.
    :param total_gb: float64[jobs], GB that the job reads until it ends, positive; the last epoch
        may be a part of one.
    :param rate_mbps: float64[jobs], MB/s that the job reads when it never waits for data, on all
        its GPUs together, positive.
    :param gpus: int64[jobs], how many the job needs, all at once, positive.
    :param submit: float64[jobs], seconds, not negative.
    :param dropped: how many jobs of the source are not in the trace, by reason.
    :raises ValueError: an empty trace, columns of several lengths, a value out of range, a dataset
        of two sizes, or submission times that fall.
    """

    job_id: npt.NDArray[np.str_]
    dataset: npt.NDArray[np.str_]
    dataset_gb: npt.NDArray[np.float64]
    total_gb: npt.NDArray[np.float64]
    rate_mbps: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.int64]
    submit: npt.NDArray[np.float64]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.job_id):
            raise ValueError("the trace has no job")
        for name in _HEADER:
            if np.shape(getattr(self, name)) != (len(self.job_id),):
                raise ValueError(
                    f"{name} must have one entry for each of {counted(len(self.job_id), 'job')}"
                )
        for name in ("dataset_gb", "total_gb", "rate_mbps", "gpus"):
            column = getattr(self, name)
            faulty = ~(np.isfinite(column) & (column > 0))
            if faulty.any():
                job = self.job_id[int(faulty.argmax())]
                raise ValueError(f"{name} must be finite and positive, not as of job {job}")
        if not (np.isfinite(self.submit).all() and (self.submit >= 0).all()):
            raise ValueError("submit must be finite and not negative")
        if (np.diff(self.submit) < 0).any():
            raise ValueError("submit must rise")
        _, first, codes = np.unique(self.dataset, return_index=True, return_inverse=True)
        differs = self.dataset_gb != self.dataset_gb[first][codes]
        if differs.any():
            job = int(differs.argmax())
            raise ValueError(
                f"dataset {self.dataset[job]} has {self.dataset_gb[job]:g} GB for job "
                f"{self.job_id[job]}, but {self.dataset_gb[first][codes][job]:g} GB before"
            )

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.job_id)


def load_storage(path: str | Path) -> StorageTrace:
    r"""Return the jobs of one trace file with datasets.

    :param path: a file in the layout of this module, with a column `epochs` (a positive number,
        1.5 is one and a half) or `total_gb`; one whose name ends in .gz is unpacked.
    :raises OSError: the file cannot be read.
    :raises TraceFormatError: a file that does not follow the layout, with its line and field.

    Jobs submitted at the same time stay in the order of their lines. A job without GPUs or with
    nothing to read, as of `load`, is dropped and counted. Cost: O(jobs log jobs).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "a.csv"
    ...     header = "job_id,dataset,dataset_gb,epochs,rate_mbps,gpus,submit"
    ...     _ = file.write_text(f"{header}\n7,imagenet,143,90,114,1,0")
    ...     trace = load_storage(file)
    >>> trace.dataset.tolist(), trace.total_gb.tolist()
    (['imagenet'], [12870.0])
    """
    file = Path(path)
    work = "total_gb" if "total_gb" in read_header(file) else "epochs"
    columns = read_columns(file, {**_KINDS, work: DURATION})
    kept, dropped = jobs_that_ran({work: columns[work], "GPUs": columns["gpus"]})
    if work == "epochs":
        with np.errstate(over="ignore"):  # an infinite total is an error
            columns["total_gb"] = columns["epochs"] * columns["dataset_gb"]
    if kept.any():
        with np.errstate(over="ignore"):
            alone = columns["total_gb"] * 1000 / columns["rate_mbps"]
        submit = columns["submit"] - columns["submit"][kept].min()
        check_seconds(file, kept, {"submit": submit, work: alone})
    rows = np.flatnonzero(kept)
    _check_sizes(file, columns, rows)
    order = rows[np.argsort(columns["submit"][rows], kind="stable")]
    columns = {name: columns[name][order] for name in _HEADER}
    try:
        return StorageTrace(
            job_id=columns["job_id"].astype(np.str_),
            dataset=columns["dataset"].astype(np.str_),
            dataset_gb=columns["dataset_gb"],
            total_gb=columns["total_gb"],
            rate_mbps=columns["rate_mbps"],
            gpus=columns["gpus"].astype(np.int64),
            submit=columns["submit"],
            dropped=dropped,
        )
    except ValueError as error:
        raise TraceFormatError(f"{error}{dropped_jobs(dropped)}", file) from error


def _check_sizes(file: Path, columns: Mapping[str, Column], rows: npt.NDArray[np.intp]) -> None:
    """Refuse a dataset of two sizes, with the line of the second."""
    sizes = columns["dataset_gb"]
    firsts: dict[str, float] = {}
    for row, dataset in zip(rows.tolist(), columns["dataset"][rows].tolist(), strict=True):
        first = firsts.setdefault(dataset, sizes[row])
        if sizes[row] != first:
            job = columns["job_id"][row]
            size = f"{sizes[row]:g} GB for job {job}"
            problem = f"dataset {dataset} has {size}, but {first:g} GB before"
            raise TraceFormatError(problem, file, line_of(read_text(file), row), "dataset_gb")


def save_storage(trace: StorageTrace, path: str | Path) -> None:
    """Write a trace in this module's layout, packed if the name ends in .gz.

    :param trace: any trace.
    :param path: the file, overwritten if it exists.
    :raises OSError: the file cannot be written.

    Cost: O(jobs).

    >>> import tempfile
    >>> from hivecore.traces import generate_storage
    >>> trace = generate_storage(jobs=9, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_storage(trace, Path(folder) / "a.csv")
    ...     again = load_storage(Path(folder) / "a.csv")
    >>> bool((again.total_gb == trace.total_gb).all())
    True
    """
    write_columns(path, {name: getattr(trace, name).tolist() for name in _HEADER})
