"""Constraints of jobs on the features of nodes, as of ``sbatch --constraint``."""

import re
from collections.abc import Collection, Iterator

from hivecore.interop.kubernetes.messages import show

__all__ = ["has_features"]

_WORD = re.compile(r"[^\s&|()\[\],*]+|[&|()]")


def has_features(constraint: str, features: Collection[str], *, alone: bool = True) -> bool:
    """Whether a node with these features satisfies a constraint.

    :param constraint: features with "&", "|" and brackets; "": none. "&" binds as "|" does, from
        left to right, as in Slurm.
    :param alone: whether the job has one node. Then "[a|b]" means the same as "(a|b)"; of several
        nodes it demands that all have the same of these features.
    :raises ValueError: the constraint counts nodes, demands something of several nodes together,
        or is no constraint.
    """
    text = constraint.replace(",", "&")
    if "*" in text or ("[" in text and not alone):
        raise ValueError(f"constraint={show(constraint)}: is on all nodes of a job together")
    text = text.replace("[", "(").replace("]", ")")
    if re.sub(_WORD, "", text).strip():
        raise ValueError(f"constraint={show(constraint)}: is no constraint")
    words = iter([*_WORD.findall(text), ""])
    if not text:
        return True
    value, last = _read(words, frozenset(features))
    if value is None or last:
        raise ValueError(f"constraint={show(constraint)}: is no constraint")
    return value


def _read(words: Iterator[str], features: frozenset[str]) -> tuple[bool | None, str]:
    """The value up to a bracket or the end, and which of them; no value: it cannot be read."""
    value, sign = False, "|"
    while True:
        word = next(words)
        part: bool | None = word in features
        if word == "(":
            part, end = _read(words, features)
            if end != ")":
                return None, end
        if part is None or word in ("", "&", "|", ")"):
            return None, ""
        value = value and part if sign == "&" else value or part
        sign = next(words)
        if sign not in ("&", "|"):
            return value, sign
