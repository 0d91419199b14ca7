"""Rules of a sound tree of quotas; a `QuotaTree` works without some of them.

A tree that guarantees more than it has still works, but it does not keep every minimum. These rules
find such trees before jobs wait.
"""

from collections.abc import Iterable, Mapping

from hivecore._arguments import as_bool, by_name
from hivecore._record import Record
from hivecore._thousandths import exact
from hivecore.quotas._amounts import Amount
from hivecore.quotas.quota import Quota

__all__ = ["RuleViolation", "quota_rules"]


class RuleViolation(Record, frozen=True):
    """A rule that a tree of quotas breaks.

    :param quota: the quota that breaks it; for a sum the parent.
    :param rule: "parent", "dimensions" or "min".
    :param message: one line for people: the path from the top, and the numbers.
    """

    quota: str
    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def quota_rules(
    quotas: Iterable[Quota], *, same_dimensions: bool = True
) -> tuple[RuleViolation, ...]:
    """All violations of the rules by which Koordinator accepts quotas.

    :param quotas: whole trees, in any order.
    :param same_dimensions: whether a quota must have all dimensions of its parent; if not, it may
        have fewer.
    :returns: by tree and path of names, then in the order of the rules below, then by dimension.
    :raises ValueError: two quotas have the same name.
    :raises TypeError: an argument is of a wrong type.

    - ``parent``: the parent exists and is no outside quota, and no quota is its own ancestor.
    - ``dimensions``: the ``max`` of a quota names the dimensions of its parent's.
    - ``min``: the minimums of the children of a quota add up to at most its own. Quotas at the top
      have no such limit, as minimums are scaled down when the total changes. A ``max`` may be above
      the parent's.

    `Quota` itself checks that ``min`` is at most ``max`` and that nothing is negative. Source:
    Koordinator, ``pkg/webhook/elasticquota/quota_topology_check.go``. Cost: O(quotas x depth).

    >>> from hivecore.quotas import Quota, quota_rules
    >>> for violation in quota_rules([
    ...     Quota("lab", max={"gpu": 64}, min={"gpu": 16}),
    ...     Quota("vision", parent="lab", max={"gpu": 80}, min={"gpu": 12}),
    ...     Quota("speech", parent="lab", max={"gpu": 64}, min={"gpu": 8}),
    ... ]):
    ...     print(violation.rule, "-", violation)
    min - lab: min of gpu is 16, those below it have 20 in all: speech 8, vision 12
    """
    same = as_bool(same_dimensions, "same_dimensions")
    named = by_name(quotas, "quotas", Quota)
    below: dict[str, list[Quota]] = {}
    for name in sorted(named):
        below.setdefault(named[name].parent, []).append(named[name])
    paths = {name: _path(name, named) for name in named}
    violations: list[RuleViolation] = []
    for name in sorted(named, key=lambda name: (named[paths[name][0]].tree, paths[name])):
        quota = named[name]
        children = below.get(name, [])
        messages = [
            *(("parent", text) for text in _of_parent(quota, paths[name], named)),
            *(("dimensions", text) for text in _of_dimensions(quota, named, same)),
            *(("min", text) for text in _of_min(quota, children)),
        ]
        where = " / ".join(paths[name])
        violations += [RuleViolation(name, rule, f"{where}: {text}") for rule, text in messages]
    return tuple(violations)


def _path(name: str, named: Mapping[str, Quota]) -> list[str]:
    """The path from the top down, as far as its quotas exist; a circle is walked once."""
    path = {name: None}
    while (parent := named[name].parent) in named and parent not in path:
        path[parent] = None
        name = parent
    return list(path)[::-1]


def _of_parent(quota: Quota, path: list[str], named: Mapping[str, Quota]) -> list[str]:
    if not quota.parent:
        return []
    if quota.parent not in named:
        return [f"its parent {quota.parent!r} is missing"]
    if named[quota.parent].outside:
        return [f"its parent {quota.parent!r} is an outside quota"]
    if named[path[0]].parent == quota.name:
        return ["is its own ancestor"]
    return []


def _of_dimensions(quota: Quota, named: Mapping[str, Quota], same: bool) -> list[str]:
    parent = named.get(quota.parent)
    if parent is None:
        return []
    mine, others = dict(quota.max), dict(parent.max)
    more = [
        f"max has {dimension}, that of {parent.name!r} has not"
        for dimension in mine
        if dimension not in others
    ]
    less = [
        f"max has no {dimension}, that of {parent.name!r} has"
        for dimension in others
        if dimension not in mine
    ]
    return more + less if same else more


def _of_min(quota: Quota, children: list[Quota]) -> list[str]:
    own = dict(quota.min)
    parts: dict[str, list[tuple[str, Amount]]] = {}
    for child in children:
        for dimension, amount in child.min:
            if amount:
                parts.setdefault(dimension, []).append((child.name, amount))
    messages = []
    for dimension in sorted(parts):
        total = exact(sum(amount for _, amount in parts[dimension]))
        if total > own.get(dimension, 0):
            each = ", ".join(f"{name} {amount}" for name, amount in parts[dimension])
            limit = own.get(dimension, 0)
            messages.append(
                f"min of {dimension} is {limit}, those below it have {total} in all: {each}"
            )
    return messages
