"""Reads the values of a scheduler's file, and collects its mistakes."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from hivecore.errors import HivecoreError
from hivecore.interop.koordinator.quotas.amounts import in_units, written_weight
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import ConfigError, Place, Problems
from hivecore.interop.scheduler_file._lines import line_at, lines_of
from hivecore.interop.slurm import expand_hostlist

__all__ = ["Reader"]

_Made = TypeVar("_Made")
_SAID = re.compile(r"is no YAML: line ([0-9]+)")


class Reader(Problems):
    """Reads the values of a file; after a mistake it returns a harmless value.

    :param text: of the file.
    :param name: of the file; files that it names are relative to it.
    """

    def __init__(self, text: str, name: str) -> None:
        super().__init__()
        self._text, self._name = text, name
        self._elsewhere: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        """Allowed, but perhaps not intended."""
        #: whether all nodes were read; otherwise other parts are not checked against them
        self.knows_nodes = True

    # --- mistakes

    @property
    def mistakes(self) -> int:
        """The number of mistakes so far."""
        return len(self.found) + len(self._elsewhere)

    def raise_if_any(self) -> None:
        """Raise all mistakes as one `ConfigError`, each with file and line."""
        if self.mistakes:
            raise ConfigError([*located(self.found, self._text, self._name), *self._elsewhere])

    def build(self, place: Place, make: Callable[[], _Made]) -> _Made | None:
        """Call ``make``; its error becomes a mistake at this place, and the result None."""
        try:
            return make()
        except (HivecoreError, KeyError, TypeError, ValueError) as error:
            self.add(place, str(error.args[0] if error.args else error))
            return None

    # --- values

    def keys(self, value: Any, place: Place, known: Collection[str]) -> Mapping[str, Any]:
        """Return the mapping; a key other than these is a mistake."""
        fields = self.mapping(value, place)
        for key in fields:
            if key not in known:
                self.add((place, key), f"is none of {', '.join(known)}")
        return fields

    def choice(self, value: Any, place: Place, allowed: Sequence[str]) -> str:
        """Return one of these words; the first if the value is missing."""
        if value is None:
            return allowed[0]
        if value not in allowed:
            self.add(place, f"must be one of {', '.join(allowed)}, not {show(value)}")
            return allowed[0]
        return str(value)

    def flag(self, value: Any, place: Place, default: bool = False) -> bool:
        """Return true or false; the default if the value is missing."""
        return default if value is None else super().flag(value, place)

    def number(self, value: Any, place: Place, default: float | None = None) -> float:
        """Return a number that is not negative."""
        if value is None and default is not None:
            return default
        try:
            if isinstance(value, str) and 0.0 <= (number := float(value)) < inf:
                return number
        except ValueError:
            pass
        self.add(place, f"must be a number that is not negative, not {show(value)}")
        return 1.0

    def integer(self, value: Any, place: Place, low: int, high: int, default: int) -> int:
        """Return an integer within these limits."""
        number = default if value is None else Problems().count(value, place, low)
        if number is not None and number <= high:
            return number
        self.add(place, f"must be an integer from {low} to {high}, not {show(value)}")
        return default

    def amounts(self, value: Any, place: Place, *, rounded: bool = True) -> dict[str, int]:
        """Return quantities by resource: thousandths of a core for cpu, whole units of others.

        :param rounded: whether fractions are rounded up; otherwise they are mistakes.
        """
        amounts = {}
        for name, entry, at in self.named(value, place):
            path = self.path(at)
            try:
                field = Field(entry, path)
                amounts[name] = (
                    in_units(name, field.exactly()) if rounded else written_weight(name, field)
                )
            except (TypeError, ValueError) as error:
                self.add(at, str(error).removeprefix(path).removeprefix(":").strip())
        return amounts

    def hosts(self, value: Any, place: Place) -> tuple[str, ...]:
        """Return the names in a pattern such as node[000-127]."""
        text = self.name(value, place)
        hosts = None if text is None else self.build(place, lambda: expand_hostlist(text))
        return hosts or ()

    # --- other files

    def file(self, value: Any, place: Place) -> tuple[Path, str] | None:
        """Return a named file's path and text; None if it cannot be read."""
        name = self.name(value, place)
        if name is None:
            return None
        path = Path(self._name).parent / name
        try:
            return path, path.read_text("utf-8")
        except OSError as error:
            self.add(place, f"{path}: {error.strerror}")
        except UnicodeDecodeError as error:
            self.add(place, f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}")
        return None

    def add_elsewhere(self, error: ConfigError, text: str, path: Path) -> None:
        """Add the mistakes of another file."""
        self._elsewhere += located(error.problems, text, str(path))


def located(problems: Sequence[tuple[str, str]], text: str, name: str) -> list[tuple[str, str]]:
    """Return mistakes sorted by line, each with "file:line: path" and its message."""
    lines = lines_of(text)
    last = text.count("\n") + 1  # a text that ends too early has its mistake one line behind
    mistakes = []
    for path, message in problems:
        said = _SAID.match(message)
        line = min(int(said[1]), last) if said else line_at(lines, path)
        mistakes.append((line, path, message))
    mistakes.sort(key=lambda mistake: mistake[0])
    return [
        (f"{name}:{line}: {path}" if path else f"{name}:{line}", message)
        for line, path, message in mistakes
    ]
