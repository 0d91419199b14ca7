"""Why owners are not admitted, and what would admit them, each change tried on a copy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hivecore.decisions import Change, Explanation, Refusal
from hivecore.quotas._amounts import MOST
from hivecore.quotas.quota_decision import QuotaDecision
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import refused

if TYPE_CHECKING:
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["LimitChange", "explain"]


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A limit that is raised.

    :param quota: whose; "": the tree's total.
    :param limit: "max", "min" or "total".
    :param dimension: of which dimension.
    :param amount: what it has to be, at least.
    """

    quota: str
    limit: str
    dimension: str
    amount: int


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
    reason = refusals[0].reason if refusals else _reason(decision)
    changes = sorted(_changes(branch, mine, decision), key=lambda one: (one.kind, one.cost))
    order = ("preempt", "release", "limits")
    changes.sort(key=lambda one: order.index(one.kind))
    return Explanation(decision.outcome, reason, refusals, tuple(changes))


def _reason(decision: QuotaDecision) -> str:
    return decision.refusal.reason if decision.refusal else ""


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
    for code, place in [*places, ("min", quota)]:
        found = refused(tree, code, place, asks)
        if found.reason:
            yield found
    if decision.refusal is not None and decision.refusal.code == "evicted":
        yield decision.refusal


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
        if tree.members(name) and tree._names.tree_of(tree.request(name).quota) == root
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
    for name in leaving if len(leaving) <= 64 else ():
        if admits([one for one in leaving if one != name]):
            leaving = [one for one in leaving if one != name]
    return tuple(leaving)


def _raised(tree: "QuotaTree", request: QuotaRequest, decision: QuotaDecision) -> Iterator[Change]:
    """Limits that admit it when they are raised together: maximums as far as needed, and either the
    total or the minimums of the path.
    """
    path = tree._names.path(request.quota)
    members = decision._asks[0][1]
    asked = {dimension: amount * members for dimension, amount in request.amounts}
    branch = tree.copy()
    done: list[LimitChange] = []
    for place in reversed(path):
        quota = branch.quota(place)
        most, used = dict(quota.max), branch.status(place).used
        for dimension, amount in asked.items():
            if dimension in most and used[dimension] + amount > most[dimension]:
                most[dimension] = used[dimension] + amount
                done.append(LimitChange(place, "max", dimension, most[dimension]))
        if any(amount > MOST for amount in most.values()):
            return
        branch.set_quota(quota.replace(max=most))
    if not request.preemptible:
        quota = branch.quota(request.quota)
        least, firm = dict(quota.min), branch.status(request.quota).non_preemptible
        for dimension, amount in asked.items():
            if dimension in firm and firm[dimension] + amount > least.get(dimension, 0):
                least[dimension] = firm[dimension] + amount
                done.append(LimitChange(request.quota, "min", dimension, least[dimension]))
        branch.set_quota(quota.replace(min=least))
    if branch.fits(request.name):
        yield _limits(tree, request, done)
        return
    for way in (_more_total, _more_minimum):
        changes = way(branch.copy(), request, asked)
        if changes is not None:
            yield _limits(tree, request, [*done, *changes])


def _limits(tree: "QuotaTree", request: QuotaRequest, changes: list[LimitChange]) -> Change:
    cost = 0
    for one in changes:
        if one.limit == "total":
            root = tree._names.tree_of(request.quota)
            before = dict(tree._names.totals.get(root, ((), False))[0])
        else:
            before = dict(getattr(tree.quota(one.quota), one.limit))
        cost += one.amount - before.get(one.dimension, 0)
    return Change("limits", (), cost, (), request, tuple(changes))


def _least(high: int, admits: Callable[[int], bool]) -> int | None:
    """The least number up to a bound that admits; ``None``: the bound does not."""
    if not admits(high):
        return None
    low = 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if admits(middle) else (middle + 1, high)
    return low


def _more_total(
    branch: "QuotaTree", request: QuotaRequest, asked: dict[str, int]
) -> list[LimitChange] | None:
    """One dimension after the other, each as little as will do when the others are unlimited."""
    root = branch._names.tree_of(request.quota)
    total, carved = branch._names.totals.get(root, ((), False))
    before = dict(total)
    managed = [dimension for dimension, _ in branch.quota(request.quota).max]
    most = {**before, **{d: MOST for d in managed if d in asked}}
    found = dict(most)

    def admits(totals: dict[str, int]) -> bool:
        branch.set_total(totals, tree=root, carved=carved)
        return branch.fits(request.name)

    changes = []
    for dimension in [one for one in managed if one in asked]:
        base = before.get(dimension, 0)
        more = _least(MOST - base, lambda n, d=dimension, b=base: admits({**found, d: b + n}))  # type: ignore[misc]
        if more is None:
            return None
        found[dimension] = base + more
        if more:
            changes.append(LimitChange("", "total", dimension, base + more))
    return changes if admits(found) else None


def _more_minimum(
    branch: "QuotaTree", request: QuotaRequest, asked: dict[str, int]
) -> list[LimitChange] | None:
    """The minimums of the path, so that it is within them."""
    changes = []
    for place in reversed(branch._names.path(request.quota)):
        quota = branch.quota(place)
        if quota.outside:
            return None
        least, used = dict(quota.min), branch.status(place).used
        for dimension, amount in asked.items():
            if dimension in used and used[dimension] + amount > least.get(dimension, 0):
                least[dimension] = used[dimension] + amount
                changes.append(LimitChange(place, "min", dimension, least[dimension]))
        branch.set_quota(quota.replace(min=least))
    return changes if branch.fits(request.name) else None
