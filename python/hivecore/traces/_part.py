"""The result of a format's reader: the columns of a file, with tenants as names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

__all__ = ["Part", "dropped_jobs", "jobs_that_ran", "stem"]

_FAULTS: dict[str, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]] = {
    "missing": np.isnan,
    "negative": lambda values: values < 0,
    "zero": lambda values: values == 0,
    "infinite": np.isinf,
}


@dataclass(frozen=True, slots=True)
class Part:
    """The jobs of one file in file order; columns as in `Trace`, tenants as names."""

    job_id: npt.NDArray[np.str_]
    tenant: list[str]
    submit: npt.NDArray[np.float64]
    duration: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.int64]
    dropped: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_jobs_that_ran(
        cls,
        job_id: npt.NDArray[Any],
        tenant: Sequence[str],
        submit: npt.NDArray[np.float64],
        duration: npt.NDArray[np.float64],
        gpus: npt.NDArray[np.float64],
    ) -> Self:
        """Return the jobs with a duration and GPUs; count the others.

        :param duration: nan for a job without one.
        :param gpus: nan for a job without any.
        """
        kept, dropped = jobs_that_ran({"duration": duration, "GPUs": gpus})
        return cls(
            job_id=job_id[kept].astype(np.str_),
            tenant=[tenant[row] for row in np.flatnonzero(kept).tolist()],
            submit=submit[kept],
            duration=duration[kept],
            gpus=gpus[kept].astype(np.int64),
            dropped=dropped,
        )


def jobs_that_ran(
    columns: Mapping[str, npt.NDArray[np.float64]],
) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which rows are positive and finite in all columns, and how many are not, by reason.

    A row counts once, for its first fault.

    >>> kept, dropped = jobs_that_ran({"duration": np.array([5.0, -4.0, np.nan])})
    >>> kept.tolist(), dropped
    ([True, False, False], {'missing duration': 1, 'negative duration': 1})
    """
    rows = len(next(iter(columns.values())))
    kept = np.ones(rows, dtype=bool)
    dropped = {}
    for name, values in columns.items():
        for fault, is_faulty in _FAULTS.items():
            faulty = kept & is_faulty(values)
            if faulty.any():
                dropped[f"{fault} {name}"] = int(faulty.sum())
                kept &= ~faulty
    return kept, dropped


def dropped_jobs(dropped: Mapping[str, int]) -> str:
    """Return what an error adds about dropped jobs; "" if there are none.

    >>> dropped_jobs({"missing duration": 2})
    '; dropped are jobs: 2 of missing duration'
    """
    counts = ", ".join(f"{count} of {reason}" for reason, count in dropped.items() if count)
    return f"; dropped are jobs: {counts}" if counts else ""


def stem(path: Path) -> str:
    """Return the file's name without its endings, which is the tenant of a one-tenant file."""
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name
