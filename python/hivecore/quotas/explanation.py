"""Why owners are not admitted, and what would admit them, each change tried on a copy."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hivecore._record import Record
from hivecore._thousandths import exact
from hivecore.decisions import Change, Explanation, Refusal
from hivecore.quotas._amounts import Amount, Amounts
from hivecore.quotas.quota_decision import QuotaDecision
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import refused

if TYPE_CHECKING:
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["LimitChange", "explain", "raise_limits"]


class LimitChange(Record, frozen=True):
    """A limit that is raised.

    :param quota: the quota; "": it is the total of the tree.
    :param limit: "max", "min" or "total".
    :param dimension: its dimension.
    :param amount: the least amount that suffices.
    """

    quota: str
    limit: str
    dimension: str
    amount: Amount


def explain(tree: "QuotaTree", request: QuotaRequest | str) -> Explanation:
    """It is the caller's turn."""
    branch = tree.copy()
    if not isinstance(request, str):
        if request.name not in branch._owners:
            branch.submit(request)
        elif branch.request(request.name) != request:
            raise ValueError(f"request: {request.name!r} has asked for something else")
    name = request if isinstance(request, str) else request.name
    decision = branch.schedule(name)
    mine = branch.request(name)
    if decision.outcome == "bind":
        return Explanation("bind", "", (), ())
    refusals = tuple(_refusals(branch, decision))
    changes = sorted(_changes(branch, mine, decision), key=lambda one: (one.kind, one.cost))
    order = ("preempt", "release", "limits")
    changes.sort(key=lambda one: order.index(one.kind))
    return Explanation(decision.outcome, refusals[0].reason, refusals, tuple(changes))


def raise_limits(tree: "QuotaTree", quota: str, changes: Iterable[LimitChange]) -> None:
    """Do what a change for an owner of a quota says; a total is that of the quota's tree."""
    for one in changes:
        if one.limit == "total":
            root = tree._names.tree_of(quota)
            total, carved = tree._names.totals.get(root, ((), False))
            tree.set_total({**dict(total), one.dimension: one.amount}, tree=root, carved=carved)
        else:
            before = tree.quota(one.quota)
            amounts = {**dict(getattr(before, one.limit)), one.dimension: one.amount}
            tree.set_quota(before.replace(**{one.limit: amounts}))


def _refusals(tree: "QuotaTree", decision: QuotaDecision) -> Iterator[Refusal]:
    """What each part of the path has against the owner, from the top down."""
    asks = decision._asks
    limit, check_ancestors, *_ = tree._settings
    quota = asks[0][0].quota
    path = tree._names.path(quota)
    top = tree._names.quotas[path[-1]]
    places = [(limit, place) for place in reversed(path)] if check_ancestors else [(limit, quota)]
    if check_ancestors and not top.outside:
        places.insert(0, ("total", ""))
    found = [refused(tree, code, place, asks) for code, place in [*places, ("min", quota)]]
    yield from (one for one in found if one.reason)
    if decision.refusal is not None and decision.refusal.code == "evicted":
        yield decision.refusal
    elif not any(one.reason for one in found):
        # It would be admitted if it could borrow, or a sum would be too large.
        above = [*reversed(path)] if check_ancestors else []
        over = (name for name in [quota, *above] if refused(tree, "runtime", name, asks).reason)
        yield decision.refusal or refused(tree, "evicted", next(over, quota), asks)


def _changes(tree: "QuotaTree", request: QuotaRequest, decision: QuotaDecision) -> Iterator[Change]:
    if decision.outcome == "preempt":
        yield _leave("preempt", tree, request, decision.victims)
    else:
        within = tree.preempt_within(request.name)
        if within.outcome == "preempt":
            yield _leave("preempt", tree, request, within.victims)
    if (owners := _release(tree, request)) is not None:
        yield _leave("release", tree, request, owners)
    yield from _raised(tree, request, decision)


def _leave(kind: Any, tree: "QuotaTree", request: QuotaRequest, owners: tuple[str, ...]) -> Change:
    return Change(kind, owners, sum(tree.members(name) for name in owners), (), request)


def _release(tree: "QuotaTree", request: QuotaRequest) -> tuple[str, ...] | None:
    """Few owners, whoever they are, whose end would admit it; ``None``: that of nobody would."""
    root = tree._names.tree_of(request.quota)
    others = [
        name
        for name in tree.owners
        if name != request.name
        and tree.members(name)
        and tree._names.tree_of(tree.request(name).quota) == root
    ]
    others.sort(key=lambda name: (-tree.request(name).priority, name))

    def admits(leaving: list[str]) -> bool:
        branch = tree.copy()
        for name in leaving:
            branch.release(name)
        return branch.fits(request.name)

    if not others or not admits(others):
        return None
    # As many of the most important stay as can, by halves.
    low, high = 0, len(others)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if admits(others[middle:]) else (low, middle - 1)
    leaving = others[low:]
    needed = 0  # the first so many were found to be so since somebody was last left out
    while needed < len(leaving) <= 64:
        fewer = [*leaving[1:], leaving[0]]
        if admits(fewer[:-1]):
            leaving, needed = fewer[:-1], 0
        else:
            leaving, needed = fewer, needed + 1
    leaving.sort(key=others.index)
    return tuple(leaving)


