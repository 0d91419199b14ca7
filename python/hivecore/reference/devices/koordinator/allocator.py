"""One node's answer to a request, as Koordinator's device plugin gives it (sections 1.3 and 1.9).

Needs are counted, the node is restricted to what may be used, types that belong together are chosen
jointly and the others one by one. Nothing is charged: the answer is what would be. The same choice
is made to filter nodes (without a strategy: no device is scored) and to reserve one (with it).

Source: Koordinator, pkg/scheduler/plugins/deviceshare at commit a7a1b76b.
"""

from collections.abc import Collection, Iterable
from typing import Any

from hivecore.reference.devices.koordinator.choices.default_order import in_default_order
from hivecore.reference.devices.koordinator.choices.exact_joint import exact_joint_choice
from hivecore.reference.devices.koordinator.choices.gpus import choose_gpus
from hivecore.reference.devices.koordinator.choices.joint import joint_choice
from hivecore.reference.devices.koordinator.demands import demands_of
from hivecore.reference.devices.koordinator.node_view import (
    WHOLE,
    Restriction,
    of_whole_node,
    restricted,
)
from hivecore.reference.devices.koordinator.outcome import QUIRKS, TYPES, Failure
from hivecore.reference.devices.koordinator.scores import node_score
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.templates import template_of

__all__ = ["allocate", "filter_nodes", "score_node", "with_all_memory"]


def allocate(
    state: NodeState,
    request: Any,
    restriction: Restriction = WHOLE,
    strategy: str | None = None,
    quirks: frozenset[str] = QUIRKS,
) -> tuple[Charge, ...] | Failure:
    """What the request would be charged on the node; `state` stays as it is.

    :param request: a `hivecore.devices.DeviceRequest`; what it needs of the host is not looked at.
    :param restriction: what of the node may be used.
    :param strategy: "least_allocated" or "most_allocated", by which devices are compared.
    :param quirks: which of `QUIRKS` are kept.
    """
    gpus = request.need("gpu")
    provider = request.isolation_provider
    if (
        gpus is not None
        and gpus.shared
        and provider not in ("", state.inventory.isolation_provider)
    ):
        return Failure("no_isolation", False, f"the node has no isolation by {provider!r}")
    if gpus is not None and gpus.shared and not state.inventory.shareable:
        return Failure("unshareable", False, "the node's GPUs are not shared")
    if not any(request.need(type) for type in TYPES):
        return ()
    whole = of_whole_node(state)
    demands = demands_of(state, whole, request, restriction.reserving)
    if isinstance(demands, Failure):
        return demands
    needs = [demand.need for demand in demands.values()]
    view = restricted(state, whole, needs, restriction, quirks)

    def choose(type: str, count: int, switches: Collection[str]) -> tuple[Charge, ...] | Failure:
        demand = demands[type]
        most = max(count, len(switches))
        if type == "gpu":
            return choose_gpus(
                state, whole, view, request, demand, count, most, restriction, strategy, quirks
            )
        return in_default_order(state, view, demand, count, most, switches, restriction, strategy)

    chosen: dict[str, tuple[Charge, ...]] = {}
    if len(demands) > 1 and request.joint:
        jointly = joint_choice(state, request, demands, choose)
        if isinstance(jointly, Failure):
            if "greedy_joint" in quirks or not request.same_pcie:
                return jointly
            exact = exact_joint_choice(
                state, whole, view, request, demands, restriction, strategy, quirks
            )
            if exact is None:
                return jointly
            jointly = exact
        chosen = jointly
    for type, demand in demands.items():
        if type not in chosen:
            found = choose(type, demand.count, ())
            if isinstance(found, Failure):
                return found
            chosen[type] = found
    template = (template_of(gpus, state.inventory) if gpus is not None else "") or ""
    return tuple(
        with_all_memory(state, charge._replace(template=template if type == "gpu" else ""))
        for type in TYPES
        for charge in chosen.get(type, ())
    )


def with_all_memory(state: NodeState, charge: Charge) -> Charge:
    """The charge of a GPU with its memory in bytes and in percent (section 1.9).

    Both are cut off, and what fits in one need not fit in the other (defects D17, D18).
    """
    if charge.type != "gpu" or {"memory", "memory_ratio"} <= set(charge.amounts):
        return charge
    amounts = dict(charge.amounts)
    total = state.total("gpu", charge.minor).get("memory", 0)
    if "memory" in amounts:
        amounts["memory_ratio"] = int(amounts["memory"] / total * 100) if total else 0
    else:
        amounts["memory"] = amounts.get("memory_ratio", 0) * total // 100
    return charge._replace(amounts=amounts)


def score_node(
    state: NodeState,
    request: Any,
    strategy: str,
    restriction: Restriction = WHOLE,
    quirks: frozenset[str] = QUIRKS,
) -> int | Failure:
    """The node's score for the request, higher is better; over 100 if it needs several types."""
    whole = of_whole_node(state)
    demands = demands_of(state, whole, request, restriction.reserving)
    if isinstance(demands, Failure):
        return demands
    needs = [demand.need for demand in demands.values()]
    view = restricted(state, whole, needs, restriction, quirks)
    return node_score(strategy, view, demands.values(), quirks)


def filter_nodes(
    states: Iterable[NodeState], request: Any, quirks: frozenset[str] = QUIRKS
) -> list[Failure | None]:
    """Why each node does not serve the request; `None`: it does."""
    computed = Restriction(preemptible={})
    answers = (allocate(state, request, computed, None, quirks) for state in states)
    return [answer if isinstance(answer, Failure) else None for answer in answers]
