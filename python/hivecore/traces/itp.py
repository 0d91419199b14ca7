"""Microsoft ITP clusters (2021): `job_id,submission_time,duration,num_gpu`, times in seconds.

One file per cluster and no tenant column, so each file is one tenant, named like the file.
Submission times of all files count from one origin.
Source: microsoft/elasticflow-traces (MIT), the traces of ElasticFlow (ASPLOS'23).
"""

from pathlib import Path

import numpy as np

from hivecore.traces._part import Part, stem
from hivecore.traces._table import COUNT, NAME, SECONDS, read_columns

__all__ = ["read"]


def read(path: Path) -> Part:
    """Return the jobs of one ITP cluster."""
    columns = read_columns(
        path,
        {"job_id": NAME, "submission_time": SECONDS, "duration": SECONDS, "num_gpu": COUNT},
    )
    return Part(
        job_id=columns["job_id"].astype(np.str_),
        tenant=[stem(path)] * len(columns["duration"]),
        submit=columns["submission_time"],
        duration=columns["duration"],
        gpus=columns["num_gpu"],
    )
