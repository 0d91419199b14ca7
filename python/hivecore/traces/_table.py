"""Reads CSV files column by column, fast if all is well and exact if it is not.

Each column is converted as a whole. If that fails, a bisection finds the first bad cell (a prefix
converts if and only if all its cells do), and a second reading of the text finds its line.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._arguments import LONGEST
from hivecore.traces.errors import TraceFormatError

__all__ = [
    "COUNT",
    "DURATION",
    "GPUS",
    "MOMENT",
    "NAME",
    "SECONDS",
    "TIMESTAMP",
    "Kind",
    "check_seconds",
    "line_of",
    "read_columns",
    "read_header",
    "read_text",
    "write_columns",
]

#: How logs write that a job has no duration or number of GPUs.
_NOTHING = frozenset(("", "-", "none", "null", "nil", "na", "n/a", "nat", "\\n", "unknown"))

Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How a column's cells become an array, and the message for a bad cell."""

    expected: str
    convert: Callable[[list[str]], Column]


def _seconds(cells: list[str]) -> Column:
    values = np.array(cells, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError
    return values


def _count(cells: list[str]) -> Column:
    values = _seconds(cells)
    # Above 2^53 a float cannot distinguish neighbouring integers.
    if (values != np.floor(values)).any() or (values > 2**53).any():
        raise ValueError
    return values.astype(np.int64)


def _measure(cells: list[str]) -> Column:
    """Return numbers, nan for missing ones."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        known = ["nan" if cell.strip().lower() in _NOTHING else cell for cell in cells]
        return np.array(known, dtype=np.float64)


def _whole_measure(cells: list[str]) -> Column:
    values = _measure(cells)
    if (values != np.floor(values))[~np.isnan(values)].any() or (np.abs(values) > 2**53).any():
        raise ValueError
    return values


def _moment(cells: list[str]) -> Column:
    values = _measure(cells)
    if (values < 0).any() or np.isinf(values).any():
        raise ValueError
    return values


def _timestamp(cells: list[str]) -> Column:
    # NumPy would accept "2017" or "NaT"; all cells of the format have the same length.
    if {*map(len, cells)} - {len("YYYY-MM-DD HH:MM:SS")}:
        raise ValueError
    return np.array(cells, dtype="datetime64[s]").astype(np.float64)


def _name(cells: list[str]) -> Column:
    if not all(map(str.strip, cells)):
        raise ValueError
    return np.array(cells, dtype=object)


SECONDS = Kind("a finite number that is not negative", _seconds)
COUNT = Kind("a whole number that is not negative", _count)
#: For jobs that may not have run: a cell without a number is nan, and numbers may be negative.
DURATION = Kind("a finite number", _measure)
GPUS = Kind("a whole number", _whole_measure)
MOMENT = Kind("nothing, or a finite number that is not negative", _moment)
TIMESTAMP = Kind("a time of the form YYYY-MM-DD HH:MM:SS", _timestamp)
NAME = Kind("a name", _name)


def read_text(path: Path, *, errors: str = "strict") -> str:
    """Return the text of a UTF-8 file, unpacked if its name ends in .gz.

    :param errors: how to handle other bytes, as in `bytes.decode`.
    """
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceFormatError(f"no gzip file, or an incomplete one ({error})", path) from error
    try:
        return data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceFormatError("not UTF-8 text", path, line) from error


def _rows(path: Path, text: str, most: int | None = None) -> list[list[str]]:
    """Return the non-empty lines of a CSV text, or the first of them."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        return list(islice(filter(None, reader), most))
    except csv.Error as error:
        raise TraceFormatError(f"not CSV ({error})", path, reader.line_num) from error


def read_header(path: Path) -> list[str]:
    """Return the column names of a CSV file; none if it is empty."""
    return [name.strip() for row in _rows(path, read_text(path), 1) for name in row]


def read_columns(
    path: Path, kinds: Mapping[str, Kind], names: Sequence[str] = ()
) -> dict[str, Column]:
    """Return the named columns of a CSV file with a header line; other columns are ignored.

    :param names: of the columns of a file that has no header line.
    """
    text = read_text(path)
    rows = _rows(path, text)
    if not rows:
        raise TraceFormatError("empty file, expected a header line", path)
    header = [name.strip() for name in rows[0]]
    before = 0
    if names and header[0] != names[0]:
        header, before = list(names), 1
    else:
        rows.pop(0)
    for name in kinds:
        if header.count(name) != 1:
            has = "no" if name not in header else "more than one"
            raise TraceFormatError(f"{has} column {name!r} among {', '.join(header)}", path, 1)
    if not rows:
        raise TraceFormatError("no job in the file, only a header line", path)

    widths = list(map(len, rows))
    whole = next((row for row, width in enumerate(widths) if width != len(header)), len(rows))
    columns = {}
    faults: list[tuple[int, str]] = []
    for name, kind in kinds.items():
        position = header.index(name)
        cells = [row[position] for row in rows[:whole]]
        try:
            columns[name] = kind.convert(cells)
        except ValueError:
            faults.append((_first_fault(cells, kind), name))
    if faults:
        row, name = min(faults, key=lambda fault: fault[0])
        problem = _problem(rows[row][header.index(name)], kinds[name])
        raise TraceFormatError(problem, path, line_of(text, row - before), name)
    if whole < len(rows):
        problem = f"{widths[whole]} fields, the header has {len(header)}"
        raise TraceFormatError(problem, path, line_of(text, whole - before))
    return columns


def check_seconds(path: Path, kept: npt.NDArray[np.bool_], seconds: Mapping[str, Column]) -> None:
    """Refuse times that are too long, naming the line.

    :param kept: which rows count.
    :param seconds: by field.
    """
    for name, values in seconds.items():
        late = np.flatnonzero(kept & (values > LONGEST))
        if len(late):
            row = int(late[0])
            problem = f"{values[row]:g} s, at most 2**40 s are allowed"
            raise TraceFormatError(problem, path, line_of(read_text(path), row), name)


def _problem(cell: str, kind: Kind) -> str:
    with suppress(ValueError):
        if 2**53 < abs(float(cell)) < inf:
            return f"{cell!r} is too large, at most 2**53 is allowed"
    return f"{cell!r} is not {kind.expected}"


def _first_fault(cells: list[str], kind: Kind) -> int:
    """Return the index of the first cell that does not convert; one such cell must exist."""
    sound, faulty = 0, len(cells)
    while faulty - sound > 1:
        middle = (sound + faulty) // 2
        try:
            kind.convert(cells[sound:middle])
        except ValueError:
            faulty = middle
        else:
            sound = middle
    return sound


def line_of(text: str, row: int) -> int:
    """Return the line on which data row `row` ends; it has several only with a
    quoted line break.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    seen = -2
    for fields in reader:
        seen += bool(fields)
        if seen == row:
            break
    return reader.line_num


def write_columns(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns of equal length below their names, compressed if the name ends in .gz."""
    target = Path(path)
    text = io.StringIO(newline="")
    # With the line ends of RFC 4180, because with "\n" a "\r" inside a name would stay unquoted.
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    data = text.getvalue().encode()
    # With a fixed time stamp, equal traces give equal files.
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
