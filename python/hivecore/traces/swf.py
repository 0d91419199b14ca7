"""The Standard Workload Format, version 2.2: a line of 18 numbers per job, `;` for comments.

Used are fields 1 (job number), 2 (submit time, s), 4 (run time, s), 8 (requested processors, or 5,
the allocated ones, if unknown), 11 (status) and 15 (queue), which becomes the tenant. -1 means
unknown. A job without a run time or a size, or with another negative number there, is dropped and
counted. Processors are taken as GPUs.

An interrupted job has a line for each partial execution, with its number and status 2 (3 or 4 for
the last one), and a line with another status for the whole job. They are one job: the latter line
counts; missing values come from the partial executions: the earliest submission, the sum of run
times, the most processors. Source: Parallel Workloads Archive, "The Standard Workload Format".
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hivecore.traces._part import Part
from hivecore.traces._table import read_text
from hivecore.traces.errors import TraceFormatError

__all__ = ["line_of_job", "read"]

_FIELDS = 18
_JOB, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _STATUS, _QUEUE = 0, 1, 3, 4, 7, 10, 14
_NAMES = {
    _JOB: "job number",
    _SUBMIT: "submit time",
    _RUN: "run time",
    _ALLOCATED: "allocated processors",
    _REQUESTED: "requested processors",
    _STATUS: "status",
    _QUEUE: "queue number",
}
_WHOLE = (_JOB, _ALLOCATED, _REQUESTED, _QUEUE)
_MEASURED = (_RUN, _ALLOCATED, _REQUESTED)  # may be negative: such a job is dropped
_PARTIAL = (2.0, 3.0, 4.0)
_UNKNOWN = -1.0
_LARGEST = 2.0**53  # beyond this a float is not an exact count

_ENDS = re.compile(r"\r\n|\r|\n")  # a form feed does not end a line

_Table = npt.NDArray[np.float64]


def read(path: Path) -> Part:
    """Return the jobs of one workload log."""
    lines = _lines(path)
    table = _parse(path, lines)
    if not len(table):
        raise TraceFormatError("no job in the file", path)
    _check(path, lines, table)

    table = _without_parts(table)
    size = np.where(table[:, _REQUESTED] == _UNKNOWN, table[:, _ALLOCATED], table[:, _REQUESTED])
    kept = np.ones(len(table), dtype=bool)
    dropped = {}
    for reason, faulty in (
        ("unknown submit time", table[:, _SUBMIT] < 0),
        ("unknown run time", table[:, _RUN] == _UNKNOWN),
        ("negative run time", table[:, _RUN] < 0),
        ("unknown size", size == _UNKNOWN),
        ("negative size", size < 0),
    ):
        dropped[reason] = int((kept & faulty).sum())
        kept &= ~faulty
    queue = table[kept, _QUEUE].astype(np.int64).tolist()
    return Part(
        job_id=table[kept, _JOB].astype(np.int64).astype(np.str_),
        tenant=["unknown queue" if number < 0 else f"queue {number}" for number in queue],
        submit=table[kept, _SUBMIT],
        duration=table[kept, _RUN],
        gpus=size[kept].astype(np.int64),
        dropped=dropped,
    )


def line_of_job(path: Path, job: str) -> int | None:
    """Return the number of the first line with this job."""
    rows = (line.split() for line in _lines(path))
    return next((i for i, row in enumerate(rows, 1) if row[:1] == [job]), None)


def _lines(path: Path) -> list[str]:
    # Comments have names of places and people in any encoding.
    return _ENDS.split(read_text(path, errors="replace"))


def _without_parts(table: _Table) -> _Table:
    """Return a line per job: partial executions are merged into the line of the whole job."""
    is_part = np.isin(table[:, _STATUS], _PARTIAL)
    if not is_part.any():
        return table
    parts: dict[float, list[int]] = {}
    # Successive executions of jobs without a number belong together.
    unnamed, before = _UNKNOWN, -1
    for row in np.flatnonzero(is_part).tolist():
        key = table[row, _JOB]
        if key == _UNKNOWN:
            if before != row - 1 or table[before, _STATUS] != _PARTIAL[0]:
                unnamed -= 1
            key, before = unnamed, row
        parts.setdefault(key, []).append(row)
    table, kept = table.copy(), ~is_part
    summaries: dict[float, list[int]] = {}
    for row in np.flatnonzero(kept).tolist():
        if table[row, _JOB] in parts:
            summaries.setdefault(table[row, _JOB], []).append(row)
    for job, rows in parts.items():
        merged = _merged(table[rows])
        for row in summaries.get(job, ()):
            unknown = table[row] == _UNKNOWN
            table[row, unknown] = merged[unknown]
        if job not in summaries:
            table[rows[0]], kept[rows[0]] = merged, True
    return table[kept]


def _merged(parts: _Table) -> _Table:
    """Return a line for a job with these partial executions."""
    merged: _Table = parts[0].copy()
    for field in (_SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _QUEUE):
        known = parts[parts[:, field] != _UNKNOWN, field]
        if not len(known):
            continue
        if known.min() < 0:
            merged[field] = known.min()
        elif field == _RUN:
            merged[field] = known.sum()
        elif field in (_ALLOCATED, _REQUESTED):
            merged[field] = known.max()
        else:
            merged[field] = known.min() if field == _SUBMIT else known[0]
    return merged


def _parse(path: Path, lines: Sequence[str]) -> _Table:
    filled = [line for line in lines if line.partition(";")[0].strip()]
    if not filled:
        return np.empty((0, _FIELDS))
    try:
        table = np.loadtxt(filled, comments=";", ndmin=2)
    except ValueError:
        table = np.empty((0, 0))
    if table.shape != (len(filled), _FIELDS):
        raise _fault(path, lines)
    return table


def _fault(path: Path, lines: Sequence[str]) -> TraceFormatError:
    """Return the error of the first line that is not 18 numbers."""
    for number, line in enumerate(lines, start=1):
        fields = line.partition(";")[0].split()
        if fields and len(fields) != _FIELDS:
            return TraceFormatError(f"{len(fields)} fields instead of {_FIELDS}", path, number)
        for position, value in enumerate(fields):
            try:
                np.loadtxt([value], comments=None)
            except ValueError:
                name = _NAMES.get(position, f"field {position + 1}")
                return TraceFormatError(f"{value!r} is not a number", path, number, name)
    return TraceFormatError("not a table of numbers", path)


def _check(path: Path, lines: Sequence[str], table: _Table) -> None:
    # Another line of the job may have its submission, which is checked after merging.
    is_part = np.isin(table[:, _STATUS], _PARTIAL)
    may_lack = is_part | np.isin(table[:, _JOB], table[is_part, _JOB])
    for position, name in _NAMES.items():
        column = table[:, position]
        sound, expected = np.isfinite(column), "a finite number"
        if position == _SUBMIT:
            sound &= (column >= 0) | (may_lack & (column == _UNKNOWN))
            expected = "a number that is not negative"
        elif position not in _MEASURED:
            sound &= (column >= 0) | (column == _UNKNOWN)
        if position in _WHOLE:
            sound &= (column == np.floor(column)) & (column <= _LARGEST)
            expected = "-1 or a whole number that is not negative"
        if not sound.all():
            row = int(np.flatnonzero(~sound)[0])
            problem = f"{column[row]:g} is not {expected}"
            raise TraceFormatError(problem, path, _line_of(lines, row), name)


def _line_of(lines: Sequence[str], row: int) -> int:
    filled = (
        number for number, line in enumerate(lines, start=1) if line.partition(";")[0].strip()
    )
    return next(number for position, number in enumerate(filled) if position == row)
