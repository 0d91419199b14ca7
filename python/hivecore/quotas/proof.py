"""Checks decisions by the owners and quotas alone: sums are computed again, by name.

Limits, runtimes and the total are those that the tree reports. The request of an owner is the one
that the tree knows; that of an owner which was not submitted is in the decision.
"""

from hivecore._stateful import counted
from hivecore.decisions import Outcome
from hivecore.errors import CertificateError
from hivecore.quotas._amounts import Amount
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import Asks, after_outside

__all__ = ["check_decision"]

_Vector = dict[str, Amount]


def check_decision(
    outcome: Outcome, asks: Asks, victims: tuple[str, ...], tree: QuotaLedger
) -> None:
    """Raise `CertificateError` with the first rule that a decision on a tree breaks."""
    if outcome == "wait":
        return
    _check_owners(asks, tree)
    _check_victims(outcome, victims, tree)
    tree = _with_new_owners(asks, tree)
    used, firm = _sums(asks, victims, tree)
    limits = _with_outside(asks, tree)
    quotas = {request.quota for request, _, _ in asks}
    # An owner whose victims are in other quotas has to be within all runtimes.
    reclaims = bool(victims) and not any(tree.request(victim).quota in quotas for victim in victims)
    by_runtime = tree.limit == "runtime" or reclaims
    for request, _, _ in asks:
        managed = {dimension for dimension, _ in tree.quota(request.quota).max}
        wanted = {dimension for dimension, _ in request.amounts if dimension in managed}
        path = _path(tree, request.quota)
        for place in path if tree.check_ancestors else path[:1]:
            _check_limit(limits, place, by_runtime, used.get(place, {}), wanted)
        if not request.preemptible:
            _check_minimum(tree, request.quota, firm.get(request.quota, {}), wanted)
        top = tree.quota(path[-1])
        if tree.check_ancestors and not top.outside:
            _check_total(limits, top.tree, used, wanted)


def _check_owners(asks: Asks, tree: QuotaLedger) -> None:
    """The owners are as the tree knows them, and get a possible number of members."""
    for request, members, before in asks:
        known = request.name in tree.owners
        if known and tree.request(request.name) != request:
            raise CertificateError(f"{request.name!r} was submitted with other values")
        runs = tree.members(request.name) if known else 0
        if runs != before:
            raise CertificateError(f"{request.name!r} has {counted(runs, 'member')}, not {before}")
        if not (1 if runs else request.min_count) <= members <= request.count - runs:
            raise CertificateError(
                f"{request.name!r} cannot have {counted(members, 'member')} more"
            )
    if len({request.name for request, _, _ in asks}) != len(asks):
        raise CertificateError("an owner occurs twice")


def _check_victims(outcome: Outcome, victims: tuple[str, ...], tree: QuotaLedger) -> None:
    """Victims run and are preemptible; only a decision to preempt has any."""
    if (outcome == "preempt") != bool(victims):
        raise CertificateError(f"{outcome!r} has {counted(len(victims), 'victim')}")
    if len(set(victims)) != len(victims):
        raise CertificateError("a victim occurs twice")
    for name in victims:
        if name not in tree.owners or not tree.members(name):
            raise CertificateError(f"victim {name!r} does not run")
        if not tree.request(name).preemptible:
            raise CertificateError(f"victim {name!r} cannot be preempted")


def _with_new_owners(asks: Asks, tree: QuotaLedger) -> QuotaLedger:
    """The tree with requests that were not submitted yet, which runtimes count."""
    new = [request for request, _, _ in asks if request.name not in tree.owners]
    if not new:
        return tree
    branch = tree.copy()
    try:
        branch.submit_many(new)
    except (KeyError, ValueError) as error:
        raise CertificateError(f"{new[0].name!r} cannot ask for that: {error}") from error
    return branch


def _with_outside(asks: Asks, tree: QuotaLedger) -> QuotaLedger:
    """The tree whose limits hold once owners of outside quotas have what they request."""
    try:
        return after_outside(tree, asks)
    except ValueError as error:
        raise CertificateError(f"so much cannot be used: {error}") from error


def _sums(
    asks: Asks, victims: tuple[str, ...], tree: QuotaLedger
) -> tuple[dict[str, _Vector], dict[str, _Vector]]:
    """What is used in and below each quota: by all owners, and by not preemptible ones."""
    used: dict[str, _Vector] = {}
    firm: dict[str, _Vector] = {}
    more = {request.name: members for request, members, _ in asks}
    for name in tree.owners:
        request = tree.request(name)
        members = (0 if name in victims else tree.members(name)) + more.get(name, 0)
        for place in _path(tree, request.quota):
            _add(tree, request, members, used.setdefault(place, {}))
            if not request.preemptible:
                _add(tree, request, members, firm.setdefault(place, {}))
    return used, firm


def _add(tree: QuotaLedger, request: QuotaRequest, members: int, to: _Vector) -> None:
    managed = {dimension for dimension, _ in tree.quota(request.quota).max}
    for dimension, amount in request.amounts:
        if dimension in managed:
            to[dimension] = to.get(dimension, 0) + amount * members


def _check_limit(
    tree: QuotaLedger, place: str, by_runtime: bool, used: _Vector, wanted: set[str]
) -> None:
    if by_runtime:
        _compare(f"runtime of {place!r}", used, tree.runtime(place), wanted)
    else:
        _compare(f"max of {place!r}", used, dict(tree.quota(place).max), wanted)


def _check_minimum(tree: QuotaLedger, quota: str, firm: _Vector, wanted: set[str]) -> None:
    _compare(f"min of {quota!r}", firm, dict(tree.quota(quota).min), wanted)


def _check_total(tree: QuotaLedger, root: str, used: dict[str, _Vector], wanted: set[str]) -> None:
    sums: _Vector = {}
    for name in tree.quotas:
        quota = tree.quota(name)
        if not quota.parent and quota.tree == root and not quota.outside:
            for dimension, amount in used.get(name, {}).items():
                sums[dimension] = sums.get(dimension, 0) + amount
    _compare("the total", sums, tree.total(root), wanted)


def _path(tree: QuotaLedger, quota: str) -> list[str]:
    path = [quota]
    while parent := tree.quota(path[-1]).parent:
        path.append(parent)
    return path


def _compare(what: str, used: _Vector, limits: _Vector, wanted: set[str]) -> None:
    for dimension in sorted(wanted):
        amount = used.get(dimension, 0)
        if amount > limits.get(dimension, 0):
            raise CertificateError(
                f"{what} is {limits.get(dimension, 0)} {dimension}, {amount} would be used"
            )
