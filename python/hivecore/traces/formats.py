"""The formats by name, and `load`, which reads files of one format into one trace."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hivecore._arguments import LONGEST, as_choice
from hivecore.traces import alibaba, philly_json, swf
from hivecore.traces._part import Part, dropped_jobs, stem
from hivecore.traces._table import line_of, read_text
from hivecore.traces.errors import TraceFormatError
from hivecore.traces.layouts import LAYOUTS
from hivecore.traces.trace import Trace

__all__ = ["FORMATS", "load"]

_READERS: dict[str, Callable[[Path], Part]] = {
    "philly": LAYOUTS["philly"].read,
    "itp": LAYOUTS["itp"].read,
    "muri": LAYOUTS["muri"].read,
    "swf": swf.read,
    "csv": LAYOUTS["csv"].read,
    "philly-json": philly_json.read,
    "helios": LAYOUTS["helios"].read,
    "alibaba-2020": alibaba.read_2020,
    "alibaba-2025": alibaba.read_2025,
    "alibaba-2026-spot": alibaba.read_2026_spot,
}
#: The column with the jobs' names, if not "job_id"; "" if a line is not a single job.
_NAMES = {
    "philly-json": "",
    "alibaba-2020": "",
    "alibaba-2025": "instance_sn",
    "alibaba-2026-spot": "job_name",
}

#: The formats of `load`.
FORMATS: tuple[str, ...] = tuple(_READERS)


def _check_times(parts: Sequence[Part], files: Sequence[Path], format: str) -> None:
    first = min((float(part.submit.min()) for part in parts if len(part.submit)), default=0.0)
    for part, file in zip(parts, files, strict=True):
        for times, problem in (
            (part.duration, "runs for {:g} s"),
            (part.submit - first, "is submitted {:g} s after the first job"),
        ):
            late = np.flatnonzero(times > LONGEST)
            if len(late):
                job = str(part.job_id[late[0]])
                said = problem.format(times[late[0]])
                raise TraceFormatError(
                    f"job {job!r} {said}, at most 2**40 s are allowed",
                    file,
                    _line_of_job(file, job, format),
                )


def _line_of_job(file: Path, job: str, format: str) -> int | None:
    """Return the first line with this job; philly jobs are numbered, others have names."""
    if format == "swf":
        return swf.line_of_job(file, job)
    name = _NAMES.get(format, "job_id")
    if not name:
        return None
    text = read_text(file)
    if format == "philly":
        return line_of(text, int(job))
    reader = csv.reader(io.StringIO(text, newline=""))
    column: int | None = None
    for row in filter(None, reader):
        if column is None:
            column = list(map(str.strip, row)).index(name)
        elif row[column] == job:
            return reader.line_num
    return None


def load(paths: str | Path | Sequence[str | Path], format: str) -> Trace:
    r"""Return the jobs of one or more trace files as one trace.

    :param paths: a file or several; a name that ends in .gz is unpacked.
    :param format: one of `FORMATS`: "philly", "itp", "muri", "swf", "csv", "philly-json", "helios",
        "alibaba-2020", "alibaba-2025" or "alibaba-2026-spot"; `layouts` and the modules of these
        names describe the columns, and which one is the tenant. In "itp" and "muri" each file is
        one tenant, named like the file; in the others equal names are one.
    :raises ValueError: an unknown format, no file, or two one-tenant files of one name.
    :raises OSError: a file cannot be read.
    :raises TraceFormatError: a file that does not follow its format, with its line and field.

    Jobs that were submitted at the same time stay in the order of the files and of their lines.
    A job without a duration or without GPUs (the field is empty, says "None" or the like, or is 0
    or negative) is dropped and counted in `Trace.dropped`. A duration or a number of GPUs that is
    another text, any other field that is missing or negative, and a line with too few fields are
    errors. Cost: O(jobs log jobs), and about 2 us per job.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "east.csv"
    ...     lines = ["job_id,submission_time,duration,num_gpu", "a,100,60,8", "b,160,0,1"]
    ...     _ = file.write_text("\n".join(lines))
    ...     trace = load(file, "itp")
    >>> trace.tenants, trace.jobs, trace.gpus.tolist(), trace.dropped
    (('east',), 1, [8], {'zero duration': 1})
    """
    as_choice(format, "format", FORMATS)
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not files:
        raise ValueError("paths must name at least one file")
    if format in LAYOUTS and LAYOUTS[format].tenant is None:
        name, times = Counter(map(stem, files)).most_common(1)[0]
        if times > 1:
            raise ValueError(f"{times} files are named {name!r}, and the name is the tenant")

    parts = [_READERS[format](file) for file in files]
    _check_times(parts, files, format)
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    try:
        return Trace.from_columns(
            np.concatenate([part.job_id for part in parts]),
            [name for part in parts for name in part.tenant],
            np.concatenate([part.submit for part in parts]),
            np.concatenate([part.duration for part in parts]),
            np.concatenate([part.gpus for part in parts]),
            dropped,
        )
    except ValueError as error:
        problem = f"{error}{dropped_jobs(dropped)}"
        raise TraceFormatError(problem, ", ".join(map(str, files))) from error
