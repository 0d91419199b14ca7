"""Formats that are a CSV file with a line per job, as a table: which column is what.

- "csv", hivecore's own, to convert other logs into: just what a replay needs, times in seconds.
  `save_csv` writes it, and it is read back as the same trace, bit for bit.
- "itp", Microsoft's ITP clusters (2021). Submission times of all files count from one origin.
  Source: microsoft/elasticflow-traces (MIT), the traces of ElasticFlow (ASPLOS'23).
- "muri", the traces of Muri's artifact; models and times per resource are for interleaving, and not
  read. Source: Rivendile/Muri (Apache-2.0), the artifact of Muri (SIGCOMM'22).
- "philly", Microsoft's trace (2017) as HeliosArtifact and others publish it. `cluster` is the hash
  of the virtual cluster. Jobs are called by their row, from 0. Source: msr-fiddle/philly-traces
  (CC-BY-4.0).
- "helios", SenseTime's clusters (2020), `cluster_log.csv`. Job numbers are those of one cluster.
  Source: S-Lab-System-Group/HeliosData (CC-BY-4.0), the traces of Helios (SC'21).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hivecore.traces._part import Part, stem
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, TIMESTAMP, Kind, read_columns

__all__ = ["LAYOUTS", "Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a format.

    :ivar job_id: None if jobs are called by their row.
    :ivar tenant: None if each file is one tenant, named like the file.
    :ivar ticks: how many of the file's units of time are a second.
    """

    job_id: str | None
    tenant: str | None
    submit: str
    duration: str
    gpus: str
    submit_kind: Kind = SECONDS
    ticks: float = 1.0

    def read(self, path: Path) -> Part:
        """Return the jobs of one file."""
        kinds = {name: NAME for name in (self.job_id, self.tenant) if name is not None}
        kinds |= {self.submit: self.submit_kind, self.duration: DURATION, self.gpus: GPUS}
        columns = read_columns(path, kinds)
        jobs = len(columns[self.submit])
        return Part.of_jobs_that_ran(
            job_id=np.arange(jobs) if self.job_id is None else columns[self.job_id],
            tenant=[stem(path)] * jobs if self.tenant is None else columns[self.tenant].tolist(),
            submit=columns[self.submit] / self.ticks,
            duration=columns[self.duration] / self.ticks,
            gpus=columns[self.gpus],
        )


LAYOUTS = {
    "csv": Layout("job_id", "tenant", "submit", "duration", "gpus"),
    "itp": Layout("job_id", None, "submission_time", "duration", "num_gpu"),
    "muri": Layout("job_id", None, "submit_time", "duration", "num_gpu", ticks=1000.0),
    "philly": Layout(None, "cluster", "timestamp", "duration", "num_gpus", TIMESTAMP),
    "helios": Layout("job_id", "vc", "submit_time", "duration", "gpu_num", TIMESTAMP),
}
