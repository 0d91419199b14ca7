"""Maps the paths in messages to the lines of a YAML text.

The text is read as a stream of events with an explicit stack, so that deep nesting is no problem.
This happens only to report a mistake; in a damaged text, the part before the damage counts.
"""

import re
from collections.abc import Iterator
from typing import Any

from hivecore.interop.kubernetes.problems import Place, Problems

__all__ = ["first_keys", "line_at", "lines_of"]

_LAST = re.compile(r"(?:\.?[\w-]+|\[[^\[\]]*\])$")


def lines_of(text: str) -> dict[str, int]:
    r"""Return path -> line, counted from 1.

    >>> lines_of("a:\n  b: [1,\n    2]")
    {'': 1, 'a': 1, 'a.b': 2, 'a.b[0]': 2, 'a.b[1]': 3}
    """
    return {Problems.path(place): line for place, line in _places(text)}


def line_at(lines: dict[str, int], path: str) -> int:
    """Return the line of a path, or of its nearest parent that exists.

    >>> line_at({"": 1, "a": 4}, "a.b[3].c"), line_at({"": 1}, "a")
    (4, 1)
    """
    while path and path not in lines:
        shorter = _LAST.sub("", path)
        path = "" if shorter == path else shorter
    return lines.get(path, 1)


def first_keys(text: str) -> Iterator[str]:
    r"""Yield the top-level keys of the document.

    >>> list(first_keys("a: {b: 1}\nc: 2"))
    ['a', 'c']
    """
    for place, _ in _places(text):
        if place is not None and place[0] is None and isinstance(place[1], str):
            yield place[1]


def _places(text: str) -> Iterator[tuple[Place, int]]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    stack: list[_Open] = []
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                place = stack[-1].next_place(event) if stack else None
                if not stack or stack[-1].tells:
                    yield place, line
                if isinstance(event, yaml.CollectionStartEvent):
                    stack.append(_Open(place, isinstance(event, yaml.SequenceStartEvent)))
    except (yaml.YAMLError, UnicodeError):
        return


class _Open:
    """A list or mapping that is not closed yet."""

    def __init__(self, place: Place, is_list: bool) -> None:
        self.place = place
        self.number = -1 if is_list else None
        self.key: Any = None
        #: whether the last event has a line of its own; a value has its key's
        self.tells = is_list

    def next_place(self, event: Any) -> Place:
        """Return the path of the current event."""
        if self.number is not None:
            self.number += 1
            return self.place, self.number
        self.tells = not self.tells
        if self.tells:
            self.key = getattr(event, "value", None)
        return self.place, self.key
