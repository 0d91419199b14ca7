"""Why a gang cannot be placed, in words."""

from typing import TYPE_CHECKING

from hivecore.decisions import Refusal

if TYPE_CHECKING:
    from hivecore.topology.network_topology import NetworkTopology
    from hivecore.topology.topology_request import TopologyRequest

__all__ = ["refused"]

_NAMED = 3  # domains that a reason tells of


def refused(network: "NetworkTopology", request: "TopologyRequest", searched: bool) -> Refusal:
    """Of a gang that was not placed; ``searched``: the search came to its end."""
    layer = request.must
    sums = network.slots(layer, amounts=request.amounts)
    most = max(sums.values())
    if not searched:
        return _refusal("work", layer, "the search was cut short")
    if most >= request.pods:
        wanted = ", ".join(f"{count} in each {name}" for name, count in request.multiple)
        return _refusal("multiple", layer, f"not in multiples of {wanted}")
    if layer == "":
        have = f"the network has {most} {_slots(most)}"
        return _refusal("slots", layer, f"{request.pods} pods need as many slots: {have}")
    best = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    have = ", ".join(f"{name} has {count}" for name, count in best[:_NAMED])
    if len(best) > _NAMED:
        have += f", {len(best) - _NAMED} others have no more"
    return _refusal("layer", layer, f"{request.pods} pods need one {layer}: {have}")


def _slots(count: int) -> str:
    return "slot" if count == 1 else "slots"


def _refusal(code: str, part: str, reason: str) -> Refusal:
    return Refusal("topology", code, reason, part)
