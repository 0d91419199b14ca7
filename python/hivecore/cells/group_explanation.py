"""Why a group waits, and the cheapest changes that would admit it, each tried on a copy."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hivecore.cells.affinity_group import AffinityGroup, Member
from hivecore.cells.decision import Refusal
from hivecore.cells.group_search import pinned_pool, tenant_of

if TYPE_CHECKING:
    from hivecore.cells.cell_cluster import CellCluster

__all__ = ["Change", "GroupExplanation", "Shortage", "explain"]

_SINGLES = 256  # groups that are tried one by one before several are released together


class Shortage(NamedTuple):
    """How a chain falls short of a group that waits for cells of its tenant."""

    chain: str
    level: str
    """The lowest level of which one cell holds the group's largest pod."""
    needed: int
    """Pods that need a cell of this level."""
    available: int
    """Cells of this level among the tenant's own of which enough leaves are free for such a pod."""
    owned: int
    """Cells of this level that the tenant owns, whole or as parts of larger ones."""
    holders: tuple[str, ...]
    """The groups that hold the tenant's cells in this chain, in the order of their commits."""


class Change(NamedTuple):
    """Something after which the group would be admitted."""

    kind: Literal["preempt", "release", "relax"]
    groups: tuple[str, ...]
    """Groups to release, for "preempt" (the group may preempt them) and "release"."""
    leaves: int
    """Leaves that these groups have."""
    relaxed: tuple[str, ...]
    """Arguments to give up, for "relax": of the group, or ``suggested_nodes``."""
    request: AffinityGroup
    """The group to schedule after the change."""


class GroupExplanation(NamedTuple):
    """Why a group would start now or not."""

    outcome: Literal["bind", "preempt", "wait"]
    reason: str
    """In one line; empty when it would start."""
    refusals: tuple[Refusal, ...]
    """The chains that were tried in vain."""
    shortages: tuple[Shortage, ...]
    """Per chain in which the tenant owns cells, what is short there."""
    changes: tuple[Change, ...]
    """Changes that admit the group, the cheapest first: wishes to give up, which cost nobody
    anything; groups to preempt or to release, by their leaves; going opportunistic.

    Up to 256 groups are tried alone, the tenant's own first, then by leaves; several to release
    together are irreducible: each of them is needed."""

    @property
    def cheapest(self) -> Change | None:
        """The first of the changes; ``None``: none is needed, or none was found."""
        return self.changes[0] if self.changes else None


def explain(
    cluster: "CellCluster", group: AffinityGroup, suggested_nodes: Iterable[str] | None
) -> GroupExplanation:
    """What `CellCluster.explain` answers."""
    suggested = None if suggested_nodes is None else tuple(suggested_nodes)
    decision = cluster.schedule(group, suggested_nodes=suggested)
    if decision.outcome == "bind":
        return GroupExplanation("bind", "", decision.explanation, (), ())
    branch = cluster.copy()
    if group.name in cluster.groups():  # it preempts already, and waits for its victims
        changes = [_change(cluster, "preempt", decision.victims, group)]
        return GroupExplanation("preempt", decision.reason, (), (), tuple(changes))
    changes = []
    if decision.outcome == "preempt":
        changes.append(_change(cluster, "preempt", decision.victims, group))
    found = _fewest_to_release(branch, group, suggested)
    if found and set(found) != set(decision.victims):
        changes.append(_change(cluster, "release", found, group))
    changes += _relaxations(branch, group, suggested)
    changes.sort(key=_cost)
    return GroupExplanation(
        decision.outcome,
        decision.reason,
        decision.explanation,
        () if group.priority < 0 else tuple(_shortages(cluster, group)),
        tuple(changes),
    )


def _cost(change: Change) -> tuple[int, int, bool]:
    gives_up_the_guarantee = change.relaxed == ("priority",)
    return gives_up_the_guarantee, change.leaves, change.kind == "release"


def _change(
    cluster: "CellCluster",
    kind: Literal["preempt", "release"],
    groups: tuple[str, ...],
    request: AffinityGroup,
) -> Change:
    leaves = sum(_leaves(cluster, name) for name in groups)
    return Change(kind, groups, leaves, (), request)


