"""The amounts of ClusterQueues and cohorts, and the quotas that follow from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from hivecore.interop.cluster_dump._objects import Dump, Object, Schema
from hivecore.interop.cluster_dump._queues import filled, path_of
from hivecore.interop.koordinator.quotas.amounts import MOST
from hivecore.quotas import Quota

__all__ = ["Group", "Member", "member_of", "quotas_of", "weight_of"]

_FINEST = 1000  # a weight's denominator


class Resource(Schema, frozen=True):
    """The quota of a resource in a flavor."""

    name: str
    nominal_quota: Fraction = Fraction(0)
    borrowing_limit: Fraction | None = None
    lending_limit: Fraction | None = None


class Flavor(Schema, frozen=True):
    """The quotas in a flavor."""

    name: str
    resources: tuple[Resource, ...] = ()


class Group(Schema, frozen=True):
    """An entry of `resourceGroups`."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[Flavor, ...] = ()


@dataclass(slots=True)
class Member:
    """A ClusterQueue or a cohort.

    :param nominal: resource -> nominal quota, over all flavors; if it is stopped, what it lends.
    :param borrowing: resource -> borrowing limit, if it has one.
    :param kept: resource -> how much it does not lend.
    :param parts: (resource, flavor) -> nominal quota.
    :param is_queue: a ClusterQueue uses only resources and flavors that it lists, if only with a
        nominal quota of 0; a cohort passes on all.
    :param is_stopped: no job uses its quota, which its cohort has up to the lending limit.
    """

    parent: str = ""
    weight: Fraction = Fraction(1)
    nominal: dict[str, int] = field(default_factory=dict)
    borrowing: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[str, str], int] = field(default_factory=dict)
    is_queue: bool = False
    is_stopped: bool = False

    @property
    def lends(self) -> bool:
        """Whether it lends anything."""
        return not self.kept or self.kept != self.nominal


def member_of(
    dump: Dump, item: Object, groups: Iterable[Group], flavor: str, is_stopped: bool = False
) -> Member:
    """Read the amounts of an object, in one flavor or in all."""
    by_name: dict[str, list[tuple[str, Resource]]] = defaultdict(list)
    for part in [part for group in groups for part in group.flavors]:
        for resource in part.resources if part.name == flavor or not flavor else ():
            by_name[resource.name].append((part.name, resource))
    member = Member(is_stopped=is_stopped)
    for name, entries in by_name.items():
        if len(entries) > 1:
            flavors = ", ".join(part for part, _ in entries)
            text = f"{name} of the flavors {flavors} counts together; read with one flavor alone"
            dump.remark(item.kind, item.meta.name, f"{text} its limits are kept")
        _add(dump, member, entries)
    if any(member.kept.values()):
        text = "lendingLimit is not kept: all that is idle is lent, and taken back on demand"
        dump.remark(item.kind, item.meta.name, text)
    return member


def _add(dump: Dump, member: Member, parts: list[tuple[str, Resource]]) -> None:
    """Add up a resource over its flavors."""
    entries = [entry for _, entry in parts]
    name = dump.named(entries[0].name)

    def units(amount: Fraction) -> int:
        return dump.units({entries[0].name: amount})[name]

    def given(entry: Resource) -> int:
        amount, limit = entry.nominal_quota, entry.lending_limit
        return units(min(amount, limit) if member.is_stopped and limit is not None else amount)

    for flavor, entry in parts:
        key = name, flavor
        member.parts[key] = member.parts.get(key, 0) + given(entry)
    member.nominal[name] = sum(map(given, entries))
    limits = [entry.borrowing_limit for entry in entries]
    if None not in limits:
        member.borrowing[name] = sum(units(limit) for limit in limits if limit is not None)
    member.kept[name] = sum(
        max(0, given(entry) - units(entry.lending_limit))
        for entry in entries
        if entry.lending_limit is not None
    )


def quotas_of(dump: Dump, members: Mapping[str, Member], fair: bool) -> list[Quota]:
    """Return a quota for each member.

    Each covers GPUs and all resources; a ClusterQueue has nothing of those that it does not list.
    """
    listed = (name for member in members.values() for name in member.nominal)
    names = list(dict.fromkeys((*listed, "gpu")))
    parents = {name: member.parent for name, member in members.items()}
    paths = {name: path_of(name, parents, "Cohort") for name in members}
    sums = {name: filled({}, names) for name in members}
    trees: dict[str, dict[tuple[str, str], int]] = {path[-1]: {} for path in paths.values()}
    for name, member in members.items():
        for above in paths[name]:
            for resource, amount in member.nominal.items():
                sums[above][resource] = min(MOST, sums[above][resource] + amount)
        tree = trees[paths[name][-1]]
        for part, amount in member.parts.items():
            tree[part] = tree.get(part, 0) + amount
    quotas = []
    for name, member in members.items():
        top = paths[name][-1]
        usable = _usable(dump, name, member, trees[top]) if member.is_queue else sums[top]
        nominal = filled({}, names) if member.is_stopped else sums[name]
        quotas.append(
            Quota(
                name,
                parent=member.parent,
                max=nominal if member.is_stopped else _most(member, nominal, usable),
                min=nominal,
                weight=dict.fromkeys(names, weight_of(member) if fair else 0),
                lends=member.lends,
            )
        )
    return quotas


def _usable(
    dump: Dump, name: str, member: Member, tree: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """Return by resource what a cohort has in the flavors that a ClusterQueue lists."""
    usable: dict[str, int] = {}
    for resource in member.nominal:
        flavors = {flavor for which, flavor in tree if which == resource}
        listed = {flavor for flavor in flavors if (resource, flavor) in member.parts}
        usable[resource] = sum(tree[resource, flavor] for flavor in listed)
        if listed and flavors - listed:
            text = f"{resource} of the flavors {', '.join(sorted(flavors))} counts together in its"
            text += f" cohort, and it uses {', '.join(sorted(listed))} only; read with one flavor"
            dump.remark("ClusterQueue", name, f"{text} alone what it borrows is kept")
    return usable


def _most(member: Member, nominal: Mapping[str, int], usable: Mapping[str, int]) -> dict[str, int]:
    """Return the nominal quota plus the borrowing limit, at most what the tree has."""
    amounts = {}
    for name, amount in nominal.items():
        most = usable.get(name, 0)
        amounts[name] = min(MOST, most, amount + member.borrowing.get(name, most))
    return amounts


def weight_of(member: Member) -> int:
    """Return the weight as an integer."""
    return ceil(member.weight * _FINEST)
