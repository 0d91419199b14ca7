"""A decision is checked by the owners and quotas alone: sums are added up anew, by name.

What is compared with is what the tree says of its limits, runtimes and total. What owners ask for
is what the tree knows of them; of those it does not know yet, what the decision says, as if they
had been submitted.
"""

from typing import TYPE_CHECKING

from hivecore.errors import CertificateError
from hivecore.quotas._amounts import Amount
from hivecore.quotas.refusals import after_outside

if TYPE_CHECKING:
    from hivecore.quotas.quota_decision import QuotaDecision
    from hivecore.quotas.quota_request import QuotaRequest
    from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["check_decision"]

_Vector = dict[str, Amount]


def check_decision(decision: "QuotaDecision", tree: "QuotaTree") -> None:
    """Raise `CertificateError` with the first rule that a decision breaks."""
    if decision.outcome == "wait":
        return
    _check_owners(decision, tree)
    _check_victims(decision, tree)
    tree = _with_new_owners(decision, tree)
    used, firm = _sums(decision, tree)
    limits = _with_outside(decision, tree)
    limit, check_ancestors, *_ = tree._settings
    quotas = {request.quota for request, _, _ in decision._asks}
    # An owner that reclaims from other quotas is within the runtimes of all that is checked.
    reclaims = bool(decision.victims) and not any(
        tree.request(victim).quota in quotas for victim in decision.victims
    )
    by_runtime = limit == "runtime" or reclaims
    for request, _, _ in decision._asks:
        managed = {dimension for dimension, _ in tree.quota(request.quota).max}
        wanted = {dimension for dimension, _ in request.amounts if dimension in managed}
        path = _path(tree, request.quota)
        for place in path if check_ancestors else path[:1]:
            _check_limit(limits, place, by_runtime, used.get(place, {}), wanted)
        if not request.preemptible:
            _check_minimum(tree, request.quota, firm.get(request.quota, {}), wanted)
        top = tree.quota(path[-1])
        if check_ancestors and not top.outside:
            _check_total(limits, top.tree, used, wanted)


def _check_owners(decision: "QuotaDecision", tree: "QuotaTree") -> None:
    """They are those that the tree knows, and get as many members as they can have."""
    for request, members, before in decision._asks:
        known = request.name in tree.owners
        if known and tree.request(request.name) != request:
            raise CertificateError(f"{request.name!r} has asked for something else")
        runs = tree.members(request.name) if known else 0
        if runs != before:
            raise CertificateError(f"{request.name!r} has {runs} members, not {before}")
        if not (1 if runs else request.min_count) <= members <= request.count - runs:
            raise CertificateError(f"{request.name!r} cannot have {members} members more")
    if len({request.name for request, _, _ in decision._asks}) != len(decision._asks):
        raise CertificateError("an owner is there twice")


def _check_victims(decision: "QuotaDecision", tree: "QuotaTree") -> None:
    """They run and can be preempted; whoever binds has none, whoever preempts has some."""
    if (decision.outcome == "preempt") != bool(decision.victims):
        raise CertificateError(f"{decision.outcome!r} has {len(decision.victims)} victims")
    if len(set(decision.victims)) != len(decision.victims):
        raise CertificateError("a victim is there twice")
    for name in decision.victims:
        if name not in tree.owners or not tree.members(name):
            raise CertificateError(f"victim {name!r} does not run")
        if not tree.request(name).preemptible:
            raise CertificateError(f"victim {name!r} cannot be preempted")


def _with_new_owners(decision: "QuotaDecision", tree: "QuotaTree") -> "QuotaTree":
    """What those ask for who were not submitted counts in the runtimes, too."""
    new = [request for request, _, _ in decision._asks if request.name not in tree.owners]
    if not new:
        return tree
    branch = tree.copy()
    try:
        branch.submit_many(new)
    except (KeyError, ValueError) as error:
        raise CertificateError(f"{new[0].name!r} cannot ask for that: {error}") from error
    return branch


def _with_outside(decision: "QuotaDecision", tree: "QuotaTree") -> "QuotaTree":
    """The limits of the others when owners of outside quotas have what they ask for."""
    try:
        return after_outside(tree, decision._asks)
    except ValueError as error:
        raise CertificateError(f"so much cannot be used: {error}") from error


def _sums(
    decision: "QuotaDecision", tree: "QuotaTree"
) -> tuple[dict[str, _Vector], dict[str, _Vector]]:
    """What would be used at each quota and below it, and of that by owners that cannot be
    preempted.
    """
    used: dict[str, _Vector] = {}
    firm: dict[str, _Vector] = {}
    for name in tree.owners:
        request = tree.request(name)
        members = 0 if name in decision.victims else tree.members(name)
        for place in _path(tree, request.quota):
            _add(tree, request, members, used.setdefault(place, {}))
            if not request.preemptible:
                _add(tree, request, members, firm.setdefault(place, {}))
    for name, more in {request.name: more for request, more, _ in decision._asks}.items():
        known = tree.request(name)
        for place in _path(tree, known.quota):
            _add(tree, known, more, used.setdefault(place, {}))
            if not known.preemptible:
                _add(tree, known, more, firm.setdefault(place, {}))
    return used, firm


def _add(tree: "QuotaTree", request: "QuotaRequest", members: int, to: _Vector) -> None:
    managed = {dimension for dimension, _ in tree.quota(request.quota).max}
    for dimension, amount in request.amounts:
        if dimension in managed:
            to[dimension] = to.get(dimension, 0) + amount * members


def _check_limit(
    tree: "QuotaTree", place: str, by_runtime: bool, used: _Vector, wanted: set[str]
) -> None:
    if by_runtime:
        _compare(f"runtime of {place!r}", used, tree.runtime(place), wanted)
    else:
        _compare(f"max of {place!r}", used, dict(tree.quota(place).max), wanted)


def _check_minimum(tree: "QuotaTree", quota: str, firm: _Vector, wanted: set[str]) -> None:
    _compare(f"min of {quota!r}", firm, dict(tree.quota(quota).min), wanted)


def _check_total(tree: "QuotaTree", root: str, used: dict[str, _Vector], wanted: set[str]) -> None:
    sums: _Vector = {}
    for name in tree.quotas:
        quota = tree.quota(name)
        if not quota.parent and quota.tree == root and not quota.outside:
            for dimension, amount in used.get(name, {}).items():
                sums[dimension] = sums.get(dimension, 0) + amount
    _compare("the total", sums, tree.total(root), wanted)


def _path(tree: "QuotaTree", quota: str) -> list[str]:
    found = [quota]
    while parent := tree.quota(found[-1]).parent:
        found.append(parent)
    return found


def _compare(what: str, used: _Vector, limits: _Vector, wanted: set[str]) -> None:
    for dimension in sorted(wanted):
        amount = used.get(dimension, 0)
        if amount > limits.get(dimension, 0):
            raise CertificateError(
                f"{what} is {limits.get(dimension, 0)} {dimension}, {amount} would be used"
            )
