"""GPUs in Slurm's texts of generic resources: of squeue, sinfo, scontrol, sacct, and of options.

A text has parts such as "gpu:8", "gres/gpu:a100=4" or "gpu:1g.5gb:2(IDX:0,3)", with commas between
them. The name of a type may begin with a digit and hold any character but these separators; the
last word of a part is the count if it is a number, with K for 1024 and so on.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from hivecore.interop.slurm.hostlists import expand_hostlist

__all__ = ["Gpus", "count_of", "gpus_of", "split_gres"]

_PART = re.compile(r"(?:gres[:/])?gpu((?:[:=][^:=,()]+){0,3})(?:\(([^()]*)\))?")
_COUNT = re.compile(r"(\d{1,9})([kmgtp]?)", re.IGNORECASE)
_INDICES = re.compile(r"IDX:([0-9,-]+)")


class Gpus(NamedTuple):
    """GPUs of a type.

    :param type: "": any.
    :param number: how many; ``None``: the text has no count, which means 1.
    :param indices: those on a node, where the text has them.
    :param is_sum: whether it stands for GPUs of all types, as in "gres/gpu=4,gres/gpu:a100=4".
    """

    type: str
    number: int | None
    indices: tuple[int, ...] = ()
    is_sum: bool = False


def split_gres(text: str) -> list[str]:
    """The parts of a text; commas in brackets are no separators."""
    return [part for part in re.split(r",(?![^(]*\))", text.strip()) if part]


def gpus_of(text: str) -> list[Gpus]:
    """The GPUs in a text, in its order."""
    matches = map(_PART.fullmatch, split_gres(text))
    return [_gpus(match[1], match[2] or "") for match in matches if match]


def _gpus(words: str, more: str) -> Gpus:
    names = [word for word in re.split("[:=]", words)[1:] if word != "no_consume"]
    last = _COUNT.fullmatch(names[-1]) if names else None
    number = None
    if last:
        names.pop()
        number = int(last[1]) * 1024 ** " kmgtp".index(last[2].lower() or " ")
    listed = _INDICES.search(more)
    indices = tuple(map(int, expand_hostlist(f"[{listed[1]}]"))) if listed else ()
    return Gpus(":".join(names), number, indices, "=" in words and not names)


def count_of(gpus: Iterable[Gpus]) -> int:
    """How many GPUs these are; a sum over types and the types themselves count once."""
    counts = [(each.is_sum, 1 if each.number is None else each.number) for each in gpus]
    sums = sum(count for is_sum, count in counts if is_sum)
    return max(sums, sum(count for is_sum, count in counts if not is_sum))
