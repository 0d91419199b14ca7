"""Rules that a sound tree of quotas keeps, though a `QuotaTree` works without some of them.

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

    :param quota: the quota that breaks it; of a sum the parent.
    :param rule: "parent", "dimensions" or "min".
    :param message: a line for people, with the names from the top down and the numbers.
    """

    quota: str
    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def quota_rules(
    quotas: Iterable[Quota], *, same_dimensions: bool = True
) -> tuple[RuleViolation, ...]:
    """All violations of the rules by which Koordinator admits quotas.

    :param quotas: whole trees, in any order.
    :param same_dimensions: whether a quota has to have the very dimensions of its parent; else it
        may have fewer.
    :returns: by tree and path of names, then in the order of the rules below, then by dimension.
    :raises ValueError: two quotas have the same name.
    :raises TypeError: an argument is of a wrong type.

    - ``parent``: the parent is one of the quotas, is not an outside quota, and no quota
      is above itself.
    - ``dimensions``: a quota's ``max`` names the dimensions that its parent's does.
    - ``min``: what the quotas below one are entitled to is no more than what it is itself. At the
      top of a tree there is no such sum: what the tree has may change at any time, and minimums are
      scaled down then. A ``max`` may be above the parent's.

    That ``min`` is at most ``max`` and nothing is negative, `Quota` has checked. Source:
    Koordinator, ``pkg/webhook/elasticquota/quota_topology_check.go``. Cost: O(quotas x depth).

    >>> from hivecore.quotas import Quota, quota_rules
    >>> for one in quota_rules([
    ...     Quota("lab", max={"gpu": 64}, min={"gpu": 16}),
    ...     Quota("vision", parent="lab", max={"gpu": 80}, min={"gpu": 12}),
    ...     Quota("speech", parent="lab", max={"gpu": 64}, min={"gpu": 8}),
    ... ]):
    ...     print(one.rule, "-", one)
    min - lab: min of gpu is 16, those below it have 20 in all: speech 8, vision 12
    """
    same = as_bool(same_dimensions, "same_dimensions")
    named = by_name(quotas, "quotas", Quota)
    below: dict[str, list[Quota]] = {}
    for name in sorted(named):
        below.setdefault(named[name].parent, []).append(named[name])
    paths = {name: _path(name, named) for name in named}
    found: list[RuleViolation] = []
    for name in sorted(named, key=lambda one: (named[paths[one][0]].tree, paths[one])):
        quota = named[name]
        children = below.get(name, [])
        messages = [
            *(("parent", text) for text in _of_parent(quota, paths[name], named)),
            *(("dimensions", text) for text in _of_dimensions(quota, named, same)),
            *(("min", text) for text in _of_min(quota, children)),
        ]
        where = " / ".join(paths[name])
        found += [RuleViolation(name, rule, f"{where}: {text}") for rule, text in messages]
    return tuple(found)


def _path(name: str, named: Mapping[str, Quota]) -> list[str]:
    """From the top down, as far as there are quotas; in a circle once around."""
    found = {name: None}
    while (parent := named[name].parent) in named and parent not in found:
        found[parent] = None
        name = parent
    return list(found)[::-1]


def _of_parent(quota: Quota, path: list[str], named: Mapping[str, Quota]) -> list[str]:
    if not quota.parent:
        return []
    if quota.parent not in named:
        return [f"its parent {quota.parent!r} is missing"]
    if named[quota.parent].outside:
        return [f"its parent {quota.parent!r} is outside of what is shared out"]
    if named[path[0]].parent == quota.name:
        return ["is above itself"]
    return []


def _of_dimensions(quota: Quota, named: Mapping[str, Quota], same: bool) -> list[str]:
    parent = named.get(quota.parent)
    if parent is None:
        return []
    mine, others = dict(quota.max), dict(parent.max)
    more = [f"max has {one}, that of {parent.name!r} has not" for one in mine if one not in others]
    less = [f"max has no {one}, that of {parent.name!r} has" for one in others if one not in mine]
    return more + less if same else more


def _of_min(quota: Quota, children: list[Quota]) -> list[str]:
    own = dict(quota.min)
    parts: dict[str, list[tuple[str, Amount]]] = {}
    for child in children:
        for dimension, amount in child.min:
            if amount:
                parts.setdefault(dimension, []).append((child.name, amount))
    found = []
    for dimension in sorted(parts):
        total = exact(sum(amount for _, amount in parts[dimension]))
        if total > own.get(dimension, 0):
            each = ", ".join(f"{name} {amount}" for name, amount in parts[dimension])
            limit = own.get(dimension, 0)
            found.append(
                f"min of {dimension} is {limit}, those below it have {total} in all: {each}"
            )
    return found
