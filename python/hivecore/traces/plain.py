"""hivecore's own CSV layout: `job_id,tenant,submit,duration,gpus`, times in seconds.

The layout to convert other logs into: it holds just what a replay needs, and what `save_csv` writes
is read back as the same trace, bit for bit.
"""

from pathlib import Path

from hivecore.traces._part import Part
from hivecore.traces._table import DURATION, GPUS, NAME, SECONDS, read_columns, write_columns
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
    columns = {name: getattr(trace, name).tolist() for name in _HEADER}
    columns["tenant"] = [trace.tenants[code] for code in columns["tenant"]]
    write_columns(path, columns)
