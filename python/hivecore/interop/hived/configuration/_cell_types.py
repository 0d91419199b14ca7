"""`cellTypes`: each consists of some cells of one other type; a type without an entry is a leaf.

So a type fixes its whole hierarchy, the *line* from itself down to its leaf. A line that can be
built has at most 16 levels and exactly one of them is the node level.
"""

from dataclasses import dataclass
from typing import Any

from hivecore.interop.hived.configuration._keys import HOMES, OF_CELL_TYPE
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place, Problems

_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Line:
    """The hierarchy that a type stands for, leaf first."""

    levels: tuple[str, ...]
    fanouts: tuple[int, ...]
    node_level: int | None
    """None: the type is a part of a node."""


@dataclass(frozen=True, slots=True)
class _Type:
    child: str | None
    number: int | None
    is_node: bool
    place: Place


def read_cell_types(value: Any, place: Place, problems: Problems) -> dict[str, Line | None]:
    """The line of every type; None where a mistake (which has been reported) leaves none."""
    types: dict[str, _Type] = {}
    for name, entry, at in problems.named(value, place):
        fields = problems.mapping(entry, at)
        if name in HOMES:
            problems.add(at, f"has no meaning here, it belongs to {HOMES[name]}")
        problems.known(fields, OF_CELL_TYPE, at, HOMES)
        if fields.get("childCellType") is None:
            problems.add((at, "childCellType"), "is missing")
            child = None
        else:
            child = problems.name(fields["childCellType"], (at, "childCellType"))
        number = problems.count(fields.get("childCellNumber"), (at, "childCellNumber"))
        is_node = problems.flag(fields.get("isNodeLevel"), (at, "isNodeLevel"))
        types[name] = _Type(child, number, is_node, at)
    lines: dict[str, Line | None] = {}
    for name in types:
        _draw(name, types, lines, problems)
    for kind in types.values():
        if kind.child is not None and kind.child not in types:
            lines[kind.child] = Line((kind.child,), (), None)
    return lines


def _draw(
    name: str, types: dict[str, _Type], lines: dict[str, Line | None], problems: Problems
) -> None:
    """Add the lines of the type and of all below it, those first."""
    way: list[str] = []
    below: str | None = name
    while below in types and below not in lines:
        if below in way:
            circle = way[way.index(below) :]
            problems.add(
                (types[below].place, "childCellType"),
                f"a cell would contain itself: {' > '.join(map(show, [*circle[:8], below]))}",
            )
            lines.update(dict.fromkeys(way))
            return
        way.append(below)
        below = types[below].child
    # A type without an entry is a leaf.
    line = lines.get(below, Line((below,), (), None)) if below is not None else None
    for name in reversed(way):
        line = lines[name] = _above(name, types[name], line, problems)


def _above(name: str, kind: _Type, line: Line | None, problems: Problems) -> Line | None:
    if line is None or kind.number is None:
        return None
    if len(line.levels) == _LEVELS:
        problems.add(kind.place, f"has more than {_LEVELS} levels")
        return None
    node_level = line.node_level
    if kind.is_node:
        if node_level is not None:
            problems.add(
                (kind.place, "isNodeLevel"),
                f"{show(line.levels[node_level])} in it is a node already: "
                "a hierarchy has one node level",
            )
            return None
        node_level = len(line.levels)
    return Line((*line.levels, name), (*line.fanouts, kind.number), node_level)
