"""Why a gang cannot be placed, and which changes would admit it; each is tried on a copy."""

from collections.abc import Iterator

from hivecore.decisions import Change, Explanation
from hivecore.topology.releases import Leavers
from hivecore.topology.topology_decision import TopologyDecision

__all__ = ["explain"]


def explain(decision: TopologyDecision, leavers: Leavers) -> Explanation:
    """The explanation of a decision to wait."""
    changes = sorted(_changes(leavers), key=lambda change: (change.cost, change.kind))
    refusals = (decision.refusal,) if decision.refusal else ()
    return Explanation("wait", decision.reason, refusals, tuple(changes))


def _changes(leavers: Leavers) -> Iterator[Change]:
    """The demands to give up, and the owners to release, that would admit the gang."""
    request = leavers.request
    for relaxed, other in (
        (("must",), request.replace(must="")),
        (("multiple",), request.replace(multiple=())),
        (("per_domain",), request.replace(per_domain=())),
        (("must", "multiple"), request.replace(must="", multiple=())),
    ):
        if other != request and leavers.fits_without(other, ()):
            yield Change("relax", (), 0, relaxed, other)
            break
    released = leavers.cheapest()
    if released is not None:
        cost, owners = released
        yield Change("release", owners, cost, (), request)
