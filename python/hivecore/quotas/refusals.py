"""Why owners are not admitted, in words."""

from typing import TYPE_CHECKING

from hivecore.decisions import Refusal
from hivecore.quotas._amounts import MOST
from hivecore.quotas.quota_request import QuotaRequest

if TYPE_CHECKING:
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["CODES", "refused"]

#: In the order of the kernel.
CODES = ("", "runtime", "max", "min", "total", "evicted")

_Asks = tuple[tuple[QuotaRequest, int, int], ...]


def refused(tree: "QuotaTree", code: str, part: str, asks: _Asks) -> Refusal:
    """What a part of a tree has against owners, "" if nothing; it is the caller's turn."""
    if code == "evicted":
        reason = f"was evicted and would borrow in {part!r}: waits until something else happens"
        return Refusal("quotas", code, reason, part)
    asked = _asked_below(tree, part, asks, code == "min")
    if code == "total":
        root = tree._names.tree_of(asks[0][0].quota)
        limits = tree.total(root)
        used: dict[str, int] = {}
        for name in tree._names.children("", root):
            if not tree._names.quotas[name].outside:
                for dimension, amount in tree.status(name).used.items():
                    used[dimension] = used.get(dimension, 0) + amount
        what = "the total"
    else:
        status = tree.status(part)
        quota = tree._names.quotas[part]
        limits = {"runtime": status.runtime, "max": dict(quota.max), "min": dict(quota.min)}[code]
        used = status.non_preemptible if code == "min" else status.used
        what = f"{code} of {part!r}"
    if any(used.get(dimension, 0) + amount > MOST for dimension, amount in asked.items()):
        return Refusal("quotas", code, f"a sum would be above {MOST}", part)
    lacking = [
        f"{dimension}: {used.get(dimension, 0)} used + {amount} asked > {limits.get(dimension, 0)}"
        for dimension, amount in sorted(asked.items())
        if used.get(dimension, 0) + amount > limits.get(dimension, 0)
    ]
    if code == "total" and not lacking:
        # It may be that of another tree, if they are of several.
        others = tuple(one for one in asks if tree._names.tree_of(one[0].quota) != root)
        if others:
            return refused(tree, code, part, others)
    reason = f"{what} is exceeded ({', '.join(lacking)})" if lacking else ""
    return Refusal("quotas", code, reason, part)


def _asked_below(tree: "QuotaTree", part: str, asks: _Asks, firm: bool) -> dict[str, int]:
    """What of the asks counts at a quota, or "" at the root of the first one's tree."""
    found: dict[str, int] = {}
    root = tree._names.tree_of(asks[0][0].quota)
    for request, members, _ in asks:
        path = tree._names.path(request.quota)
        here = part in path if part else tree._names.tree_of(request.quota) == root
        if not here or (firm and (request.preemptible or request.quota != part)):
            continue
        managed = dict(tree._names.quotas[request.quota].max)
        for dimension, amount in request.amounts:
            if dimension in managed:
                found[dimension] = found.get(dimension, 0) + amount * members
    return found
