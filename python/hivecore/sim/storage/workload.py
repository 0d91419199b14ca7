"""Jobs and cluster for the storage simulator: arrays, sizes in MB, rates in MB/s."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_float, as_int
from hivecore.scheduler import Job
from hivecore.traces import StorageTrace

__all__ = ["MB", "Floats", "Indices", "StorageCluster", "StorageWorkload"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: MB per GB.
MB = 1000.0


@dataclass(frozen=True, slots=True)
class StorageCluster:
    """What the jobs share.

    :param gpus: at least 1.
    :param cache_gb: GB of cache on all nodes together, not negative.
    :param bandwidth_mbps: MB/s from remote storage for all jobs together, positive.
    :raises ValueError: a value is out of range.
    :raises TypeError: a value has a wrong type.
    """

    gpus: int
    cache_gb: float
    bandwidth_mbps: float

    def __post_init__(self) -> None:
        as_int(self.gpus, "gpus", 1, 2**31 - 1)
        if not 0 <= as_float(self.cache_gb, "cache_gb") < inf:
            raise ValueError(f"cache_gb must be finite and not negative, not {self.cache_gb}")
        if not 0 < as_float(self.bandwidth_mbps, "bandwidth_mbps") < inf:
            raise ValueError(
                f"bandwidth_mbps must be finite and positive, not {self.bandwidth_mbps}"
            )

    @property
    def cache_mb(self) -> float:
        """The cache in MB."""
        return self.cache_gb * MB


@dataclass(frozen=True, slots=True, eq=False)
class StorageWorkload:
    """The jobs of a trace in order of submission.

    :param submit: float64[jobs], seconds.
    :param gpus: int64[jobs].
    :param rate_mbps: float64[jobs], MB/s if the job never waits for data.
    :param total_mb: float64[jobs], MB that the job reads.
    :param dataset: int64[jobs], index into `size_mb`.
    :param size_mb: float64[datasets], MB. Datasets are in order of their first jobs, so that
        results do not depend on names.
    :param names: of the datasets.
    :param jobs: names of the jobs in a scheduler.
    """

    submit: Floats
    gpus: Indices
    rate_mbps: Floats
    total_mb: Floats
    dataset: Indices
    size_mb: Floats
    names: tuple[str, ...]
    jobs: tuple[str, ...]

    @classmethod
    def of(cls, trace: StorageTrace) -> Self:
        """Return the jobs of a trace.

        :param trace: any trace.
        """
        names, first, codes = np.unique(trace.dataset, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(
            submit=np.array(trace.submit, dtype=np.float64),
            gpus=np.array(trace.gpus, dtype=np.int64),
            rate_mbps=np.array(trace.rate_mbps, dtype=np.float64),
            total_mb=trace.total_gb * MB,
            dataset=np.argsort(order)[codes].astype(np.int64),
            size_mb=trace.dataset_gb[first[order]] * MB,
            names=tuple(names[order].tolist()),
            jobs=tuple(map(str, range(trace.jobs))),
        )

    @classmethod
    def of_jobs(
        cls, jobs: Sequence[Job], seconds: Sequence[float], datasets_gb: Mapping[str, float]
    ) -> Self:
        """Return the jobs that read data; their submission times are unknown.

        :param jobs: in order of submission. Their GPUs are left to the scheduler.
        :param seconds: duration of each if it never waits.
        :param datasets_gb: size of each dataset by name.
        :raises ValueError: a job reads an unknown dataset.
        """
        readers = [
            (job.name, data, length)
            for job, length in zip(jobs, seconds, strict=True)
            if (data := job.data) is not None
        ]
        for name, data, _ in readers:
            if data.dataset not in datasets_gb:
                raise ValueError(f"datasets_gb: job {name!r} reads {data.dataset!r}")
        names = tuple(dict.fromkeys([*(data.dataset for _, data, _ in readers), *datasets_gb]))
        code = {name: at for at, name in enumerate(names)}
        rate = np.array([data.rate_mbps for _, data, _ in readers], dtype=np.float64)
        return cls(
            submit=np.zeros(len(readers)),
            gpus=np.ones(len(readers), dtype=np.int64),
            rate_mbps=rate,
            total_mb=rate * np.array([length for *_, length in readers], dtype=np.float64),
            dataset=np.array([code[data.dataset] for _, data, _ in readers], dtype=np.int64),
            size_mb=np.array([datasets_gb[name] for name in names], dtype=np.float64) * MB,
            names=names,
            jobs=tuple(name for name, *_ in readers),
        )

    def __len__(self) -> int:
        return len(self.submit)
