"""On which NUMA nodes a pod goes, by the hints of all who give it something (section 1.13).

One hint of each resource is taken, in all combinations. A combination means the NUMA nodes that its
hints have in common; it is satisfied if these are all that its widest hint asks, and preferred if
its hints are, and are equal. Of the combinations the preferred ones win, then those of fewer NUMA
nodes, of lower ones; a later one of as many nodes with a higher score wins, too, so among those the
order of the hints counts.

Source: Koordinator, pkg/scheduler/frameworkext/topologymanager at commit a7a1b76b.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from hivecore.reference.devices.koordinator.numa_hints import NumaHint

__all__ = ["merge_hints"]


class _Merged(NamedTuple):
    numas: frozenset[int]
    preferred: bool
    satisfied: bool
    score: int

    @property
    def width(self) -> tuple[int, int]:
        return len(self.numas), sum(1 << numa for numa in self.numas)


def merge_hints(
    numas: Iterable[int],
    resources: Iterable[Sequence[NumaHint] | None],
    policy: str,
    kinds: Mapping[int, str] | None = None,
) -> tuple[tuple[int, ...] | None, bool]:
    """The NUMA nodes, and whether the policy admits the pod; `None`: any.

    :param numas: those of the machine.
    :param resources: the hints of each resource; `None`: it does not care; empty: there is no way.
    :param policy: "best-effort", "restricted" or "single-numa-node".
    :param kinds: for a pod that demands NUMA nodes of its kind: which of them have pods of one node
        ("single") or of several ("shared"); others are idle.
    """
    everywhere = frozenset(numas)
    lists = [None if hints is None else list(hints) for hints in resources]
    if policy != "best-effort" and any(hints == [] for hints in lists):
        return (tuple(sorted(everywhere)) if policy == "restricted" else None), False
    if policy == "single-numa-node":
        lists = [
            hints and [hint for hint in hints if len(hint.numas) == 1 and hint.preferred]
            for hints in lists
        ]
    best = _best(everywhere, lists, kinds, keep_empty=policy == "single-numa-node")
    if policy == "best-effort":
        return tuple(sorted(best.numas if best.satisfied else everywhere)), True
    if policy == "single-numa-node" and best.numas == everywhere:
        return None, best.preferred
    return tuple(sorted(best.numas)), best.preferred


def _best(
    everywhere: frozenset[int],
    lists: list[list[NumaHint] | None],
    kinds: Mapping[int, str] | None,
    keep_empty: bool,
) -> _Merged:
    best = _Merged(everywhere, False, True, 0)
    # A resource without any way spoils every combination, or leaves none.
    no_way: list[NumaHint | None] = [] if keep_empty else [NumaHint((), False, 0)]
    choices = [[None] if hints is None else hints or no_way for hints in lists]
    for combination in product(*choices):
        merged = _merged(everywhere, combination)
        if not merged.numas:
            continue
        if kinds is not None and not _of_one_kind(merged.numas, kinds):
            merged = merged._replace(preferred=False)
        if merged.preferred != best.preferred:
            better = merged.preferred
        else:
            scored = len(merged.numas) == len(best.numas) and merged.score > best.score
            better = merged.width < best.width or scored
        if better:
            best = merged
    return best


def _merged(everywhere: frozenset[int], combination: Iterable[NumaHint | None]) -> _Merged:
    hints = [hint for hint in combination if hint is not None]
    sets = [frozenset(hint.numas) for hint in hints if hint.numas]
    common = everywhere.intersection(*sets)
    widest = max((len(one) for one in sets), default=len(common))
    return _Merged(
        common,
        preferred=all(hint.preferred for hint in hints) and len(set(sets)) <= 1,
        satisfied=len(common) == widest and all(hint.numas for hint in hints),
        score=sum(hint.score for hint in hints if hint.numas and frozenset(hint.numas) == common),
    )


def _of_one_kind(numas: frozenset[int], kinds: Mapping[int, str]) -> bool:
    """Whether no NUMA node among several has pods of one, nor a single one pods of several."""
    wrong = "single" if len(numas) > 1 else "shared"
    return all(kinds.get(numa) != wrong for numa in numas)
