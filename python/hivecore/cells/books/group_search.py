"""One request in numbers: chain after chain is asked until one serves it."""

from typing import Any

from hivecore._arguments import as_int, as_tuple
from hivecore._stateful import counted
from hivecore.cells.affinity_group import EVICTIONS, AffinityGroup
from hivecore.cells.books.cluster_names import ClusterNames, Suggested
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.cluster_view import ClusterView, IntraVCPolicy
from hivecore.cells.group_decision import GroupDecision, Tried

__all__ = ["check_possible", "find", "pinned_pool", "tenant_of"]


def find(
    books: GroupBooks,
    group: AffinityGroup,
    suggested: Suggested | None,
    most: list[Any] | None = None,
) -> GroupDecision:
    """The plan of the first chain that serves, for the least evictions the one that evicts least.

    Nothing changes.

    :param suggested: per chain the nodes that may be used; ``None``: all.
    :param most: per chain how many pods each node may get; ``None``: any number.
    """
    names, core = books.names, books.core
    tenant = names.tenants.get(group.virtual_cluster)
    if tenant is None:
        tenant = tenant_of(names, group)
    idle = group.priority < 0
    pool = -1 if group.pinned_cell is None else pinned_pool(names, tenant, group)
    policy = None if idle else books.policies.get(group.virtual_cluster)
    confined = group.confined
    if confined:
        _check_levels(names, group)
    evictions = group.evictions or books.evictions
    weighed = EVICTIONS.index(evictions)
    evicting: tuple[Any, int] | None = None  # a plan, and how many chains were refused before it
    tried: list[Tried] = []
    try:  # without the GIL, `dict.get` of another thread's dict waits for itself in CPython 3.13
        searched = names.searches[group.leaf_type, tenant]
    except KeyError:
        searched = names.search(group.leaf_type, tenant)
    for chain, owns in searched:
        if pool >= 0:
            if names.pools[pool].chain != chain:
                continue
        elif not (idle or owns):
            tried.append(Tried(chain, "no cells"))
            continue
        within, group_within = None, -1
        if confined:
            levels = names.level_numbers[chain]
            wanted = {member.within for member in group.members} | {group.within}
            if not wanted - {None} <= levels.keys():
                tried.append(Tried(chain, "no level"))
                continue
            within, group_within = _limits(group, levels)
        units = None
        if policy is not None:
            units = _ask(policy, group, names, core.units(tenant, chain, pool), chain)
            if units is None:
                tried.append(Tried(chain, "policy"))
                continue
        plan = core.schedule(
            tenant,
            chain,
            pool,
            group.priority,
            group.sizes,
            within,
            group_within,
            group.placement == "spread",
            group.merge_siblings,
            None if suggested is None else suggested[chain],
            units,
            weighed,
            None if most is None else most[chain],
        )
        outcome = plan.outcome
        if outcome == "bind" and plan.is_harmless:
            return GroupDecision(group, "bind", names, plan, core, tuple(tried))
        if outcome == "wait":
            tried.append(Tried(chain, plan.reason))
        elif outcome == "bind" or evictions != "least":
            return _planned(books, group, plan, tried)
        elif evicting is None or _harm(core, plan) < _harm(core, evicting[0]):
            evicting = plan, len(tried)  # another chain may do with less
    if evicting is not None:
        plan, before = evicting
        return _planned(books, group, plan, tried[:before])
    return GroupDecision(group, "wait", names, None, core, tuple(tried))


def _harm(core: Any, plan: Any) -> tuple[int, int, int]:
    """Guaranteed leaves that are evicted or downgraded, evicted leaves, evicted groups."""
    leaves, guaranteed = {}, set(plan.downgrades)
    for handle in {*plan.victims, *plan.downgrades}:
        held = core.group(handle)
        leaves[handle] = sum(map(len, held.pods))
        if held.virtual is not None:
            guaranteed.add(handle)
    lost = sum(leaves[handle] for handle in guaranteed)
    return lost, sum(leaves[handle] for handle in plan.victims), len(plan.victims)


