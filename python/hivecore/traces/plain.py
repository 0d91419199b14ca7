"""hivecore's own CSV layout: `job_id,tenant,submit,duration,gpus`, times in seconds.

The layout to convert other logs into: it holds just what a replay needs, and what `save_csv` writes
is read back as the same trace, bit for bit.
"""

import csv
import gzip
import io
from pathlib import Path

from hivecore.traces._part import Part
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, read_columns
from hivecore.traces.trace import Trace

__all__ = ["read", "save_csv"]

_HEADER = ("job_id", "tenant", "submit", "duration", "gpus")


def read(path: Path) -> Part:
    """Return the jobs of one file in this layout."""
    columns = read_columns(
        path,
        {"job_id": NAME, "tenant": NAME, "submit": SECONDS, "duration": DURATION, "gpus": GPUS},
    )
    return Part.of_jobs_that_ran(
        job_id=columns["job_id"],
        tenant=columns["tenant"].tolist(),
        submit=columns["submit"],
        duration=columns["duration"],
        gpus=columns["gpus"],
    )


def save_csv(trace: Trace, path: str | Path) -> None:
    """Write a trace in hivecore's own layout, packed if the name ends in .gz.

    :param trace: any trace.
    :param path: the file, overwritten if it exists.
    :raises OSError: the file cannot be written.

    Cost: O(jobs).

    >>> import tempfile
    >>> from hivecore.traces import load
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0.0, 0.1], [60.0, 60.0], [1, 8])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_csv(trace, Path(folder) / "trace.csv")
    ...     load(Path(folder) / "trace.csv", "csv").submit.tolist()
    [0.0, 0.1]
    """
    target = Path(path)
    text = io.StringIO(newline="")
    # With the line ends of RFC 4180, because "\n" alone would leave "\r" within a name unquoted.
    writer = csv.writer(text)
    writer.writerow(_HEADER)
    names = [trace.tenants[code] for code in trace.tenant.tolist()]
    writer.writerows(
        zip(
            trace.job_id.tolist(),
            names,
            trace.submit.tolist(),
            trace.duration.tolist(),
            trace.gpus.tolist(),
            strict=True,
        )
    )
    data = text.getvalue().encode()
    # A fixed time stamp keeps equal traces equal files.
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