def _leaves(cluster: "CellCluster", name: str) -> int:
    status = cluster.group(name)
    return 0 if status is None else sum(len(pod.leaves) for pod in status.placement)


def _admits(branch: "CellCluster", group: AffinityGroup, suggested: Any) -> bool:
    return branch.schedule(group, suggested_nodes=suggested).outcome == "bind"


def _fewest_to_release(
    branch: "CellCluster", group: AffinityGroup, suggested: Any
) -> tuple[str, ...]:
    """Groups whose release admits the group, in the order of their commits; () if none does."""
    weights = {name: _leaves(branch, name) for name in branch.groups()}
    by_size = sorted(weights, key=weights.__getitem__)
    # The tenant's own groups first: those are most often what is in the way.
    own = [name for name in by_size if _tenant(branch, name) == group.virtual_cluster]
    order = own + [name for name in by_size if name not in set(own)]
    for name in order[:_SINGLES]:
        trial = branch.copy()
        trial.release(name)
        if _admits(trial, group, suggested):
            return (name,)
    trial = branch.copy()
    released: list[str] = []
    for name in order:
        trial.release(name)
        released.append(name)
        if _admits(trial, group, suggested):
            break
    else:
        return ()
    needed = list(released)
    for name in sorted(released, key=lambda name: -weights[name]):
        trial = branch.copy()
        for other in needed:
            if other != name:
                trial.release(other)
        if _admits(trial, group, suggested):
            needed.remove(name)
    return tuple(name for name in branch.groups() if name in set(needed))


def _tenant(branch: "CellCluster", name: str) -> str:
    status = branch.group(name)
    assert status is not None
    return status.group.virtual_cluster


def _relaxations(branch: "CellCluster", group: AffinityGroup, suggested: Any) -> Iterator[Change]:
    if suggested is not None and _admits(branch, group, None):
        yield Change("relax", (), 0, ("suggested_nodes",), group)
    loose = tuple(Member(member.pods, member.leaves) for member in group.members)
    wishes: list[tuple[str, Any, Any]] = [
        ("within", group.within, None),
        ("members", group.members, loose),
        ("leaf_type", group.leaf_type, None),
        ("pinned_cell", group.pinned_cell, None),
        ("merge_siblings", group.merge_siblings, True),
        ("priority", group.priority, -1),
    ]
    for argument, now, relaxed in wishes:
        if now == relaxed:
            continue
        changes = {argument: relaxed}
        if argument == "priority":
            changes["pinned_cell"] = None
        other = group.replace(**changes)
        if _admits(branch, other, suggested):
            yield Change("relax", (), 0, (argument,), other)


def _shortages(cluster: "CellCluster", group: AffinityGroup) -> Iterator[Shortage]:
    names, core = cluster._books.names, cluster._books.core
    tenant = tenant_of(names, group)
    largest = max(group.sizes)
    for chain, owns in names.search(group.leaf_type, tenant):
        pin = pinned_pool(names, tenant, group)
        if names.pools[pin].chain != chain if pin >= 0 else not owns:
            continue
        per_cell = names.leaves_per_cell[chain]
        row = next((i for i, n in enumerate(per_cell) if n >= largest), len(per_cell) - 1)
        row = min(row, names.node_levels[chain])
        pools = [
            number
            for number, pool in enumerate(names.pools)
            if (number == pin if pin >= 0 else pool.tenant == tenant and pool.pin is None)
            and pool.chain == chain
        ]
        yield Shortage(
            names.chains[chain],
            names.levels[chain][row],
            group.sizes.count(largest),
            sum(
                free // largest if per_cell[row] <= leaves else 0
                for _, _, leaves, free, _, _ in core.units(tenant, chain, pin)
            ),
            sum(
                names.pools[number].roots * (per_cell[names.pools[number].level] // per_cell[row])
                for number in pools
            ),
            tuple(
                name
                for name in cluster.groups()
                if any(
                    pool in pools
                    for pod in core.group(cluster._books.live[name].handle)[5] or ()
                    for pool, _ in pod
                )
            ),
        )
