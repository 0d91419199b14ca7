"""Why a gang cannot be placed, and what would let it, each change tried on a copy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hivecore.decisions import Change, Explanation

if TYPE_CHECKING:
    from hivecore.topology.network_topology import NetworkTopology
    from hivecore.topology.topology_request import TopologyRequest

__all__ = ["explain"]


def explain(network: "NetworkTopology", request: "TopologyRequest") -> Explanation:
    """It is the caller's turn."""
    decision = network.schedule(request)
    if decision.outcome == "bind":
        return Explanation("bind", "", (), ())
    changes = sorted(_changes(network, request), key=lambda one: (one.cost, one.kind))
    refusals = (decision.refusal,) if decision.refusal else ()
    return Explanation("wait", decision.reason, refusals, tuple(changes))


def _changes(network: "NetworkTopology", request: "TopologyRequest") -> Iterator[Change]:
    """What of the wishes, and who of the owners, would have to go."""
    for relaxed, other in (
        (("must",), request.replace(must="")),
        (("multiple",), request.replace(multiple=())),
        (("must", "multiple"), request.replace(must="", multiple=())),
    ):
        if other != request and network.fits(other):
            yield Change("relax", (), 0, relaxed, other)
            break
    found = [
        owners
        for names in _by_domain(network, request)
        if (owners := _few(network, request, names))
    ]
    costs = [(sum(_pods(network, name) for name in owners), owners) for owners in found]
    if costs:
        cost, owners = min(costs)
        yield Change("release", owners, cost, (), request)


def _by_domain(network: "NetworkTopology", request: "TopologyRequest") -> list[tuple[str, ...]]:
    """The owners in each domain of the layer that has to hold all, those with fewest pods first."""
    level = ["", *network.layers, "node"].index(request.must)
    found: dict[tuple[str, ...], set[str]] = {}
    for name in network.owners:
        for one in network.placement(name):
            found.setdefault(network.domain(one.node)[:level], set()).add(name)
    return [
        tuple(sorted(names, key=lambda name: (_pods(network, name), name)))
        for names in found.values()
    ]


def _few(
    network: "NetworkTopology", request: "TopologyRequest", names: tuple[str, ...]
) -> tuple[str, ...]:
    """Few of these whose end lets it be placed; empty: even that of all does not."""

    def fits_without(leaving: tuple[str, ...]) -> bool:
        branch = network.copy()
        for name in leaving:
            branch.release(name)
        return branch.fits(request)

    for name in names:
        if fits_without((name,)):
            return (name,)
    if not fits_without(names):
        return ()
    low, high = 1, len(names)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits_without(names[:middle]) else (middle, high)
    leaving = names[:high]
    for name in reversed(leaving):
        fewer = tuple(one for one in leaving if one != name)
        if fits_without(fewer):
            leaving = fewer
    return tuple(sorted(leaving))


def _pods(network: "NetworkTopology", name: str) -> int:
    return sum(one.pods + one.others for one in network.placement(name))
