"""Why a group waits, and the cheapest changes that would admit it; each is tried on a copy."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

from hivecore._cells import LiveGroup
from hivecore._record import Record
from hivecore.cells.affinity_group import AffinityGroup, Member
from hivecore.cells.books.cluster_names import Suggested
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.books.group_search import find, pinned_pool, tenant_of
from hivecore.decisions import Change, Explanation
from hivecore.errors import StaleDecisionError

__all__ = ["GroupExplanation", "Shortage", "explain"]

_SINGLES = 256  # groups to try alone, before several are released together


class Shortage(Record, frozen=True):
    """What a chain lacks for a waiting group of a tenant."""

    chain: str
    level: str
    """The lowest level whose cells hold the largest pod of the group."""
    needed: int
    """How many pods need a cell of this level."""
    available: int
    """How many cells of this level of the tenant have enough free leaves for such a pod."""
    owned: int
    """How many cells of this level the tenant owns, whole or as parts of larger cells."""
    holders: tuple[str, ...]
    """The groups that use the tenant's cells in this chain, in the order of their commits."""


class GroupExplanation(Explanation, frozen=True):
    """Whether a group would start now, and the changes after which it would.

    :param shortages: what each chain lacks in which the tenant owns cells.

    Changes are ordered by cost: constraints to drop, which cost nothing; groups to preempt or to
    release, by their leaves; last, to run without a guarantee. Up to 256 groups are tried alone,
    the tenant's own first, then by leaves, and the smallest one that is enough is named. If several
    have to be released together, each of them is needed, but another set may have fewer leaves.
    """

    shortages: tuple[Shortage, ...]


def explain(
    books: GroupBooks, group: AffinityGroup, suggested: Suggested | None
) -> GroupExplanation:
    """The explanation of `CellCluster.explain`; nothing changes."""
    live = books.live.get(group.name)
    decision = None if live is None else books.decide_live(live, group, suggested)
    if decision is None:
        if live is not None:  # its reservation is unusable
            books, live = books.copy(), None
            books.groups.release(group.name)
        decision = find(books, group, suggested)
    if decision.outcome == "bind":
        return GroupExplanation("bind", "", decision.refusals, (), ())
    changes = []
    if decision.outcome == "preempt":
        changes.append(_change(books, "preempt", decision.victims, group))
    if live is not None:  # it preempts already, and waits for its victims
        return GroupExplanation("preempt", decision.reason, (), tuple(changes), ())
    released = _fewest_to_release(books, group, suggested)
    if released and set(released) != set(decision.victims):
        changes.append(_change(books, "release", released, group))
    changes += _relaxations(books, group, suggested)
    changes.sort(key=_cost)
    return GroupExplanation(
        decision.outcome,
        decision.reason,
        decision.refusals,
        tuple(changes),
        () if group.priority < 0 else tuple(_shortages(books, group)),
    )


def _cost(change: Change) -> tuple[Any, ...]:
    gives_up_the_guarantee = change.relaxed == ("priority",)
    return gives_up_the_guarantee, change.cost, change.kind == "release"


def _change(
    books: GroupBooks,
    kind: Literal["preempt", "release"],
    groups: tuple[str, ...],
    request: AffinityGroup,
) -> Change:
    leaves = sum(_leaves(books, books.live[name]) for name in groups)
    return Change(kind, groups, leaves, (), request)


def _leaves(books: GroupBooks, live: LiveGroup) -> int:
    return sum(len(pod) for pod in books.core.group(live.handle).pods)


def _admits(books: GroupBooks, group: AffinityGroup, suggested: Any) -> bool:
    return find(books, group, suggested).outcome == "bind"


class _Trial:
    """A branch in which groups are released and recovered."""

    def __init__(self, books: GroupBooks) -> None:
        self._books = books
        self.branch = books.copy()
        self._taken: set[str] = set()
        # A release may promote a downgraded group, which stays promoted after the recovery.
        self._has_downgraded = any(
            books.core.wanted_pools(live.handle) is not None for live in books.live.values()
        )

    def take(self, name: str) -> None:
        self.branch.groups.release(name)
        self._taken.add(name)

    def put_back(self, name: str) -> None:
        live = self._books.live[name]
        self._taken.remove(name)
        exact = False
        if not self._has_downgraded:
            with suppress(StaleDecisionError):  # another group had reserved its leaves
                recovery = self.branch.recover(live.group, self._books.record(live))
                exact = not recovery.displaced and not recovery.downgraded
        if not exact:
            self.branch = self._books.copy()
            for other in self._taken:
                self.branch.groups.release(other)


def _fewest_to_release(books: GroupBooks, group: AffinityGroup, suggested: Any) -> tuple[str, ...]:
    """Groups whose release admits the group, in the order of their commits; (): none."""
    empty = books.copy()
    for name in books.live:
        empty.groups.release(name)
    if not _admits(empty, group, suggested):
        return ()
    weights = {name: _leaves(books, live) for name, live in books.live.items()}
    # The tenant's own groups first: usually they use its cells.
    tenant = group.virtual_cluster
    order = sorted(
        weights, key=lambda n: (books.live[n].group.virtual_cluster != tenant, weights[n])
    )
    trial = _Trial(books)
    lightest: str | None = None
    for name in order[:_SINGLES]:
        if lightest is None or weights[name] < weights[lightest]:
            trial.take(name)
            if _admits(trial.branch, group, suggested):
                lightest = name
            trial.put_back(name)
    if lightest is not None:
        return (lightest,)
    needed = set()
    for name in order:
        trial.take(name)
        needed.add(name)
        if _admits(trial.branch, group, suggested):
            break
    for name in sorted((n for n in order if n in needed), key=lambda n: -weights[n]):
        trial.put_back(name)
        if _admits(trial.branch, group, suggested):
            needed.remove(name)
        else:
            trial.take(name)
    return tuple(name for name in books.live if name in needed)


def _relaxations(books: GroupBooks, group: AffinityGroup, suggested: Any) -> Iterator[Change]:
    if suggested is not None and _admits(books, group, None):
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
        if _admits(books, other, suggested):
            yield Change("relax", (), 0, (argument,), other)


def _shortages(books: GroupBooks, group: AffinityGroup) -> Iterator[Shortage]:
    names, core = books.names, books.core
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
                unit.available // largest
                for unit in core.units(tenant, chain, pin)
                if per_cell[row] <= unit.leaves
            ),
            sum(
                names.pools[number].roots * (per_cell[names.pools[number].level] // per_cell[row])
                for number in pools
            ),
            tuple(
                name
                for name, live in books.live.items()
                for held in (core.group(live.handle).virtual or (),)
                if any(pool in pools for pod in held for pool, _ in pod)
            ),
        )
