"""Host lists: many names in a few characters, such as node[001-016,020]."""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from hivecore._arguments import as_int, as_name, as_text, as_tuple

__all__ = ["expand_hostlist", "fold_hostlist"]

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


def expand_hostlist(text: str, most: int = 1_000_000) -> list[str]:
    """The names that a host list stands for, in its order.

    :param text: names and names with ranges in brackets, separated by commas; several brackets in
        one name stand for all combinations. Leading zeros are kept.
    :param most: how many names are allowed.
    :raises ValueError: it is no host list, or stands for more names.
    :raises TypeError: ``text`` is no string.

    >>> from hivecore.interop.slurm import expand_hostlist
    >>> expand_hostlist("n[08-10,2],login,r[1-2]s[1-2]")
    ['n08', 'n09', 'n10', 'n2', 'login', 'r1s1', 'r1s2', 'r2s1', 'r2s2']
    """
    given, limit = as_text(text, "text"), as_int(most, "most", 1, 10**9)
    found: list[str] = []
    for part in _parts(given):
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        if not part or any("[" in piece or "]" in piece for piece in pieces):
            raise ValueError(f"text: {part!r} is no host name or range")
        ranges = [_bounds(inside, part) for inside in pieces[1::2]]
        size = 1
        for some in ranges:
            size *= sum(last - first + 1 for first, last, _ in some)
        if size + len(found) > limit:
            raise ValueError(f"text: stands for more than {limit} names")
        numbers = [list(_numbers(some)) for some in ranges]
        for chosen in product(*numbers):
            middle = "".join(a + b for a, b in zip(pieces[::2], (*chosen, ""), strict=True))
            found.append(middle)
    return found


def _parts(text: str) -> list[str]:
    """What commas outside of brackets separate."""
    if not text:
        return []
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _bounds(inside: str, part: str) -> list[tuple[int, int, int]]:
    found = []
    for one in inside.split(","):
        match = _RANGE.fullmatch(one)
        if match is None:
            raise ValueError(f"text: {one!r} in {part!r} is no range of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"text: {one!r} in {part!r} goes down")
        found.append((int(first), int(last), len(first)))
    return found


def _numbers(bounds: list[tuple[int, int, int]]) -> Iterator[str]:
    for first, last, width in bounds:
        for number in range(first, last + 1):
            yield f"{number:0{width}}"


def fold_hostlist(names: Iterable[str]) -> str:
    """A host list that stands for these names, in this order.

    :param names: without commas and brackets.
    :raises ValueError: a name is empty or has a comma or a bracket.
    :raises TypeError: one is no string.

    >>> from hivecore.interop.slurm import fold_hostlist
    >>> fold_hostlist(["n08", "n09", "n10", "n2", "login"])
    'n[08-10,2],login'
    """
    folded: list[tuple[str, list[list[str]]]] = []
    for name in as_tuple(names, "names"):
        if re.search(r"[\[\],]", as_name(name, "names")):
            raise ValueError(f"names: {name!r} has a comma or a bracket")
        match = _NUMBERED.fullmatch(name)
        stem, number = (match[1], match[2]) if match else (name, "")
        if not number or not folded or folded[-1][0] != stem or not folded[-1][1]:
            folded.append((stem, [[number, number]] if number else []))
            continue
        last = folded[-1][1][-1]
        if number == f"{int(last[1]) + 1:0{len(last[0])}}":
            last[1] = number
        else:
            folded[-1][1].append([number, number])
    return ",".join(_folded(stem, ranges) for stem, ranges in folded)


def _folded(stem: str, ranges: list[list[str]]) -> str:
    if not ranges:
        return stem
    parts = [first if first == last else f"{first}-{last}" for first, last in ranges]
    inside = ",".join(parts)
    return f"{stem}[{inside}]" if "-" in inside or "," in inside else f"{stem}{inside}"
