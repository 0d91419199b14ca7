"""Writes traces in hivecore's own CSV layout; `layouts` reads it."""

from pathlib import Path

from hivecore.traces._table import write_columns
from hivecore.traces.trace import Trace

__all__ = ["save_csv"]

_HEADER = ("job_id", "tenant", "submit", "duration", "gpus")


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