def _raised(tree: "QuotaTree", request: QuotaRequest, decision: QuotaDecision) -> Iterator[Change]:
    """Limits that admit it when they are raised together, each as little as will do when the others
    are: maximums and, if it cannot be preempted, the minimum of its quota, or with them either the
    total or the minimums of the path.
    """
    members = decision._asks[0][1]
    managed = {dimension for dimension, _ in tree._names.quotas[request.quota].max}
    asked = {d: exact(amount * members) for d, amount in request.amounts if d in managed}
    needed = list(_needed(tree, request, asked))
    trial = _Trial(tree, request)
    ways: list[list[LimitChange]] = [needed]
    if not trial.admits(needed):
        ways = [
            _joined(needed, _more_total(tree, request, asked)),
            _joined(needed, _more_minimum(tree, request, asked)),
        ]
    for changes in ways:
        if trial.admits(changes):
            least = trial.least(changes)
            cost = exact(sum(one.amount - _before(tree, request, one) for one in least))
            yield Change("limits", (), cost, (), request, tuple(least))


def _needed(
    tree: "QuotaTree", request: QuotaRequest, asked: dict[str, Amount]
) -> Iterator[LimitChange]:
    """Maximums, and the minimum of one who cannot be preempted, that leave room for it."""
    most = tree._names.most
    for place in reversed(tree._names.path(request.quota)):
        status = tree.status(place)
        for dimension, limit in tree._names.quotas[place].max:
            use = exact(status.used[dimension] + asked.get(dimension, 0))
            if dimension in asked and use > limit:
                yield LimitChange(place, "max", dimension, min(use, most(dimension)))
    if not request.preemptible:
        firm = tree.status(request.quota).non_preemptible
        least = dict(tree._names.quotas[request.quota].min)
        for dimension, amount in asked.items():
            if dimension in firm and firm[dimension] + amount > least.get(dimension, 0):
                use = exact(firm[dimension] + amount)
                yield LimitChange(request.quota, "min", dimension, min(use, most(dimension)))


def _more_total(
    tree: "QuotaTree", request: QuotaRequest, asked: dict[str, Amount]
) -> Iterator[LimitChange]:
    for dimension, _ in tree._names.quotas[request.quota].max:
        if dimension in asked:
            yield LimitChange("", "total", dimension, tree._names.most(dimension))


def _more_minimum(
    tree: "QuotaTree", request: QuotaRequest, asked: dict[str, Amount]
) -> Iterator[LimitChange]:
    """The minimums of the path, so that it is within them."""
    for place in reversed(tree._names.path(request.quota)):
        used = tree.status(place).used
        least = dict(tree._names.quotas[place].min)
        for dimension, amount in asked.items():
            if dimension in used and used[dimension] + amount > least.get(dimension, 0):
                use = exact(used[dimension] + amount)
                yield LimitChange(place, "min", dimension, min(use, tree._names.most(dimension)))


def _joined(first: Iterable[LimitChange], then: Iterable[LimitChange]) -> list[LimitChange]:
    """Both, the larger amount of a limit that is in both."""
    found = {(one.quota, one.limit, one.dimension): one for one in first}
    for one in then:
        key = one.quota, one.limit, one.dimension
        if key not in found or found[key].amount < one.amount:
            found[key] = one
    return list(found.values())


def _before(tree: "QuotaTree", request: QuotaRequest, change: LimitChange) -> Amount:
    """What the limit is now."""
    if change.limit == "total":
        total, _ = tree._names.totals.get(tree._names.tree_of(request.quota), ((), False))
        return dict(total).get(change.dimension, 0)
    limits: Amounts = getattr(tree._names.quotas[change.quota], change.limit)
    return dict(limits).get(change.dimension, 0)


class _Trial:
    """A copy of a tree on which limits are raised and put back."""

    def __init__(self, tree: "QuotaTree", request: QuotaRequest) -> None:
        self.tree, self.request = tree, request
        self.branch = tree.copy()
        self.owner = tree._number(request.name)
        *_, self.may_borrow = tree._core.owner(self.owner)
        self.touched: set[tuple[str, str]] = set()

    def admits(self, changes: Iterable[LimitChange]) -> bool:
        """Whether it fits with these and all else as it was."""
        raised: dict[tuple[str, str], dict[str, Amount]] = {key: {} for key in self.touched}
        for one in changes:
            where = one.quota, one.limit
            raised[where] = {**raised.get(where, {}), one.dimension: one.amount}
        self.touched.update(raised)
        names = self.tree._names
        try:
            for place in {place for place, _ in raised if place}:
                quota = names.quotas[place]
                limits: dict[str, Any] = {
                    limit: {**dict(getattr(quota, limit)), **raised.get((place, limit), {})}
                    for limit in ("max", "min")
                }
                self.branch.set_quota(quota.replace(**limits))
            if (more := raised.get(("", "total"))) is not None:
                root = names.tree_of(self.request.quota)
                total, carved = names.totals.get(root, ((), False))
                self.branch.set_total({**dict(total), **more}, tree=root, carved=carved)
        except ValueError:
            return False  # a sum would be too large, or a minimum above its maximum
        if not self.may_borrow:
            # That limits change is an event, but no reason to raise this one and not any other.
            self.branch._core.forbid_borrowing(self.owner)
        return self.branch.fits(self.request.name)

    def least(self, changes: list[LimitChange]) -> list[LimitChange]:
        """One after the other as little as will do, until all stay; those that need not be raised
        are left out.
        """
        now = [_before(self.tree, self.request, one) for one in changes]
        found, last = list(changes), list[LimitChange]()
        while found != last:
            last = list(found)
            for i, one in enumerate(last):
                names, name = self.tree._names, one.dimension
                high = names.counted(name, one.amount)
                low = min(names.counted(name, now[i]), high)
                while low < high:
                    middle = (low + high) // 2
                    found[i] = one.replace(amount=names.amount(name, middle))
                    low, high = (low, middle) if self.admits(found) else (middle + 1, high)
                found[i] = one.replace(amount=names.amount(name, high))
        return [one for one, before in zip(found, now, strict=True) if one.amount > before]
