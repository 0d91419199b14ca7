"""The traces of Muri's artifact: a CSV file per trace with times in milliseconds.

Read are `job_id`, `num_gpu`, `submit_time` and `duration`; models and per-resource times are for
interleaving and not for a replay. No tenant column: each file is one tenant, named like the file.
Source: Rivendile/Muri (Apache-2.0), the artifact of Muri (SIGCOMM'22).
"""

from pathlib import Path

from hivecore.traces._part import Part, stem
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, read_columns

__all__ = ["read"]

_MILLISECONDS = 1000.0


def read(path: Path) -> Part:
    """Return the jobs of one Muri trace, times turned into seconds."""
    columns = read_columns(
        path,
        {"job_id": NAME, "num_gpu": GPUS, "submit_time": SECONDS, "duration": DURATION},
    )
    return Part.of_jobs_that_ran(
        job_id=columns["job_id"],
        tenant=[stem(path)] * len(columns["duration"]),
        submit=columns["submit_time"] / _MILLISECONDS,
        duration=columns["duration"] / _MILLISECONDS,
        gpus=columns["num_gpu"],
    )