def _planned(
    books: GroupBooks, group: AffinityGroup, plan: Any, tried: list[Tried]
) -> GroupDecision:
    """The decision to bind or to preempt that a plan is."""
    victims, cancels, downgrades = plan.victims, plan.cancels, plan.downgrades
    return GroupDecision(
        group,
        plan.outcome,
        books.names,
        plan,
        books.core,
        tuple(tried),
        None,
        books.groups.names_of(victims) if victims else (),
        books.groups.names_of(cancels) if cancels else (),
        books.groups.names_of(downgrades) if downgrades else (),
    )


def check_possible(names: ClusterNames, decision: GroupDecision) -> None:
    """Raise `ValueError` for a decision to wait for ever: a pod fits into no cell that it may."""
    group, faults = decision.request, []
    if not group.confined and max(group.sizes) <= names.smallest_node:
        return
    for chain, code in decision._tried:
        if code in ("no cells", "no level"):  # not one that the group may use
            continue
        fault = _misfit(names, group, chain)
        if fault is None:
            return
        faults.append(f"chain {names.chains[chain]!r}: {fault}")
    if faults:
        raise ValueError(f"group {group.name!r} can never be served: {'; '.join(faults)}")


def _misfit(names: ClusterNames, group: AffinityGroup, chain: int) -> str | None:
    """A pod that is larger than the cells of a chain that it must be in; None: there is none."""
    levels, per_cell = names.level_numbers[chain], names.leaves_per_cell[chain]
    node = names.levels[chain][names.node_levels[chain]]
    for member in group.members:
        limits = (level for level in (member.within, group.within, node) if level is not None)
        level = min(limits, key=lambda limit: levels[limit])
        room = per_cell[levels[level]]
        if member.leaves > room:
            return f"a pod asks for {member.leaves} leaves, a cell of level {level!r} has {room}"
    return None


def tenant_of(names: ClusterNames, group: AffinityGroup) -> int:
    """The number of the group's tenant, or a KeyError."""
    tenant = names.tenants.get(group.virtual_cluster)
    if tenant is None:
        known = sorted(names.tenants)
        raise KeyError(f"group.virtual_cluster={group.virtual_cluster!r}: known are {known}")
    return tenant


def pinned_pool(names: ClusterNames, tenant: int, group: AffinityGroup) -> int:
    """The pool of the pinned cell that the group asks for, -1 if none, or a KeyError."""
    if group.pinned_cell is None:
        return -1
    pool = names.pins.get(group.pinned_cell, -1)
    if pool < 0 or names.pools[pool].tenant != tenant:
        known = sorted(pin for pin, p in names.pins.items() if names.pools[p].tenant == tenant)
        raise KeyError(
            f"group.pinned_cell={group.pinned_cell!r}: "
            f"those of {group.virtual_cluster!r} are {known}"
        )
    return pool


def _check_levels(names: ClusterNames, group: AffinityGroup) -> None:
    levels = [("within", group.within)]
    levels += [(f"members[{i}].within", member.within) for i, member in enumerate(group.members)]
    for place, level in levels:
        if level is not None and not any(level in row for row in names.level_numbers):
            known = sorted({name for row in names.levels for name in row})
            raise KeyError(f"group.{place}={level!r}: known are {known}")


def _limits(group: AffinityGroup, levels: dict[str, int]) -> tuple[tuple[int, ...], int]:
    within = [
        -1 if member.within is None else levels[member.within]
        for member in group.members
        for _ in range(member.pods)
    ]
    return tuple(within), -1 if group.within is None else levels[group.within]


def _ask(
    policy: IntraVCPolicy, group: AffinityGroup, names: ClusterNames, units: Any, chain: int
) -> tuple[int, ...] | None:
    """What the tenant's policy chooses; None when it chooses nothing."""
    view = ClusterView.of(names, units, chain)
    chosen = policy.choose(view, group)
    if chosen is None:
        return None
    chosen = as_tuple(chosen, "the policy's choice")
    if len(chosen) != len(group.sizes):
        raise ValueError(
            f"the policy's choice has {counted(len(chosen), 'virtual node')} for "
            f"{counted(len(group.sizes), 'pod')}"
        )
    last = len(view.nodes) - 1
    return tuple([as_int(number, "the policy's choice", 0, last) for number in chosen])
