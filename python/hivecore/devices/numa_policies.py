"""On which NUMA nodes a pod goes, by the hints of all that give it something.

A combination has one hint of each resource, and means the NUMA nodes that its hints have in common.
There are as many as the product of the numbers of hints, but none is looked at by itself:

- A combination that is preferred has the same set in all of its hints, so the sets that all
  resources prefer are all that there are.
- Where there is none, the sets count that combinations have in common. How many combinations have
  a set *within* what they have in common is a product over the resources: of how many hints of each
  contain it. By inclusion and exclusion that tells how many have exactly this set in common, which
  is all that matters; so the work is that of all sets of NUMA nodes, for each resource.

A set of NUMA nodes is an int, with a bit for each of the machine's in ascending order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from hivecore._arguments import as_choice, as_int, as_mapping, as_text, as_tuple, tuple_of
from hivecore._record import Record
from hivecore.devices.numa_hints import MOST_NUMA_NODES, NumaHint

__all__ = ["NumaKind", "NumaMerge", "NumaPolicy", "merge_numa_hints"]

NumaPolicy = Literal["best-effort", "restricted", "single-numa-node"]
NumaKind = Literal["single", "shared"]


class _Hint(NamedTuple):
    nodes: int
    preferred: bool
    score: int


class NumaMerge(Record, frozen=True):
    """What `merge_numa_hints` has found.

    :param nodes: the NUMA nodes to use, ascending; ``None``: any.
    :param admitted: whether the policy lets the pod run on this machine. If not, ``nodes`` are the
        nearest that there is to it.
    """

    nodes: tuple[int, ...] | None
    admitted: bool


def merge_numa_hints(
    nodes: Iterable[int],
    resources: Mapping[str, Iterable[NumaHint] | None],
    policy: NumaPolicy,
    *,
    kinds: Mapping[int, NumaKind] | None = None,
) -> NumaMerge:
    """Which NUMA nodes a pod should use for all of its resources, and whether it may run at all.

    :param nodes: all NUMA nodes of the machine, 1 to 12 of them, each 0 to 2**31 - 1.
    :param resources: the hints of each resource, by any names: ``DeviceCluster.numa_hints`` gives
        those of devices. ``None``: it does not matter to this resource; empty: there is no way.
    :param policy: "best-effort": every pod is admitted; it gets the best NUMA nodes if each
        resource has a hint for just these, else any. "restricted": only if all resources prefer
        the same NUMA nodes. "single-numa-node": only if that is one NUMA node.
    :param kinds: for a pod that is not to share NUMA nodes with pods of the other kind: which have
        pods of one NUMA node ("single"), which have pods of several ("shared"); others are idle.
        Sets that it would share are not preferred; "best-effort" admits it to them all the same.
        ``None``: it may share them.
    :raises ValueError: there is no such policy or kind, there are no NUMA nodes or more than 12, or
        a hint or a kind is of one that the machine does not have.
    :raises TypeError: an argument is of a wrong type.

    A set of NUMA nodes counts if it is what some hints, one of each resource, have in common. The
    best is one that all of these hints name and prefer (and where, by ``kinds``, the pod may be);
    then one of the fewest NUMA nodes; then of the highest sum of the scores of the hints that name
    it; then the lowest, by the highest NUMA node in which two differ: (1, 2) before (0, 3).

    Koordinator differs in ties: of sets of as many NUMA nodes it takes each later one of a higher
    score *or* of lower NUMA nodes, so the order of the hints counts, and that of the resources,
    which it walks through at random. It admits the same pods; it gives them the same NUMA nodes if
    each resource lists small sets first and no hint has a score, or each lists small sets and among
    them low ones first and there are some that all prefer. Where the result is all NUMA nodes,
    ``nodes`` is ``None`` here; in Koordinator only for "single-numa-node".

    Cost: O(hints); if none are preferred by all, O(resources * nodes * 2**nodes). Source:
    Koordinator, pkg/scheduler/frameworkext/topologymanager at commit a7a1b76b; kubelet's topology
    manager has the same policies.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
    >>> from hivecore.devices import NumaHint, merge_numa_hints
    >>> cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=8, sockets=2, switches=4)})
    >>> request = DeviceRequest("train", gpus=2)
    >>> processors = [NumaHint((1,), True), NumaHint((0, 1), False)]  # 0 is full
    >>> hints = {"devices": cluster.numa_hints(request, "n"), "processors": processors}
    >>> merged = merge_numa_hints([0, 1], hints, "single-numa-node")
    >>> merged
    NumaMerge(nodes=(1,), admitted=True)
    >>> [gpu.minor for gpu in cluster.allocate(request, "n", numa=merged.nodes).placement]
    [4, 5]
    """
    numbers = sorted({as_int(node, "nodes", 0, 2**31 - 1) for node in as_tuple(nodes, "nodes")})
    if not 1 <= len(numbers) <= MOST_NUMA_NODES:
        raise ValueError(f"nodes: {len(numbers)} are given, allowed are 1 to {MOST_NUMA_NODES}")
    bits = {number: 1 << place for place, number in enumerate(numbers)}
    hints = _checked_hints(resources, bits)
    named = as_choice(policy, "policy", get_args(NumaPolicy))
    used = None if kinds is None else _checked_kinds(kinds, bits)

    everywhere = (1 << len(numbers)) - 1
    best, preferred = _best_set(everywhere, hints, named, used)
    if best == everywhere:
        return NumaMerge(None, preferred or named == "best-effort")
    chosen = tuple([number for number in numbers if bits[number] & best])
    return NumaMerge(chosen, preferred or named == "best-effort")


def _checked_hints(resources: object, bits: Mapping[int, int]) -> list[list[_Hint]]:
    """The hints of those resources that have a say."""
    checked = []
    for name, given in as_mapping(resources, "resources").items():
        argument = f"resources[{as_text(name, 'resources')!r}]"
        if given is None:
            continue
        hints = tuple_of(given, argument, NumaHint)
        checked.append(
            [
                _Hint(
                    sum([_bit(number, argument, bits) for number in hint.nodes]),
                    hint.preferred,
                    hint.score,
                )
                for hint in hints
            ]
        )
    return checked


def _checked_kinds(kinds: object, bits: Mapping[int, int]) -> dict[str, int]:
    """The NUMA nodes of each kind."""
    nodes_of = {"single": 0, "shared": 0}
    for given, kind in as_mapping(kinds, "kinds").items():
        number = as_int(given, "kinds", 0, 2**31 - 1)
        bit = _bit(number, "kinds", bits)
        nodes_of[as_choice(kind, f"kinds[{number}]", get_args(NumaKind))] |= bit
    return nodes_of


def _bit(number: int, argument: str, bits: Mapping[int, int]) -> int:
    if number not in bits:
        known = ", ".join(map(str, bits))
        raise ValueError(f"{argument}: {number} is none of the machine's NUMA nodes, {known}")
    return bits[number]


def _best_set(
    everywhere: int, resources: list[list[_Hint]], policy: str, used: Mapping[str, int] | None
) -> tuple[int, bool]:
    """The best set, all NUMA nodes if there is none, and whether all prefer it."""
    if not all(resources):
        return everywhere, False
    if policy == "single-numa-node":
        resources = [
            [hint for hint in hints if hint.preferred and hint.nodes.bit_count() == 1]
            for hints in resources
        ]
    scores = [_scores(hint for hint in hints if hint.preferred) for hints in resources]
    agreed = set(scores[0]).intersection(*scores[1:]) if scores else {everywhere}
    allowed = [nodes for nodes in agreed if used is None or _may_be(nodes, used)]
    if allowed:
        return _first(allowed, scores), True
    scores = [_scores(hints) for hints in resources]
    best = _first([everywhere, *_in_common(scores, everywhere)], scores)
    if policy == "best-effort" and not all(best in scored for scored in scores):
        best = everywhere
    return best, False


def _scores(hints: Iterable[_Hint]) -> dict[int, int]:
    """Each set that is named, with the highest score that it has."""
    scores: dict[int, int] = {}
    for hint in hints:
        scores[hint.nodes] = max(hint.score, scores.get(hint.nodes, 0))
    return scores


def _may_be(nodes: int, used: Mapping[str, int]) -> bool:
    """Whether a pod on these NUMA nodes is alone with those of its kind."""
    return not nodes & used["shared" if nodes.bit_count() == 1 else "single"]


def _first(sets: Iterable[int], scores: Collection[Mapping[int, int]]) -> int:
    """The best of sets that are preferred alike."""
    return min(
        sets,
        key=lambda nodes: (
            nodes.bit_count(),
            -sum([scored.get(nodes, 0) for scored in scores]),
            nodes,
        ),
    )


def _in_common(resources: Iterable[Iterable[int]], everywhere: int) -> list[int]:
    """The sets, none empty, that hints have in common, one of each resource."""
    ways = [1] * (everywhere + 1)  # in how many combinations all hints contain the set
    for named in resources:
        containing = [0] * (everywhere + 1)
        for nodes in named:
            containing[nodes] = 1
        for smaller, larger in _steps(everywhere):
            containing[smaller] += containing[larger]
        ways = [a * b for a, b in zip(ways, containing, strict=True)]
    for smaller, larger in _steps(everywhere):
        ways[smaller] -= ways[larger]  # in how many they have just the set in common
    return [nodes for nodes in range(1, everywhere + 1) if ways[nodes]]


def _steps(everywhere: int) -> Iterator[tuple[int, int]]:
    """Each set with the one of one NUMA node more, NUMA node by NUMA node."""
    for place in range(everywhere.bit_length()):
        bit = 1 << place
        for nodes in range(everywhere + 1):
            if not nodes & bit:
                yield nodes, nodes | bit
