"""The one error of the loaders: it names the file, and line and field where there is one."""

from pathlib import Path
from typing import Self

from hivecore.errors import HivecoreError

__all__ = ["TraceFormatError"]


class TraceFormatError(HivecoreError, ValueError):
    """A trace file that does not follow its format.

    :param problem: what is wrong, as half a sentence.
    :param path: the file.
    :param line: its line, counted from 1, or None where the whole file is meant.
    :param field: the column's name, or None where the whole line is meant.

    >>> print(TraceFormatError("'two' is not a whole number", "jobs.csv", 7, "gpus"))
    jobs.csv:7: field 'gpus': 'two' is not a whole number
    """

    def __init__(
        self,
        problem: str,
        path: str | Path,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {'' if field is None else f'field {field!r}: '}{problem}")
        self.problem = problem
        self.path = Path(path)
        self.line = line
        self.field = field

    def __reduce__(self) -> tuple[type[Self], tuple[str, Path, int | None, str | None]]:
        # Exceptions come home from worker processes; the default would pass the message only.
        return type(self), (self.problem, self.path, self.line, self.field)
