"""Why a gang cannot be placed, and what would let it, each change tried on a copy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hivecore.decisions import Change, Explanation
from hivecore.topology.releases import Gains, cheapest_release

if TYPE_CHECKING:
    from hivecore.topology.network_topology import NetworkTopology
    from hivecore.topology.topology_decision import TopologyDecision
    from hivecore.topology.topology_request import TopologyRequest

__all__ = ["explain"]


def explain(
    network: "NetworkTopology", decision: "TopologyDecision", slots: list[int], gains: Gains
) -> Explanation:
    """Of a decision to wait; the last two arguments are those of `cheapest_release`."""
    found = _changes(network, decision.request, slots, gains)
    changes = sorted(found, key=lambda one: (one.cost, one.kind))
    refusals = (decision.refusal,) if decision.refusal else ()
    return Explanation("wait", decision.reason, refusals, tuple(changes))


def _changes(
    network: "NetworkTopology", request: "TopologyRequest", slots: list[int], gains: Gains
) -> Iterator[Change]:
    """What of the wishes, and who of the owners, would have to go."""
    for relaxed, other in (
        (("must",), request.replace(must="")),
        (("multiple",), request.replace(multiple=())),
        (("must", "multiple"), request.replace(must="", multiple=())),
    ):
        if other != request and network.fits(other):
            yield Change("relax", (), 0, relaxed, other)
            break
    released = cheapest_release(network, request, slots, gains)
    if released is not None:
        cost, owners = released
        yield Change("release", owners, cost, (), request)
