"""Microsoft's Philly trace (2017) as it was published: `cluster_job_log`, a list in JSON.

A job has a `jobid`, a `vc`, which is the tenant, `submitted_time`, and attempts, each with
`start_time`, `end_time` and the GPUs on each server. The duration is the sum of the attempts with
both times, the number of GPUs that of the largest attempt. A job is dropped if no attempt has both
times, as of a job that still ran at the end, or if an attempt ends before it starts.
Source: msr-fiddle/philly-traces (CC-BY-4.0).
"""

from datetime import UTC, datetime
from math import isnan, nan
from pathlib import Path

import numpy as np
from msgspec import Struct, ValidationError, json

from hivecore.traces._part import Part
from hivecore.traces._table import read_text
from hivecore.traces.errors import TraceFormatError

__all__ = ["read"]

_FORM = "%Y-%m-%d %H:%M:%S"


class _Server(Struct):
    gpus: tuple[str, ...] = ()


class _Attempt(Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: tuple[_Server, ...] = ()

    @property
    def seconds(self) -> float:
        """NaN if a time is not known."""
        return _moment(self.end_time) - _moment(self.start_time)

    @property
    def gpus(self) -> int:
        return sum(len(server.gpus) for server in self.detail)


class _Job(Struct):
    jobid: str
    vc: str
    submitted_time: str
    attempts: tuple[_Attempt, ...] = ()


def read(path: Path) -> Part:
    """Return the jobs of the file."""
    try:
        jobs = json.decode(read_text(path).encode(), type=list[_Job])
    except ValidationError as error:
        raise TraceFormatError(str(error), path) from None
    except ValueError as error:
        raise TraceFormatError(f"not JSON: {error}", path) from None
    if not jobs:
        raise TraceFormatError("no job in the file", path)
    submit, duration = [], []
    for job in jobs:
        try:
            submit.append(_moment(job.submitted_time))
            duration.append(_together([attempt.seconds for attempt in job.attempts]))
        except ValueError as error:
            raise TraceFormatError(f"job {job.jobid!r}: not a time: {error}", path) from None
        if isnan(submit[-1]):
            raise TraceFormatError(f"job {job.jobid!r} is without submitted_time", path)
    return Part.of_jobs_that_ran(
        job_id=np.array([job.jobid for job in jobs], dtype=object),
        tenant=[job.vc for job in jobs],
        submit=np.array(submit),
        duration=np.array(duration),
        gpus=np.array([max((a.gpus for a in job.attempts), default=0) for job in jobs], float),
    )


def _together(times: list[float]) -> float:
    """Return the sum of the known times; NaN if there is none, and a negative one if any is."""
    known = [seconds for seconds in times if not isnan(seconds)]
    return min(0.0, *known) or sum(known) if known else nan


def _moment(text: str | None) -> float:
    if text is None or text == "None":
        return nan
    return datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp()
