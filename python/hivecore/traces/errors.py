"""The loaders' only error; it names the file, and the line and field if known."""

from pathlib import Path
from typing import Self

from hivecore.errors import HivecoreError

__all__ = ["TraceFormatError"]


class TraceFormatError(HivecoreError, ValueError):
    """A trace file does not follow its format.

    :param problem: what is wrong, as half a sentence.
    :param path: the file.
    :param line: counted from 1; None for the whole file.
    :param field: the column's name; None for the whole line.

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
        # So that it can be unpickled from worker processes; the default would only pass the
        # message.
        return type(self), (self.problem, self.path, self.line, self.field)
