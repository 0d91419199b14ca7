"""A decision is checked by the owners and quotas alone: sums are added up anew, by name.

What is compared with is what the tree says of its runtimes, of which it is checked that no more is
given out than there is.
"""

from typing import TYPE_CHECKING

from hivecore.errors import CertificateError

if TYPE_CHECKING:
    from hivecore.quotas.quota_decision import QuotaDecision
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["check_decision"]

Vector = dict[str, int]


def check_decision(decision: "QuotaDecision", tree: "QuotaTree") -> None:
    """Raise `CertificateError` with the first rule that a decision breaks."""
    asked = {grant.owner: grant.members for grant in decision.placement}
    requests = {one.name: one for one, _, _ in decision._asks}
    if decision.outcome == "preempt":
        asked = {one.name: members for one, members, _ in decision._asks}
    if not asked:
        return
    leaving = set(decision.victims)
    used: dict[str, Vector] = {}
    firm: dict[str, Vector] = {}
    for name in {*tree.owners, *asked}:
        request = requests[name] if name in requests else tree.request(name)
        runs = tree.members(name) if name in tree.owners and name not in leaving else 0
        members = runs + asked.get(name, 0)
        managed = {dimension for dimension, _ in tree.quota(request.quota).max}
        for place in _path(tree, request.quota):
            for dimension, amount in request.amounts:
                if dimension in managed:
                    _add(used, place, dimension, amount * members)
                    if not request.preemptible:
                        _add(firm, place, dimension, amount * members)
    limit, check_ancestors, *_ = tree._settings
    for name in asked:
        request = requests[name]
        wanted = {dimension for dimension, amount in request.amounts if amount}
        path = _path(tree, request.quota)
        for place in path if check_ancestors else path[:1]:
            quota = tree.quota(place)
            by_runtime = limit == "runtime" or decision.outcome == "preempt"
            limits = tree.runtime(place) if by_runtime else dict(quota.max)
            _compare(
                f"{'runtime' if by_runtime else 'max'} of {place!r}", used, place, limits, wanted
            )
        if not request.preemptible:
            least = dict(tree.quota(request.quota).min)
            _compare(f"min of {request.quota!r}", firm, request.quota, least, wanted)
        top = tree.quota(path[-1])
        if check_ancestors and not top.outside:
            _check_total(tree, top.tree, used, wanted)


def _check_total(tree: "QuotaTree", root: str, used: dict[str, Vector], wanted: set[str]) -> None:
    there = tree.total(root)
    tops = [name for name in tree.quotas if not tree.quota(name).parent]
    mine = [name for name in tops if tree.quota(name).tree == root and not tree.quota(name).outside]
    for dimension in wanted:
        sum_ = sum(used.get(name, {}).get(dimension, 0) for name in mine)
        if sum_ > there.get(dimension, 0):
            raise CertificateError(
                f"total of {dimension!r} is {there.get(dimension, 0)}, {sum_} would be used"
            )


def _path(tree: "QuotaTree", quota: str) -> list[str]:
    found = [quota]
    while parent := tree.quota(found[-1]).parent:
        found.append(parent)
    return found


def _add(sums: dict[str, Vector], place: str, dimension: str, amount: int) -> None:
    vector = sums.setdefault(place, {})
    vector[dimension] = vector.get(dimension, 0) + amount


def _compare(
    what: str, sums: dict[str, Vector], place: str, limits: Vector, wanted: set[str]
) -> None:
    for dimension, amount in sums.get(place, {}).items():
        if dimension in wanted and amount > limits.get(dimension, 0):
            raise CertificateError(
                f"{what} is {limits.get(dimension, 0)} {dimension}, {amount} would be used"
            )
