"""The files of a log: the newest has its name, and each older one the number of its first line.

A log is cut into segments by snapshots. Each segment begins with the state of the scheduler at that
time, so it can be run again without those before it; they may be removed, the oldest first. The
beginning of a segment has the number of the last line before it, that line's hash, and how many
actions there had been, so that segments are known to follow one another.
"""

import os
import re
from pathlib import Path
from typing import IO, NamedTuple

__all__ = ["Beginning", "older_segments", "read_beginning", "segment_path"]

_BEGINNING = re.compile(
    rb'\{"n":(\d{1,19}),"event":"begin","version":\d+'
    rb'(?:,"after":"([0-9a-f]{8})","last_action":(\d{1,19}))?,"state":"'
)
_NUMBER = re.compile(r"\d{12,19}")


class Beginning(NamedTuple):
    """What the first line of a segment says before its state.

    :param number: that of the last line before it; 0: it begins the log.
    :param after: the hash of that line; ``None``: there is none.
    :param last_action: the number of the last action before it.
    """

    number: int
    after: int | None
    last_action: int


def read_beginning(file: IO[bytes]) -> Beginning | None:
    """What a segment begins with; ``None``: its first line is damaged. The file is read again."""
    found = _BEGINNING.match(file.read(256))
    file.seek(0)
    if found is None:
        return None
    number, after, last_action = found.groups()
    return Beginning(int(number), None if after is None else int(after, 16), int(last_action or 0))


def segment_path(path: "str | os.PathLike[str]", number: int) -> Path:
    """Where the segment of a log goes that begins with this number, when a newer one begins.

    >>> segment_path("decisions.log", 1500).name
    'decisions.log.000000001500'
    """
    return Path(f"{os.fspath(path)}.{number:012d}")


def older_segments(path: "str | os.PathLike[str]") -> dict[int, Path]:
    """The older segments of a log, by the number that each begins with, in order."""
    newest = Path(path)
    found = {}
    for file in newest.parent.iterdir():
        end = file.name.removeprefix(f"{newest.name}.")
        if end == file.name or not _NUMBER.fullmatch(end):
            continue
        if newest.exists() and file.samefile(newest):
            continue  # a snapshot that a crash has cut short leaves two names of the newest one
        found[int(end)] = file
    return dict(sorted(found.items()))
