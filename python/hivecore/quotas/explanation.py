"""Why owners are not admitted, and which changes would admit them; each is tried and undone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from hivecore._record import Record
from hivecore._thousandths import exact
from hivecore.decisions import Change, Explanation, Refusal
from hivecore.quotas._amounts import Amount, Amounts
from hivecore.quotas._names import Names
from hivecore.quotas.quota_admission import QuotaAdmission
from hivecore.quotas.quota_decision import QuotaDecision
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import refused

__all__ = ["LimitChange", "LimitTrial", "explain", "limit_changes", "raise_limits"]


class LimitChange(Record, frozen=True):
    """A limit to raise.

    :param quota: the quota; "": the total of the tree.
    :param limit: "max", "min" or "total".
    :param dimension: the dimension.
    :param amount: the least amount that is enough.
    """

    quota: str
    limit: str
    dimension: str
    amount: Amount


def explain(trial: "LimitTrial") -> Explanation:
    """The result of `QuotaTree.explain` for a decision that does not bind."""
    decision = trial.decision
    refusals = tuple(_refusals(trial.tree, trial.names, decision))
    changes = sorted(_changes(trial), key=lambda change: change.cost)
    order = ("preempt", "release", "limits")
    changes.sort(key=lambda change: order.index(change.kind))
    return Explanation(decision.outcome, refusals[0].reason, refusals, tuple(changes))


def limit_changes(trial: "LimitTrial") -> tuple[tuple[LimitChange, ...], ...]:
    """The changes of limits alone that `explain` finds."""
    changes = sorted(_raised(trial), key=lambda change: change.cost)
    return tuple(change.limits for change in changes)


def raise_limits(tree: QuotaAdmission, quota: str, changes: Iterable[LimitChange]) -> None:
    """Raise limits as a change for an owner of ``quota`` says; a total is that of its tree."""
    for change in changes:
        if change.limit == "total":
            root = tree.tree_of(quota)
            total, carved = tree.declared_total(root)
            tree.set_total({**total, change.dimension: change.amount}, tree=root, carved=carved)
        else:
            before = tree.quota(change.quota)
            amounts = {**dict(getattr(before, change.limit)), change.dimension: change.amount}
            tree.set_quota(before.replace(**{change.limit: amounts}))


def _refusals(tree: QuotaAdmission, names: Names, decision: QuotaDecision) -> Iterator[Refusal]:
    """The refusals of the parts of the path, from the top down."""
    asks = decision._asks
    quota = asks[0][0].quota
    path = names.path(quota)[::-1] if tree.check_ancestors else []
    places: list[tuple[str, str]] = [(tree.limit, place) for place in path or [quota]]
    if path and not names.quotas[path[0]].outside:
        places.insert(0, ("total", ""))
    refusals = [
        refused(tree, names, code, place, asks) for code, place in [*places, ("min", quota)]
    ]
    yield from (refusal for refusal in refusals if refusal.reason)
    if decision.refusal is not None and decision.refusal.code == "evicted":
        yield decision.refusal
    elif not any(refusal.reason for refusal in refusals):
        # It would be admitted if it could borrow, or a sum would be too large.
        over = (at for at in [quota, *path] if refused(tree, names, "runtime", at, asks).reason)
        yield decision.refusal or refused(tree, names, "evicted", next(over, quota), asks)


def _changes(trial: "LimitTrial") -> Iterator[Change]:
    tree, request, decision = trial.tree, trial.request, trial.decision
    if decision.outcome == "preempt":
        yield _leave("preempt", tree, request, decision.victims)
    else:
        within = tree.preempt_within(request.name)
        if within.outcome == "preempt":
            yield _leave("preempt", tree, request, within.victims)
    if (owners := _release(tree, request)) is not None:
        yield _leave("release", tree, request, owners)
    yield from _raised(trial)


def _leave(
    kind: Any, tree: QuotaAdmission, request: QuotaRequest, owners: tuple[str, ...]
) -> Change:
    return Change(kind, owners, sum(tree.members(name) for name in owners), (), request)


def _release(tree: QuotaAdmission, request: QuotaRequest) -> tuple[str, ...] | None:
    """A small set of owners whose end would admit it; ``None``: not even the end of all would."""
    tree_of = cache(tree.tree_of)
    root = tree_of(request.quota)
    running = [
        other
        for other in map(tree.request, tree.owners)
        if tree_of(other.quota) == root and other.name != request.name and tree.members(other.name)
    ]
    running.sort(key=lambda other: (-other.priority, other.name))
    others = [other.name for other in running]

    def admits(leaving: list[str]) -> bool:
        with tree.trial():
            for name in leaving:
                tree.release(name)
            return tree.fits(request.name)

    if not others or not admits(others):
        return None
    # Keep as many of the most important as possible, by bisection.
    low, high = 0, len(others)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if admits(others[middle:]) else (low, middle - 1)
    leaving = others[low:]
    needed = 0  # how many at the front were found necessary since the last change
    while needed < len(leaving) <= 64:
        fewer = [*leaving[1:], leaving[0]]
        if admits(fewer[:-1]):
            leaving, needed = fewer[:-1], 0
        else:
            leaving, needed = fewer, needed + 1
    leaving.sort(key=others.index)
    return tuple(leaving)


def _raised(trial: "LimitTrial") -> Iterator[Change]:
    """Limits that admit the owner if they are raised together, each by as little as possible: the
    maximums and, if it is not preemptible, the minimum of its quota; if these are not enough, also
    the total, or the minimums of the path.
    """
    request, members = trial.request, trial.members
    managed = {dimension for dimension, _ in trial.names.quotas[request.quota].max}
    amounts = {d: exact(amount * members) for d, amount in request.amounts if d in managed}
    needed = list(trial.needed(amounts))
    ways: list[list[LimitChange]] = [needed]
    if not trial.admits(needed):
        ways = [_joined(needed, trial.total(amounts)), _joined(needed, trial.minimums(amounts))]
    for changes in ways:
        if trial.admits(changes):
            least = trial.least(changes)
            cost = exact(sum(change.amount - trial.before(change) for change in least))
            yield Change("limits", (), cost, (), request, tuple(least))


def _joined(first: Iterable[LimitChange], then: Iterable[LimitChange]) -> list[LimitChange]:
    """The changes of both; of a limit in both the larger amount."""
    largest = {(change.quota, change.limit, change.dimension): change for change in first}
    for change in then:
        key = change.quota, change.limit, change.dimension
        if key not in largest or largest[key].amount < change.amount:
            largest[key] = change
    return list(largest.values())


class LimitTrial:
    """Tries on a copy of a tree which higher limits would admit an owner.

    :param tree: the tree with the owner submitted; it does not change.
    :param names: its quotas and totals.
    :param decision: the tree's decision on the owner, which is not "bind".
    :param branch: the copy.
    :param forbid_borrowing: forbids an owner, by name, to borrow in the copy.
    """

    def __init__(
        self,
        tree: QuotaAdmission,
        names: Names,
        decision: QuotaDecision,
        branch: QuotaAdmission,
        forbid_borrowing: Callable[[str], None],
    ) -> None:
        self.tree, self.names, self.decision = tree, names, decision
        self.request, self.members, _ = decision._asks[0]
        self.branch, self.forbid_borrowing = branch, forbid_borrowing
        self.path = names.path(self.request.quota)[::-1]
        self.may_borrow = tree.may_borrow(self.request.name)
        self.touched: set[tuple[str, str]] = set()

    def needed(self, amounts: dict[str, Amount]) -> Iterator[LimitChange]:
        """The maximums to raise, and the minimum of an owner that is not preemptible."""
        for place in self.path:
            yield from self._raised(place, "max", self.tree.status(place).used, amounts)
        if not self.request.preemptible:
            firm = self.tree.status(self.path[-1]).non_preemptible
            yield from self._raised(self.path[-1], "min", firm, amounts)

    def minimums(self, amounts: dict[str, Amount]) -> Iterator[LimitChange]:
        """The minimums of the path to raise, so that the owner is within them."""
        for place in self.path:
            yield from self._raised(place, "min", self.tree.status(place).used, amounts)

    def total(self, amounts: dict[str, Amount]) -> Iterator[LimitChange]:
        """The total, raised as far as possible."""
        for dimension, _ in self.names.quotas[self.request.quota].max:
            if dimension in amounts:
                yield LimitChange("", "total", dimension, self.names.most(dimension))

    def _raised(
        self, place: str, limit: str, used: Mapping[str, Amount], amounts: dict[str, Amount]
    ) -> Iterator[LimitChange]:
        limits = dict(getattr(self.names.quotas[place], limit))
        for dimension, amount in amounts.items():
            if dimension in used and used[dimension] + amount > limits.get(dimension, 0):
                use = exact(used[dimension] + amount)
                yield LimitChange(place, limit, dimension, min(use, self.names.most(dimension)))

    def before(self, change: LimitChange) -> Amount:
        """What the limit is now."""
        if change.limit == "total":
            total, _ = self.tree.declared_total(self.tree.tree_of(self.request.quota))
            return total.get(change.dimension, 0)
        limits: Amounts = getattr(self.names.quotas[change.quota], change.limit)
        return dict(limits).get(change.dimension, 0)

    def admits(self, changes: Iterable[LimitChange]) -> bool:
        """Whether the owner fits with these changes alone."""
        raised: dict[tuple[str, str], dict[str, Amount]] = {key: {} for key in self.touched}
        for change in changes:
            where = change.quota, change.limit
            raised[where] = {**raised.get(where, {}), change.dimension: change.amount}
        self.touched.update(raised)
        try:
            for place in {place for place, _ in raised if place}:
                quota = self.names.quotas[place]
                limits: dict[str, Any] = {
                    limit: {**dict(getattr(quota, limit)), **raised.get((place, limit), {})}
                    for limit in ("max", "min")
                }
                self.branch.set_quota(quota.replace(**limits))
            if (more := raised.get(("", "total"))) is not None:
                root = self.tree.tree_of(self.request.quota)
                total, carved = self.tree.declared_total(root)
                self.branch.set_total({**total, **more}, tree=root, carved=carved)
        except ValueError:
            return False  # a sum would be too large, or a minimum above its maximum
        if not self.may_borrow:
            # A changed limit is an event, which would allow it to borrow whichever limit it is.
            self.forbid_borrowing(self.request.name)
        return self.branch.fits(self.request.name)

    def least(self, changes: list[LimitChange]) -> list[LimitChange]:
        """The changes with amounts of which none can be lower; without those that raise nothing."""
        now = [self.before(change) for change in changes]
        lowered, last = list(changes), list[LimitChange]()
        while lowered != last:
            last = list(lowered)
            for i, change in enumerate(last):
                names, name = self.names, change.dimension
                high = names.counted(name, change.amount)
                low = min(names.counted(name, now[i]), high)
                while low < high:
                    middle = (low + high) // 2
                    lowered[i] = change.replace(amount=names.amount(name, middle))
                    low, high = (low, middle) if self.admits(lowered) else (middle + 1, high)
                lowered[i] = change.replace(amount=names.amount(name, high))
        return [
            change for change, before in zip(lowered, now, strict=True) if change.amount > before
        ]
