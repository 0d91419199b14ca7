"""Microsoft's Philly trace (2017) as one CSV file: `timestamp,duration,num_gpus,gpu_time,cluster`.

The layout of the derived file that HeliosArtifact and others publish: submission time as
YYYY-MM-DD HH:MM:SS, duration in seconds, and in `cluster` the hash of the job's virtual cluster,
which is the tenant. Jobs have no name there; they are called by their row, from 0. `gpu_time` is
redundant and not read.
Source: msr-fiddle/philly-traces (CC-BY-4.0).
"""

from pathlib import Path

import numpy as np

from hivecore.traces._part import Part
from hivecore.traces._table import DURATION, GPUS, NAME, TIMESTAMP, read_columns

__all__ = ["read"]


def read(path: Path) -> Part:
    """Return the jobs of one Philly file."""
    columns = read_columns(
        path,
        {"timestamp": TIMESTAMP, "duration": DURATION, "num_gpus": GPUS, "cluster": NAME},
    )
    return Part.of_jobs_that_ran(
        job_id=np.arange(len(columns["timestamp"])),
        tenant=columns["cluster"].tolist(),
        submit=columns["timestamp"],
        duration=columns["duration"],
        gpus=columns["num_gpus"],
    )
