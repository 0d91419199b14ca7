"""A trace as columns: a NumPy array per property, a row per job, in order of submission.

All loaders and generators return it, so other code can rely on its invariants: submission times
ascend and are not negative, durations and GPU counts are positive, and tenants are codes into a
sorted tuple of names. The arrays are read-only, because replays share them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore._record import Record, force_setattr
from hivecore.traces._random_jobs import as_factor

__all__ = ["Trace"]


class Trace(Record, frozen=True, eq=False):
    """The jobs of one or more tenants, sorted by submission time.

    :param tenants: names, in sorted order.
    :param job_id: str[jobs], as the source calls its jobs.
    :param tenant: int32[jobs], index into `tenants`.
    :param submit: float64[jobs], seconds; loaders count from the first submission of the trace.
    :param duration: float64[jobs], seconds, positive.
    :param gpus: int64[jobs], positive.
    :param dropped: how many jobs of the source are not in the trace, by reason.
    :raises ValueError: a column of another length, an empty trace, a value out of range, or
        submission times that fall.

    Most callers want `Trace.from_columns`, which sorts and codes the tenants itself. Cost: O(jobs).

    >>> import numpy as np
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [30.0, 10.0], [60.0, 60.0], [1, 8])
    >>> trace.job_id.tolist(), trace.submit.tolist(), trace.tenants
    (['b', 'a'], [0.0, 20.0], ('x', 'y'))
    """

    tenants: tuple[str, ...]
    job_id: npt.NDArray[np.str_]
    tenant: npt.NDArray[np.int32]
    submit: npt.NDArray[np.float64]
    duration: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.int64]
    dropped: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        for name, dtype in _COLUMNS.items():
            # Copied, so that freezing it does not freeze the caller's array.
            column = np.array(getattr(self, name), dtype=dtype)
            column.setflags(write=False)
            force_setattr(self, name, column)
        _check_columns(self)

    @classmethod
    def from_columns(
        cls,
        job_id: Sequence[str] | npt.NDArray[np.str_],
        tenant: Sequence[str],
        submit: npt.ArrayLike,
        duration: npt.ArrayLike,
        gpus: npt.ArrayLike,
        dropped: Mapping[str, int] | None = None,
    ) -> Self:
        """Return the trace of these jobs, sorted by submission and counted from the first one.

        :param job_id: str[jobs].
        :param tenant: the name of each job's tenant.
        :param submit: float64[jobs], seconds from any origin.
        :param duration: float64[jobs], seconds. A job of no duration is dropped and counted.
        :param gpus: int64[jobs]. A job of no GPU is dropped and counted.
        :param dropped: jobs that the caller has left out already, by reason.
        :raises ValueError: see `Trace`. :raises TypeError: a column holds no numbers.

        Jobs submitted at the same time keep their order. Cost: O(jobs log jobs).
        """
        submits = _numbers(submit, "submit").astype(np.float64)
        durations = _numbers(duration, "duration").astype(np.float64)
        wanted = _numbers(gpus, "gpus")
        ids = np.asarray(job_id, dtype=np.str_)
        shapes = {"job_id": ids.shape, "tenant": (len(tenant),), "submit": submits.shape}
        shapes |= {"duration": durations.shape, "gpus": wanted.shape}
        for name, shape in shapes.items():
            _check_shape(name, shape, submits.size)
        _check_rows("gpus", wanted, (np.abs(wanted) < 2.0**63) & (np.floor(wanted) == wanted))
        sizes = wanted.astype(np.int64)

        no_time, no_gpu = durations == 0, (sizes == 0) & (durations != 0)
        counts = Counter(dropped or {})
        counts.update({"zero duration": int(no_time.sum()), "zero GPUs": int(no_gpu.sum())})
        kept = np.flatnonzero(~(no_time | no_gpu))
        _check_rows("submit", submits, np.isfinite(submits) | no_time | no_gpu)
        order = kept[np.argsort(submits[kept], kind="stable")]
        owners = [tenant[row] for row in order.tolist()]
        names = tuple(sorted(set(owners)))
        code = {name: position for position, name in enumerate(names)}
        ordered = submits[order]
        return cls(
            tenants=names,
            job_id=ids[order],
            tenant=np.array([code[name] for name in owners], dtype=np.int32),
            submit=ordered - ordered[0] if len(ordered) else ordered,
            duration=durations[order],
            gpus=sizes[order],
            dropped={reason: count for reason, count in counts.items() if count},
        )

    def __len__(self) -> int:
        return len(self.submit)

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.submit)

    @property
    def gpu_hours(self) -> float:
        """The work of all jobs: GPUs times duration, in GPU-hours."""
        return float(self.gpus @ self.duration) / 3600.0

    def scale_load(self, factor: float) -> Self:
        """Return the trace with all times between submissions divided by `factor`.

        :param factor: finite and positive; 2.0 offers the same work in half the time.
        :raises ValueError, TypeError: any other factor.

        Cost: O(jobs).

        >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0.0, 10.0], [5.0, 5.0], [1, 1])
        >>> trace.scale_load(2.0).submit.tolist()
        [0.0, 5.0]
        """
        return self._with_rows(np.arange(self.jobs), self.submit / as_factor(factor, "factor"))

    def select(self, keep: npt.NDArray[np.bool_]) -> Self:
        """Return the trace of the jobs marked in `keep`, with all tenants and the same clock.

        :param keep: bool[jobs].
        :raises ValueError: another length, or no job left. :raises TypeError: no bools.

        Cost: O(jobs).

        >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0.0, 10.0], [5.0, 5.0], [1, 8])
        >>> trace.select(trace.gpus > 1).submit.tolist()
        [10.0]
        """
        marks = np.asarray(keep)
        if marks.dtype != np.bool_:
            raise TypeError(f"keep must hold bools, not {marks.dtype}")
        if marks.shape != self.submit.shape:
            raise ValueError(f"keep must have one entry per job ({self.jobs}), not {marks.shape}")
        rows = np.flatnonzero(marks)
        return self._with_rows(rows, self.submit[rows])

    def _with_rows(self, rows: npt.NDArray[np.intp], submit: npt.NDArray[np.float64]) -> Self:
        return type(self)(
            tenants=self.tenants,
            job_id=self.job_id[rows],
            tenant=self.tenant[rows],
            submit=submit,
            duration=self.duration[rows],
            gpus=self.gpus[rows],
            dropped=self.dropped,
        )


_COLUMNS: dict[str, type[Any]] = {
    "job_id": np.str_,
    "tenant": np.int32,
    "submit": np.float64,
    "duration": np.float64,
    "gpus": np.int64,
}


def _check_columns(trace: Trace) -> None:
    jobs = trace.jobs
    for name in _COLUMNS:
        _check_shape(name, getattr(trace, name).shape, jobs)
    if jobs == 0:
        raise ValueError("a trace needs at least one job that ran")
    if list(trace.tenants) != sorted(set(trace.tenants)):
        raise ValueError(f"tenants must be distinct names in sorted order, not {trace.tenants}")
    rules = {
        "tenant": (trace.tenant >= 0) & (trace.tenant < len(trace.tenants)),
        "submit": np.isfinite(trace.submit) & (trace.submit >= 0),
        "duration": np.isfinite(trace.duration) & (trace.duration > 0),
        "gpus": trace.gpus > 0,
    }
    for name, holds in rules.items():
        _check_rows(name, getattr(trace, name), holds)
    if (np.diff(trace.submit) < 0).any():
        raise ValueError("submit must not fall from one job to the next")


def _check_shape(name: str, shape: tuple[int, ...], jobs: int) -> None:
    if shape != (jobs,):
        raise ValueError(f"{name} must have shape ({jobs},) like submit, not {shape}")


def _check_rows(name: str, values: npt.NDArray[Any], holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        row = int(np.flatnonzero(~holds)[0])
        raise ValueError(f"{name}[{row}] is out of range: {values[row]}")


def _numbers(values: Any, name: str) -> npt.NDArray[Any]:
    column = np.asarray(values)
    if column.size and column.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold numbers, not {column.dtype}")
    return column
