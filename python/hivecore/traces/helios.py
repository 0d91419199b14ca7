"""SenseTime's Helios clusters (2020): `cluster_log.csv`, of which these columns are read.

`job_id`, `vc`, which is the tenant, `gpu_num`, `submit_time` as YYYY-MM-DD HH:MM:SS, and `duration`
in seconds. Jobs without GPUs are dropped and counted. Job numbers are those of one cluster.
Source: S-Lab-System-Group/HeliosData (CC-BY-4.0), the traces of Helios (SC'21).
"""

from pathlib import Path

from hivecore.traces._part import Part
from hivecore.traces._table import DURATION, GPUS, NAME, TIMESTAMP, read_columns

__all__ = ["read"]


def read(path: Path) -> Part:
    """Return the jobs of one cluster."""
    columns = read_columns(
        path,
        {
            "job_id": NAME,
            "vc": NAME,
            "gpu_num": GPUS,
            "submit_time": TIMESTAMP,
            "duration": DURATION,
        },
    )
    return Part.of_jobs_that_ran(
        job_id=columns["job_id"],
        tenant=columns["vc"].tolist(),
        submit=columns["submit_time"],
        duration=columns["duration"],
        gpus=columns["gpu_num"],
    )
