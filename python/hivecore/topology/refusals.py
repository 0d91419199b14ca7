"""The reasons why a gang cannot be placed."""

from collections.abc import Collection

from hivecore._stateful import counted
from hivecore.decisions import Refusal
from hivecore.topology.topology_request import TopologyRequest

__all__ = ["refused"]

_NAMED = 3  # domains that a reason names

#: (domain, the pods that it has room for).
_Slots = list[tuple[str, int]]


def refused(
    request: TopologyRequest, slots: list[_Slots], searched: bool, counts: Collection[str]
) -> Refusal:
    """The refusal of a gang that was not placed.

    :param slots: of the domains of which one must hold all pods: for its pods, and for its role's;
        empty if there are no nodes.
    :param searched: whether the search was complete.
    :param counts: the resources that were ever set on a node.
    """
    layer, role = request.must, request.role
    wanted, amounts = [(request.pods, "")], request.amounts
    if role:
        wanted.append((role.pods, f" of role {role.name!r}"))
        amounts += role.amounts
    for resource, amount in amounts:
        if slots and amount and resource not in counts:
            return _refusal("slots", layer, f"no node of the network counts {resource!r}")
    for (count, of_role), of in zip(wanted, slots or [[], []], strict=False):
        if lacks := _lacks(layer, count, of_role, of):
            return lacks
    if not searched:
        return _refusal("work", layer, "the search was cut short")
    if role:
        where = f"no {layer} has" if layer else "the network has not"
        both = f"{request.pods} pods and {role.pods} of role {role.name!r}"
        return _refusal("role", layer, f"{where} room for {both} together")
    steps = ", ".join(f"{count} in each {name}" for name, count in request.multiple)
    most = ", ".join(f"{count} in each {name}" for name, count in request.per_domain)
    if most:
        multiples = f", in multiples of {steps}" if steps else ""
        return _refusal("per_domain", layer, f"not with at most {most}{multiples}")
    return _refusal("multiple", layer, f"not in multiples of {steps}")


def _lacks(layer: str, count: int, of_role: str, slots: _Slots) -> Refusal | None:
    """The refusal if no domain has enough slots.

    :param of_role: "", or the role of the pods.
    """
    best = sorted(slots, key=lambda pair: (-pair[1], pair[0])) or [("", 0)]
    most = best[0][1]
    if most >= count:
        return None
    pods = f"{counted(count, 'pod')}{of_role} {'needs' if count == 1 else 'need'}"
    if layer == "" or not slots:
        have = f"the network has {counted(most, 'slot')}"
        wanted = "a slot" if count == 1 else "as many slots"
        return _refusal("slots", layer, f"{pods} {wanted}: {have}")
    have = ", ".join(f"{name} has {amount}" for name, amount in best[:_NAMED])
    if len(best) > _NAMED:
        have += f", {len(best) - _NAMED} others have no more"
    return _refusal("layer", layer, f"{pods} one {layer}: {have}")


def _refusal(code: str, part: str, reason: str) -> Refusal:
    return Refusal("topology", code, reason, part)
