"""Which GPUs: a partition, else the tightest scope, else the default order (section 1.6).

Shares must be of a template where the node has templates for such; they are chosen as others are.

Where the node or the pod demands a partition, its failure is final; else it is a preference. A
partition that is preferred, but not free, so leads to GPUs of no partition, or of parts of several.
"""

from typing import Any

from hivecore.reference.devices.koordinator.choices.default_order import in_default_order
from hivecore.reference.devices.koordinator.choices.partitions import partition_of, table_of
from hivecore.reference.devices.koordinator.choices.topology_tree import from_tree, tree_of
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.node_view import Restriction, TypeView, View
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.templates import template_of

__all__ = ["choose_gpus", "healthy", "honours_partitions", "in_use"]


def choose_gpus(
    state: NodeState,
    whole: View,
    view: View,
    request: Any,
    demand: Demand,
    count: int,
    most: int,
    restriction: Restriction,
    strategy: str | None,
    quirks: frozenset[str],
) -> tuple[Charge, ...] | Failure:
    """The GPUs; `count` and `most` are heeded by the default order alone.

    Minors that are required or preferred are not looked at where there is a tree (defect D7).
    """
    found = view.get("gpu", TypeView({}, {}, {}))
    used = in_use(whole["gpu"], found)
    if template_of(demand.need, state.inventory) is None:
        return Failure("no_template", False, "the node's GPUs have no template for such a share")
    if not demand.need.shared:
        table = table_of(state, quirks)
        row = partition_of(table, request, demand.count, healthy(found), used)
        if not isinstance(row, Failure):
            return tuple(Charge("gpu", minor, demand.amounts) for minor in row.minors)
        if honours_partitions(state, request):
            return row
    minors = from_tree(state, tree_of(state), found, demand, used, strategy, quirks)
    if not isinstance(minors, Failure):
        return tuple(Charge("gpu", minor, demand.amounts) for minor in minors)
    if minors.resolvable or demand.need.scope is not None:
        return minors
    return in_default_order(state, view, demand, count, most, (), restriction, strategy)


def honours_partitions(state: NodeState, request: Any) -> bool:
    """Whether whole GPUs must be a partition, for the node's sake or the pod's."""
    return state.inventory.partition_policy == "honor" or request.partition is not None


def healthy(found: TypeView) -> set[int]:
    """The minors of visible GPUs that have anything."""
    return {minor for minor, total in found.total.items() if any(total.values())}


def in_use(whole: TypeView, found: TypeView) -> set[int]:
    """What is used in the view, and what is used on the node and not visible."""
    return set(found.used) | (set(whole.used) - set(found.total))
