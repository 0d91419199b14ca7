"""The Standard Workload Format, version 2.2: 18 numbers a line for each job, `;` for comments.

Used are fields 1 (job number), 2 (submit time, s), 4 (run time, s), 8 (requested processors, or 5,
the allocated ones, where the request is unknown) and 15 (queue), which is the tenant. -1 stands for
unknown: a job without a run time never ran, one without a size cannot be placed; both are dropped
and counted. Processors are taken as GPUs.
Source: Parallel Workloads Archive, "The Standard Workload Format".
"""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hivecore.traces._part import Part
from hivecore.traces._table import read_text
from hivecore.traces.errors import TraceFormatError

__all__ = ["read"]

_FIELDS = 18
_JOB, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _QUEUE = 0, 1, 3, 4, 7, 14
_NAMES = {
    _JOB: "job number",
    _SUBMIT: "submit time",
    _RUN: "run time",
    _ALLOCATED: "allocated processors",
    _REQUESTED: "requested processors",
    _QUEUE: "queue number",
}
_UNKNOWN = -1.0
_LARGEST = 2.0**53  # beyond this a float is no exact count


def read(path: Path) -> Part:
    """Return the jobs of one workload log."""
    text = read_text(path)
    table = _parse(path, text)
    if not len(table):
        raise TraceFormatError("no job in the file", path)
    _check(path, text, table)

    size = np.where(table[:, _REQUESTED] == _UNKNOWN, table[:, _ALLOCATED], table[:, _REQUESTED])
    never_ran = table[:, _RUN] == _UNKNOWN
    no_size = (size == _UNKNOWN) & ~never_ran
    kept = ~(never_ran | no_size)
    queue = table[kept, _QUEUE].astype(np.int64).tolist()
    return Part(
        job_id=table[kept, _JOB].astype(np.int64).astype(np.str_),
        tenant=["unknown queue" if number < 0 else f"queue {number}" for number in queue],
        submit=table[kept, _SUBMIT],
        duration=table[kept, _RUN],
        gpus=size[kept].astype(np.int64),
        dropped={"unknown run time": int(never_ran.sum()), "unknown size": int(no_size.sum())},
    )


def _parse(path: Path, text: str) -> npt.NDArray[np.float64]:
    lines = [line for line in text.splitlines() if line.partition(";")[0].strip()]
    if not lines:
        return np.empty((0, _FIELDS))
    try:
        table = np.loadtxt(io.StringIO("\n".join(lines)), comments=";", ndmin=2)
    except ValueError:
        table = np.empty((0, 0))
    if table.shape != (len(lines), _FIELDS):
        raise _fault(path, text)
    return table


def _fault(path: Path, text: str) -> TraceFormatError:
    """Return the error of the first line that is not 18 numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition(";")[0].split()
        if fields and len(fields) != _FIELDS:
            return TraceFormatError(f"{len(fields)} fields instead of {_FIELDS}", path, number)
        for position, value in enumerate(fields):
            try:
                float(value)
            except ValueError:
                name = _NAMES.get(position, f"field {position + 1}")
                return TraceFormatError(f"{value!r} is not a number", path, number, name)
    return TraceFormatError("not a table of numbers", path)


def _check(path: Path, text: str, table: npt.NDArray[np.float64]) -> None:
    for position, name in _NAMES.items():
        column = table[:, position]
        sound = np.isfinite(column) & ((column >= 0) | (column == _UNKNOWN))
        expected = "-1 or a number that is not negative"
        if position == _SUBMIT:
            sound &= column >= 0
            expected = "a number that is not negative"
        elif position != _RUN:
            sound &= (column == np.floor(column)) & (column <= _LARGEST)
            expected = "-1 or a whole number that is not negative"
        if not sound.all():
            row = int(np.flatnonzero(~sound)[0])
            problem = f"{column[row]:g} is not {expected}"
            raise TraceFormatError(problem, path, _line_of(text, row), name)


def _line_of(text: str, row: int) -> int:
    filled = (
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if line.partition(";")[0].strip()
    )
    return next(number for position, number in enumerate(filled) if position == row)
