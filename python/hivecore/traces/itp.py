"""Microsoft ITP clusters (2021): `job_id,submission_time,duration,num_gpu`, times in seconds.

One file per cluster and no tenant column, so each file is one tenant, named like the file.
Submission times of all files count from one origin.
Source: microsoft/elasticflow-traces (MIT), the traces of ElasticFlow (ASPLOS'23).
"""

from pathlib import Path

from hivecore.traces._part import Part, stem
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, read_columns

__all__ = ["read"]


def read(path: Path) -> Part:
    """Return the jobs of one ITP cluster."""
    columns = read_columns(
        path,
        {"job_id": NAME, "submission_time": SECONDS, "duration": DURATION, "num_gpu": GPUS},
    )
    return Part.of_jobs_that_ran(
        job_id=columns["job_id"],
        tenant=[stem(path)] * len(columns["duration"]),
        submit=columns["submission_time"],
        duration=columns["duration"],
        gpus=columns["num_gpu"],
    )
