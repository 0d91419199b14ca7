"""Microsoft's Philly trace (2017) as it was published: `cluster_job_log`, a list in JSON.

A job has a `jobid`, a `vc`, which is the tenant, `submitted_time`, and attempts, each with
`start_time`, `end_time` and the GPUs on each server. The duration is that of all attempts together
whose times are both known, the number of GPUs that of the largest attempt. So a job whose attempts
all lack a time, as one that still ran at the end may, is dropped, as is one without attempts.
Source: msr-fiddle/philly-traces (CC-BY-4.0).
"""

from datetime import UTC, datetime
from math import nan
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
        times = [[attempt.seconds for attempt in job.attempts] for job in jobs]
        submit = [_moment(job.submitted_time) for job in jobs]
    except ValidationError as error:
        raise TraceFormatError(str(error), path) from None
    except ValueError as error:
        raise TraceFormatError(f"not JSON, or not a time: {error}", path) from None
    if not jobs or np.isnan(submit).any():
        raise TraceFormatError("no job in the file, or one without submitted_time", path)
    known = [[seconds for seconds in each if seconds == seconds] for each in times]
    return Part.of_jobs_that_ran(
        job_id=np.array([job.jobid for job in jobs], dtype=object),
        tenant=[job.vc for job in jobs],
        submit=np.array(submit),
        duration=np.array([sum(each) if each else nan for each in known]),
        gpus=np.array([max((a.gpus for a in job.attempts), default=0) for job in jobs], float),
    )


def _moment(text: str | None) -> float:
    if text is None or text == "None":
        return nan
    return datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp()
