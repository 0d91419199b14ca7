"""Why owners are not admitted, in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hivecore._thousandths import exact
from hivecore.decisions import Refusal
from hivecore.quotas._amounts import MOST, Amount
from hivecore.quotas.quota_request import QuotaRequest

if TYPE_CHECKING:
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["CODES", "after_outside", "refused"]

#: In the order of the kernel.
CODES = ("", "runtime", "max", "min", "total", "evicted")

_Asks = tuple[tuple[QuotaRequest, int, int], ...]
_Vector = dict[str, Amount]


def refused(tree: "QuotaTree", code: str, part: str, asks: _Asks) -> Refusal:
    """What a part of a tree has against owners, "" if nothing; it is the caller's turn."""
    if code == "evicted":
        reason = f"was evicted and would borrow in {part!r}: waits until something else happens"
        return Refusal("quotas", code, reason, part)
    demand = _asked_below(tree, part, asks, code == "min")
    used, limits = _of_total(tree, asks) if code == "total" else _of_quota(tree, code, part, asks)
    what = "the total" if code == "total" else f"{code} of {part!r}"
    most = tree._names.most
    if any(used.get(one, 0) + amount > most(one) for one, amount in demand.items()):
        return Refusal("quotas", code, f"a sum would be above {MOST}", part)
    lacking = [
        dimension
        for dimension, amount in sorted(demand.items())
        if used.get(dimension, 0) + amount > limits.get(dimension, 0)
    ]
    if code == "total" and not lacking:
        # It may be that of another tree, if they are of several.
        root = tree._names.tree_of(asks[0][0].quota)
        others = tuple(ask for ask in asks if tree._names.tree_of(ask[0].quota) != root)
        if others:
            return refused(tree, code, part, others)
    sums = ", ".join(
        f"{dimension}: {used.get(dimension, 0)} used + {demand[dimension]} asked > "
        f"{limits.get(dimension, 0)}"
        for dimension in lacking
    )
    has_total = code == "min" or (part and tree._names.quotas[part].outside)
    hint = "" if has_total else _without_total(tree, part or asks[0][0].quota, lacking)
    return Refusal("quotas", code, f"{what} is exceeded ({sums}){hint}" if lacking else "", part)


def after_outside(tree: "QuotaTree", asks: _Asks) -> "QuotaTree":
    """The tree in which owners of outside quotas have what they ask for, if others ask beside them:
    it is taken off the total before these get anything.
    """
    outside = [ask for ask in asks if tree.quota(ask[0].quota).outside]
    if not outside or len(outside) == len(asks):
        return tree
    branch = tree.copy()
    for request, members, before in outside:
        branch.release(request.name)
        branch.recover(request, before + members)
    return branch


def _of_total(tree: "QuotaTree", asks: _Asks) -> tuple[_Vector, _Vector]:
    """What is used of the tree of the first ask, and what it has."""
    root = tree._names.tree_of(asks[0][0].quota)
    used: _Vector = {}
    for name in tree._names.children("", root):
        if not tree._names.quotas[name].outside:
            for dimension, amount in tree.status(name).used.items():
                used[dimension] = exact(used.get(dimension, 0) + amount)
    return used, after_outside(tree, asks).total(root)


def _of_quota(
    tree: "QuotaTree", code: str, part: str, asks: _Asks
) -> tuple[_Vector, Mapping[str, Amount]]:
    """What is used of a quota, and one of its limits."""
    status, quota = tree.status(part), tree._names.quotas[part]
    if code == "runtime":
        return status.used, after_outside(tree, asks).runtime(part)
    return (
        (status.non_preemptible, dict(quota.min))
        if code == "min"
        else (status.used, dict(quota.max))
    )


def _without_total(tree: "QuotaTree", quota: str, lacking: list[str]) -> str:
    """What to do where a tree says nothing of dimensions, of which it has nothing then."""
    root = tree._names.tree_of(quota)
    total, _ = tree._names.totals.get(root, ((), False))
    missing = [dimension for dimension in lacking if dimension not in dict(total)]
    if not missing:
        return ""
    where = f" of tree {root!r}" if root else ""
    return f"; no total{where} is set for {', '.join(missing)}: see set_total"


def _asked_below(tree: "QuotaTree", part: str, asks: _Asks, firm: bool) -> _Vector:
    """What of the asks counts at a quota, or "" at the root of the first one's tree."""
    sums: _Vector = {}
    root = tree._names.tree_of(asks[0][0].quota)
    for request, members, _ in asks:
        path = tree._names.path(request.quota)
        outside = tree._names.quotas[path[-1]].outside
        here = part in path if part else not outside and tree._names.tree_of(path[0]) == root
        if not here or (firm and request.preemptible):
            continue
        managed = dict(tree._names.quotas[request.quota].max)
        for dimension, amount in request.amounts:
            if dimension in managed:
                sums[dimension] = exact(sums.get(dimension, 0) + amount * members)
    return sums
