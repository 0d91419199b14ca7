"""Slurm's hostlist expressions, such as ``node[001-016,020]``: names to text and back.

The names keep their order both ways: ``n[3,1-2]`` is n3, n1, n2, and of several numbers in a name
the last one runs fastest. How many names there are is worked out before any is made.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product
from math import prod

from hivecore._arguments import as_int, as_name, as_text, as_tuple
from hivecore.interop.kubernetes.messages import show

__all__ = ["MOST_HOSTS", "compress_hostlist", "expand_hostlist"]

#: The most names that one expression, or one file, may stand for.
MOST_HOSTS = 2**20

_NAME = re.compile(r"[^\s,\[\]]+")
_PART = re.compile(r"\[[^\[\]]*\]|[^\s,\[\]]+")
_ENTRY = re.compile(r"(?:\[[^\[\]]*\]|[^\s,\[\]])+")
_SEPARATORS = re.compile(r"[\s,]*")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_TOKEN = re.compile(r"[0-9]+|[^0-9]+")
_NUMBER = re.compile(r"[0-9]{1,18}")  # what has more digits is text


def expand_hostlist(text: str, *, most: int = MOST_HOSTS) -> tuple[str, ...]:
    """The names that an expression stands for, in its order; a name that is there twice stays.

    :param text: names and expressions, separated by any run of commas and blanks; a name may have
        several brackets.
    :param most: how many names it may be.
    :raises ValueError: it is no hostlist, a range runs backwards, it stands for too many names, or
        it has a hostlist function, such as ``block{b1}``, which Slurm's controller alone expands.
    :raises TypeError: an argument is of a wrong type.

    Cost: O(names). Source: Slurm, ``hostlist_create``.

    >>> from hivecore.interop.slurm import expand_hostlist
    >>> expand_hostlist("login,node[08-10,020]")
    ('login', 'node08', 'node09', 'node10', 'node020')
    >>> expand_hostlist("a[1-2]b[3-4]")
    ('a1b3', 'a1b4', 'a2b3', 'a2b4')
    """
    given = as_text(text, "text")
    left = as_int(most, "most", 0, 2**31)
    names: list[str] = []
    at = _after_separators(given, 0)
    while at < len(given):
        entry = _ENTRY.match(given, at)
        if entry is None:
            raise _wrong(given, _misplaced(given[at:]))
        if "{" in entry[0]:
            raise _wrong(given, f"{show(entry[0])} is a function, which only Slurm can expand")
        parts = [_ranges(given, part) for part in _PART.findall(entry[0])]
        count = prod(sum(_size(piece) for piece in part) for part in parts)
        if count > left:
            raise _wrong(given, f"it stands for more than the {most:,} names that are allowed")
        left -= count
        names.extend("".join(name) for name in product(*(list(_texts(part)) for part in parts)))
        at = _after_separators(given, entry.end())
        if at == entry.end() < len(given):
            raise _wrong(given, _misplaced(given[at:]))
    return tuple(names)


def _misplaced(rest: str) -> str:
    """What is wrong with the bracket with which a text begins."""
    opened, closed = rest.find("[", 1), rest.find("]")
    if 0 < opened < closed:
        return f"a bracket stands in the bracket of {show(rest)}"
    return f"the bracket of {show(rest)} is not {'closed' if closed else 'opened'}"


def _after_separators(given: str, at: int) -> int:
    separators = _SEPARATORS.match(given, at)
    return separators.end() if separators else at


_Piece = str | tuple[int, int, int]


def _ranges(given: str, part: str) -> list[_Piece]:
    """What may stand in this place of a name: a text, or numbers as (first, last, width)."""
    if not part.startswith("["):
        return [part]
    pieces: list[_Piece] = []
    for piece in part[1:-1].split(","):
        bounds = _RANGE.fullmatch(piece)
        if bounds is None:
            raise _wrong(given, f"{show(piece)} in brackets is no number and no range of numbers")
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last < first:
            raise _wrong(given, f"the range {show(piece)} runs backwards")
        pieces.append((first, last, len(bounds[1])))
    return pieces


def _size(piece: _Piece) -> int:
    return 1 if isinstance(piece, str) else piece[1] - piece[0] + 1


def _texts(part: list[_Piece]) -> Iterator[str]:
    for piece in part:
        if isinstance(piece, str):
            yield piece
        else:
            first, last, width = piece
            yield from (str(number).zfill(width) for number in range(first, last + 1))


def _wrong(given: str, rule: str) -> ValueError:
    return ValueError(f"hostlist {show(given)}: {rule}")


def compress_hostlist(names: Iterable[str]) -> str:
    """Return Slurm's expression for these names, which lists them in the same order.

    :raises ValueError: a name is empty, or has a space, a comma or a bracket in it.
    :raises TypeError: an argument is of a wrong type.

    Names that follow each other and differ in one number share a bracket; those that differ in
    their last number are joined first. No names: "". Cost: O(length of all names x numbers in a
    name).

    >>> from hivecore.interop.slurm import compress_hostlist
    >>> compress_hostlist(["n09", "n10", "n11", "n1", "login"])
    'n[09-11,1],login'
    >>> compress_hostlist(["a1b3", "a1b4", "a2b3", "a2b4"])
    'a[1-2]b[3-4]'
    """
    entries = [_tokens(name) for name in as_tuple(names, "names")]
    deepest = max((len(entry) for entry in entries), default=0)
    for place in range(deepest - 1, -1, -1):
        entries = list(_shared(entries, place))
    return ",".join("".join(entry) for entry in entries)


def _tokens(value: object) -> tuple[str, ...]:
    name = as_name(value, "names")
    if not _NAME.fullmatch(name):
        raise ValueError(f"names: {show(name)} has a space, a comma or a bracket in it")
    return tuple(_TOKEN.findall(name))


def _shared(entries: list[tuple[str, ...]], place: int) -> Iterator[tuple[str, ...]]:
    """Neighbours that differ in this place alone become one entry."""

    def others(entry: tuple[str, ...]) -> object:
        number = len(entry) > place and _NUMBER.fullmatch(entry[place])
        return (entry[:place], entry[place + 1 :]) if number else (entry,)

    for _, group in groupby(entries, key=others):
        alike = list(group)
        if len(alike) == 1 or others(alike[0]) == (alike[0],):
            yield from alike
            continue
        entry = alike[0]
        numbers = ",".join(_runs([each[place] for each in alike]))
        yield *entry[:place], f"[{numbers}]", *entry[place + 1 :]


def _runs(numbers: list[str]) -> Iterator[str]:
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and number == str(int(last) + 1).zfill(len(first)):
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number
