"""Whose end would let a request start on a node, as few and as unimportant as can be.

On each node owners are thought away by rising priority until the request fits; nobody of a higher
priority has to leave. Among these owners sets are tried in the order of what they hold together, so
the first one without which it fits is the cheapest. If it takes too many tries, owners are taken
back instead, the most important first, without whom it fits as well; then each of those who are
left is needed, though others may hold less. Over the nodes the set is taken whose most important
owner has the lowest priority, then that holds least, then of the lowest node.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from hivecore.devices.device import TYPES

if TYPE_CHECKING:
    from hivecore.devices.device_cluster import DeviceCluster

__all__ = ["Leavers", "cheapest_leavers"]

_MOST_TRIES = 512
_Owner = tuple[int, int, str]  # priority, what it holds, name


class Leavers(NamedTuple):
    """Owners on one node whose end would let a request start there."""

    priority: int
    """The highest of theirs."""
    held: int
    """In hundredths of devices."""
    node: int
    names: tuple[str, ...]
    """Those of low priority first."""


def cheapest_leavers(
    cluster: "DeviceCluster",
    query: Any,
    policy: int,
    nodes: Iterable[int],
    allowed: Collection[str] | None = None,
) -> Leavers | None:
    """The cheapest set on one of the nodes; ``None``: nobody's end would do.

    :param allowed: the only owners who may have to leave; ``None``: all.

    It is the caller's turn.
    """
    return min(_on_each(cluster, query, policy, nodes, allowed), default=None)


def _on_each(
    cluster: "DeviceCluster",
    query: Any,
    policy: int,
    nodes: Iterable[int],
    allowed: Collection[str] | None,
) -> Iterator[Leavers]:
    core = cluster._core
    for node in nodes:
        owners = sorted(
            (cluster._priorities.get(name, 0), _held(core, cluster._owners[name]), name)
            for name in cluster._owners_on(node)
            if allowed is None or name in allowed
        )

        def fits_without(gone: list[_Owner], node: int = node) -> bool:
            numbers = [cluster._owners[name] for _, _, name in gone]
            return bool(core.examine(query, policy, node, None, numbers)[0] == 0)

        if not owners or fits_without([]) or not fits_without(owners):
            continue
        gone = []
        for one in owners:
            gone.append(one)
            if fits_without(gone):
                break
        highest = gone[-1][0]
        among = [one for one in owners if one[0] <= highest]
        found = _lightest(among, fits_without) or _irreducible(gone, fits_without)
        held = sum(one[1] for one in found)
        yield Leavers(highest, held, node, tuple(name for _, _, name in sorted(found)))


def _lightest(among: list[_Owner], fits_without: Callable[[list[_Owner]], bool]) -> list[_Owner]:
    """The set that holds least of those without which it fits; empty: not found in time."""
    by_held = sorted(among, key=lambda one: (one[1], one))
    queue: list[tuple[int, tuple[int, ...]]] = [(by_held[0][1], (0,))]
    for _ in range(_MOST_TRIES):
        if not queue:
            break
        held, chosen = heappop(queue)
        found = [by_held[i] for i in chosen]
        if fits_without(found):
            return found
        last = chosen[-1]
        if last + 1 < len(by_held):
            one, other = by_held[last][1], by_held[last + 1][1]
            heappush(queue, (held + other, (*chosen, last + 1)))
            heappush(queue, (held + other - one, (*chosen[:-1], last + 1)))
    return []


def _irreducible(gone: list[_Owner], fits_without: Callable[[list[_Owner]], bool]) -> list[_Owner]:
    for one in sorted(gone, key=lambda owner: (-owner[0], -owner[1], owner[2])):
        rest = [other for other in gone if other is not one]
        if rest and fits_without(rest):
            gone = rest
    return gone


def _held(core: Any, owner: int) -> int:
    """In hundredths of devices; where a percentage is not known, a device counts as whole."""
    held = 0
    for type, _, amounts, _, _ in core.charges_of(owner):
        if TYPES[type] != "host":
            held += amounts[0] if amounts[0] else 100
    return held
