"""On which NUMA nodes Koordinator lets a pod run: hints of devices, and how it merges all hints.

Its device plugin tries every set of NUMA nodes. Its topology manager (at commit a7a1b76b) walks
through all combinations of a hint of each resource, and replaces the best so far by each later one
of as many NUMA nodes that has a higher score or lower ones. So the order of hints counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from peers.koordinator_devices import TYPES, Charges, Refusal, demands_of, place

from hivecore.devices import DeviceRequest
from hivecore.reference.devices.node_state import NodeState

SAME_GPUS = 500  # more than any score of processors


class Hint(NamedTuple):
    numas: tuple[int, ...]
    preferred: bool
    score: int


class Merged(NamedTuple):
    numas: frozenset[int]
    preferred: bool
    satisfied: bool  # these are all that the widest hint names
    score: int


def numa_hints(state: NodeState, request: DeviceRequest) -> list[Hint] | Refusal:
    """The sets that serve the request; the refusal of the whole machine if that does not."""
    devices = [device for type in TYPES for device in state.devices.get(type, {}).values()]
    numas = sorted({device.numa for device in devices if device.numa not in (None, -1)})
    demands = demands_of(state, request)
    feasible: dict[tuple[int, ...], set[int]] = {}
    answer: Charges | Refusal = ()
    for mask in (mask for size in range(len(numas)) for mask in combinations(numas, size + 1)):
        if isinstance(demands, Refusal):
            return demands
        inside = [device.type for device in devices if device.numa in mask]
        answer = Refusal("insufficient_numa", False)
        if not any(0 < inside.count(type) < demands[type].count for type in demands):
            answer = place(state, request, numa=mask)
        if not isinstance(answer, Refusal):
            feasible[mask] = {charge.minor for charge in answer if charge.type == "gpu"}
    if isinstance(answer, Refusal):
        return answer
    least = min(map(len, feasible), default=0)
    return [
        Hint(mask, len(mask) == least, SAME_GPUS if gpus == feasible[tuple(numas)] else 0)
        for mask, gpus in feasible.items()
    ]


def merge_hints(
    numas: Iterable[int],
    resources: Iterable[Sequence[Hint] | None],
    policy: str,
    kinds: Mapping[int, str] | None = None,
) -> tuple[tuple[int, ...] | None, bool]:
    """The NUMA nodes, `None`: any, and whether the policy admits the pod.

    :param resources: hints of each; `None`: the resource does not care; empty: it has no way.
    :param kinds: which NUMA nodes have pods of one node ("single") or of several ("shared"), for a
        pod that must be with its own kind.
    """
    everywhere, single = frozenset(numas), policy == "single-numa-node"
    lists = [None if hints is None else list(hints) for hints in resources]
    if policy != "best-effort" and [] in lists:
        return (None if single else tuple(sorted(everywhere))), False
    if single:
        lists = [
            hints and [hint for hint in hints if len(hint.numas) == 1 and hint.preferred]
            for hints in lists
        ]
    no_way = [] if single else [Hint((), False, 0)]
    best = Merged(everywhere, False, True, 0)
    for some in product(*([None] if hints is None else hints or no_way for hints in lists)):
        merged = _merged(everywhere, [hint for hint in some if hint is not None])
        wrong = "single" if len(merged.numas) > 1 else "shared"
        if any((kinds or {}).get(numa) == wrong for numa in merged.numas):
            merged = merged._replace(preferred=False)
        if merged.numas and _replaces(merged, best):
            best = merged
    if policy == "best-effort":
        return tuple(sorted(best.numas if best.satisfied else everywhere)), True
    is_any = single and best.numas == everywhere
    return (None if is_any else tuple(sorted(best.numas))), best.preferred


def _merged(everywhere: frozenset[int], hints: Collection[Hint]) -> Merged:
    sets = [frozenset(hint.numas) for hint in hints if hint.numas]
    common = everywhere.intersection(*sets)
    return Merged(
        common,
        all(hint.preferred for hint in hints) and len(set(sets)) <= 1,
        len(sets) == len(hints) and len(common) == max(map(len, sets), default=len(common)),
        sum(hint.score for hint in hints if hint.numas and set(hint.numas) == common),
    )


def _replaces(merged: Merged, best: Merged) -> bool:
    if merged.preferred != best.preferred:
        return merged.preferred
    if len(merged.numas) != len(best.numas):
        return len(merged.numas) < len(best.numas)
    bits, of_best = (sum(1 << numa for numa in entry.numas) for entry in (merged, best))
    return bits < of_best or merged.score > best.score
