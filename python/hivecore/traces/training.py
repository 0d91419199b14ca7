"""Training jobs as columns, with the cost of an iteration, for policies that preempt and
interleave.

In a `Trace` a job has a fixed duration. Here it is a number of equal iterations with a stage per
resource, so that its pace may change while it runs. Source of the format: Rivendile/Muri
(Apache-2.0), the artifact of Muri (SIGCOMM'22).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.traces._part import dropped_jobs, jobs_that_ran
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, check_seconds, read_columns
from hivecore.traces.errors import TraceFormatError

__all__ = ["TrainingTrace", "load_training"]

_MILLISECONDS = 1000.0
_STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
#: What a job must have, by its name in reports.
_NEEDED = {
    "GPUs": "num_gpu",
    "duration": "duration",
    "iterations": "iterations",
    "iteration time": "iteration_time",
}


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTrace:
    """Training jobs, sorted by submission time.

    :param job_id: str[jobs], as the source calls its jobs.
    :param model: str[jobs], what a job trains.
    :param gpus: int64[jobs], positive.
    :param submit: float64[jobs], seconds.
    :param duration: float64[jobs], seconds, as the source estimates it.
    :param iterations: int64[jobs], positive.
    :param iteration_ms: float64[jobs], milliseconds of one iteration alone on its GPUs, positive.
    :param stages_ms: float64[jobs, 3], milliseconds that an iteration keeps storage and CPU, the
        GPU, and the network busy; not all zero.
    :param dropped: how many jobs of the source are not in the trace, by reason.
    :raises ValueError: an empty trace, a value out of range, or submission times that fall.
    """

    job_id: npt.NDArray[np.str_]
    model: npt.NDArray[np.str_]
    gpus: npt.NDArray[np.int64]
    submit: npt.NDArray[np.float64]
    duration: npt.NDArray[np.float64]
    iterations: npt.NDArray[np.int64]
    iteration_ms: npt.NDArray[np.float64]
    stages_ms: npt.NDArray[np.float64]
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.job_id):
            raise ValueError("the trace has no job")
        for name, faulty in {
            "gpus": self.gpus < 1,
            "iterations": self.iterations < 1,
            "iteration_ms": self.iteration_ms <= 0,
            "stages_ms": self.stages_ms.sum(axis=1) <= 0,
        }.items():
            if faulty.any():
                job = self.job_id[int(faulty.argmax())]
                raise ValueError(f"{name} must be positive, not as of job {job}")
        if (np.diff(self.submit) < 0).any():
            raise ValueError("submit must rise")

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.job_id)


def load_training(path: str | Path) -> TrainingTrace:
    r"""Return the jobs of one trace file in Muri's format.

    :param path: a file; one whose name ends in .gz is unpacked.
    :raises OSError: the file cannot be read.
    :raises TraceFormatError: a file that does not follow the format, with its line and field.

    Jobs submitted at the same time stay in the order of their lines. A job without GPUs, duration,
    iterations or a time of an iteration, as of `load`, is dropped and counted. Cost: O(jobs log
    jobs).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "a.csv"
    ...     times = "submit_time,duration,iteration_time,resource_time_0,resource_time_1"
    ...     header = f"job_id,model_name,num_gpu,iterations,{times},resource_time_2"
    ...     _ = file.write_text(f"{header}\n7,bert,8,1000,2000,192000,192,0.5,167,59")
    ...     trace = load_training(file)
    >>> trace.submit.tolist(), trace.iterations.tolist(), trace.stages_ms.tolist()
    ([2.0], [1000], [[0.5, 167.0, 59.0]])
    """
    file = Path(path)
    columns = read_columns(
        file,
        {"job_id": NAME, "model_name": NAME, "num_gpu": GPUS, "iterations": GPUS}
        | {"duration": DURATION, "iteration_time": DURATION}
        | dict.fromkeys(("submit_time", *_STAGES), SECONDS),
    )
    needed = {name: columns[field] for name, field in _NEEDED.items()}
    with np.errstate(over="ignore"):  # a job with an infinite sum is dropped
        needed["stage times"] = np.sum([columns[name] for name in _STAGES], axis=0)
    kept, dropped = jobs_that_ran(needed)
    if kept.any():
        with np.errstate(over="ignore"):  # an infinite time is refused
            work = columns["iterations"] * columns["iteration_time"]
        submit = columns["submit_time"] - columns["submit_time"][kept].min()
        times = {"duration": columns["duration"], "submit_time": submit, "iterations": work}
        check_seconds(file, kept, {name: time / _MILLISECONDS for name, time in times.items()})
    rows = np.flatnonzero(kept)
    order = rows[np.argsort(columns["submit_time"][rows], kind="stable")]
    try:
        return _from_columns({name: column[order] for name, column in columns.items()}, dropped)
    except ValueError as error:
        raise TraceFormatError(f"{error}{dropped_jobs(dropped)}", file) from error


def _from_columns(
    columns: Mapping[str, npt.NDArray[Any]], dropped: Mapping[str, int]
) -> TrainingTrace:
    return TrainingTrace(
        job_id=columns["job_id"].astype(np.str_),
        model=columns["model_name"].astype(np.str_),
        gpus=columns["num_gpu"].astype(np.int64),
        submit=columns["submit_time"] / _MILLISECONDS,
        duration=columns["duration"] / _MILLISECONDS,
        iterations=columns["iterations"].astype(np.int64),
        iteration_ms=columns["iteration_time"],
        stages_ms=np.stack([columns[name] for name in _STAGES], axis=1),
        dropped=dropped,
    )
