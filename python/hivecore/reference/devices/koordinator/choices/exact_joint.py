"""Devices of several types on the very same switches: all choices (what defect D9 misses).

Every set of primary devices that could be given alone is tried, the nearest to each other first,
until the other types have devices on exactly its switches: one on each at least. It is complete:
for a set of switches, a type that is taken in any number beyond one per switch needs only that many
fitting devices there. Exponential in the number of devices: an oracle for small nodes.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hivecore.reference.devices.koordinator.choices.default_order import (
    charge_of,
    dealt,
    switches_of,
)
from hivecore.reference.devices.koordinator.choices.default_order import ranked as by_rank
from hivecore.reference.devices.koordinator.choices.gpus import healthy, honours_partitions, in_use
from hivecore.reference.devices.koordinator.choices.partitions import (
    feasible_rows,
    residual,
    table_of,
)
from hivecore.reference.devices.koordinator.choices.topology_tree import (
    DEVICE,
    level_of,
    serving,
    tree_of,
)
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.node_view import Restriction, TypeView, View
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.templates import template_of

__all__ = ["exact_joint_choice"]


def exact_joint_choice(
    state: NodeState,
    whole: View,
    view: View,
    request: Any,
    demands: dict[str, Demand],
    restriction: Restriction,
    strategy: str | None,
    quirks: frozenset[str],
) -> dict[str, tuple[Charge, ...]] | None:
    """The devices of all joint types; `None`: there are none on the same switches."""

    def sets(type: str) -> Iterator[tuple[Charge, ...]]:
        if type == "gpu":
            return _gpu_sets(state, whole, view, request, demands[type], restriction, quirks)
        return _sets(state, view, demands[type], restriction, strategy)

    primary, *others = request.joint
    for first in sets(primary):
        switches = switches_of(state, first)
        chosen = {primary: first}
        for type in others:
            demand = demands[type]
            if type == "gpu":
                found = next((one for one in sets(type) if switches_of(state, one) == switches), ())
            else:
                found = _on_switches(state, view, demand, switches, restriction, strategy)
            if not found:
                break
            chosen[type] = found
        else:
            return chosen
    return None


def _gpu_sets(
    state: NodeState,
    whole: View,
    view: View,
    request: Any,
    demand: Demand,
    restriction: Restriction,
    quirks: frozenset[str],
) -> Iterator[tuple[Charge, ...]]:
    found = view.get("gpu", TypeView({}, {}, {}))
    if template_of(demand.need, state.inventory) is None:
        return
    if not demand.need.shared:
        table, used = table_of(state, quirks), in_use(whole["gpu"], found)
        tiers = feasible_rows(table, request, demand.count, healthy(found), used)
        for rows in () if isinstance(tiers, Failure) else tiers:
            assert table is not None
            left = {row: residual(table, demand.count, used | set(row.minors)) for row in rows}
            for row in sorted(rows, key=lambda row: -left[row]):
                yield tuple(Charge("gpu", minor, demand.amounts) for minor in row.minors)
        if honours_partitions(state, request):
            return
    tree = tree_of(state)
    if tree is None or (demand.need.shared and demand.count > 1):
        if demand.need.scope is None:
            yield from _sets(state, view, demand, restriction, None)
        return
    if level_of(demand.need) == DEVICE:
        return
    able = serving(found, demand.amounts)
    numas = tree.children
    switches = [switch for numa in numas for switch in numa.children]
    seen = set()
    for scope in (*switches, *numas, tree):
        if scope.level >= level_of(demand.need):
            fitting = [minor for minor in scope.minors if minor in able]
            for minors in combinations(fitting, demand.count):
                if minors not in seen:
                    seen.add(minors)
                    yield tuple(Charge("gpu", minor, demand.amounts) for minor in minors)


def _sets(
    state: NodeState, view: View, demand: Demand, restriction: Restriction, strategy: str | None
) -> Iterator[tuple[Charge, ...]]:
    fitting = _fitting(state, view, demand, restriction, strategy)
    return combinations(fitting.values(), demand.count)


def _on_switches(
    state: NodeState,
    view: View,
    demand: Demand,
    switches: frozenset[str],
    restriction: Restriction,
    strategy: str | None,
) -> tuple[Charge, ...]:
    """One on each of the switches, and as many as asked; nothing if there are not."""
    fitting = {
        minor: charge
        for minor, charge in _fitting(state, view, demand, restriction, strategy).items()
        if switches_of(state, (charge,)) <= switches
    }
    count = max(demand.count, len(switches))
    minors = dealt(state, demand.need.type, list(fitting), switches)[:count]
    found = tuple(fitting[minor] for minor in minors)
    return found if len(found) == count and switches_of(state, found) == switches else ()


def _fitting(
    state: NodeState, view: View, demand: Demand, restriction: Restriction, strategy: str | None
) -> dict[int, Charge]:
    """What each device would give, the best device first."""
    type = demand.need.type
    found = view.get(type, TypeView({}, {}, {}))
    allowed = restriction.required_minors.get(type)
    preferred = restriction.preferred_minors.get(type, frozenset())
    order = sorted(by_rank(found, demand, strategy), key=lambda minor: minor not in preferred)
    charges = {
        minor: charge_of(state, found, demand, minor, restriction)
        for minor in order
        if not allowed or minor in allowed
    }
    return {minor: charge for minor, charge in charges.items() if charge is not None}
