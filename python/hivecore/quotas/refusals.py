"""The reasons why owners are not admitted."""

from collections.abc import Mapping

from hivecore._thousandths import exact
from hivecore.decisions import Refusal
from hivecore.quotas._amounts import MOST, Amount
from hivecore.quotas._names import Names
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest

__all__ = ["CODES", "Asks", "after_outside", "refused"]

#: In the order of the kernel.
CODES = ("", "runtime", "max", "min", "total", "evicted")

#: Requests, each with the members that it gets and those that it has.
Asks = tuple[tuple[QuotaRequest, int, int], ...]
_Vector = dict[str, Amount]


def refused(tree: QuotaLedger, names: Names, code: str, part: str, asks: Asks) -> Refusal:
    """The refusal of owners by a part of a tree; its reason is "" if it does not refuse."""
    if code == "evicted":
        reason = f"was evicted and would borrow in {part!r}: waits until something else happens"
        return Refusal("quotas", code, reason, part)
    demand = _asked_below(names, part, asks, code == "min")
    used, limits = _used_and_limits(tree, names, code, part, asks)
    what = "the total" if code == "total" else f"{code} of {part!r}"
    most = names.most
    if any(
        used.get(dimension, 0) + amount > most(dimension) for dimension, amount in demand.items()
    ):
        return Refusal("quotas", code, f"a sum would be above {MOST}", part)
    lacking = [
        dimension
        for dimension, amount in sorted(demand.items())
        if used.get(dimension, 0) + amount > limits.get(dimension, 0)
    ]
    if code == "total" and not lacking:
        # The owners may be of several trees: another total may refuse.
        root = names.tree_of(asks[0][0].quota)
        others = tuple(ask for ask in asks if names.tree_of(ask[0].quota) != root)
        if others:
            return refused(tree, names, code, part, others)
    sums = ", ".join(
        f"{dimension}: {used.get(dimension, 0)} used + {demand[dimension]} asked > "
        f"{limits.get(dimension, 0)}"
        for dimension in lacking
    )
    has_total = code == "min" or (part and names.quotas[part].outside)
    hint = "" if has_total else _without_total(names, part or asks[0][0].quota, lacking)
    return Refusal("quotas", code, f"{what} is exceeded ({sums}){hint}" if lacking else "", part)


def after_outside(tree: QuotaLedger, asks: Asks) -> QuotaLedger:
    """A copy of the tree in which the owners of outside quotas in ``asks`` have what they request:
    it is subtracted from the total before other owners get anything. If none or all of ``asks`` are
    for outside quotas: the tree itself.
    """
    outside = [ask for ask in asks if tree.quota(ask[0].quota).outside]
    if not outside or len(outside) == len(asks):
        return tree
    branch = tree.copy()
    for request, members, before in outside:
        branch.release(request.name)
        branch.recover(request, before + members)
    return branch


def _used_and_limits(
    tree: QuotaLedger, names: Names, code: str, part: str, asks: Asks
) -> tuple[_Vector, Mapping[str, Amount]]:
    """Usage and limits of a quota, or of the tree of the first request."""
    if code == "total":
        root = names.tree_of(asks[0][0].quota)
        used: _Vector = {}
        for name in names.children("", root):
            if not names.quotas[name].outside:
                for dimension, amount in tree.status(name).used.items():
                    used[dimension] = exact(used.get(dimension, 0) + amount)
        return used, after_outside(tree, asks).total(root)
    status, quota = tree.status(part), names.quotas[part]
    if code == "runtime":
        return status.used, after_outside(tree, asks).runtime(part)
    if code == "min":
        return status.non_preemptible, dict(quota.min)
    return status.used, dict(quota.max)


def _without_total(names: Names, quota: str, lacking: list[str]) -> str:
    """A hint if the tree has no total of these dimensions."""
    root = names.tree_of(quota)
    total, _ = names.totals.get(root, ((), False))
    missing = [dimension for dimension in lacking if dimension not in dict(total)]
    if not missing:
        return ""
    where = f" of tree {root!r}" if root else ""
    return f"; no total{where} is set for {', '.join(missing)}: see set_total"


def _asked_below(names: Names, part: str, asks: Asks, firm: bool) -> _Vector:
    """The part of the requests that counts at a quota; "": at the root of the first one's tree."""
    sums: _Vector = {}
    root = names.tree_of(asks[0][0].quota)
    for request, members, _ in asks:
        path = names.path(request.quota)
        outside = names.quotas[path[-1]].outside
        here = part in path if part else not outside and names.tree_of(path[0]) == root
        if not here or (firm and request.preemptible):
            continue
        managed = dict(names.quotas[request.quota].max)
        for dimension, amount in request.amounts:
            if dimension in managed:
                sums[dimension] = exact(sums.get(dimension, 0) + amount * members)
    return sums
