"""The amounts of ClusterQueues and cohorts, and the quotas that follow from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from hivecore.interop.cluster_dump._objects import Dump, Object, Schema
from hivecore.interop.cluster_dump._queues import filled, path_of
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

    :param nominal: resource -> nominal quota, over all flavors.
    :param borrowing: resource -> borrowing limit, if it has one.
    :param kept: resource -> how much it does not lend.
    """

    parent: str = ""
    weight: Fraction = Fraction(1)
    nominal: dict[str, int] = field(default_factory=dict)
    borrowing: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def lends(self) -> bool:
        """Whether it lends anything."""
        return not self.kept or self.kept != self.nominal


def member_of(dump: Dump, item: Object, groups: Iterable[Group], flavor: str) -> Member:
    """Read the amounts of an object, in one flavor or in all."""
    by_name: dict[str, list[tuple[str, Resource]]] = defaultdict(list)
    for part in [part for group in groups for part in group.flavors]:
        for resource in part.resources if part.name == flavor or not flavor else ():
            by_name[resource.name].append((part.name, resource))
    member = Member()
    for name, entries in by_name.items():
        if len(entries) > 1:
            flavors = ", ".join(part for part, _ in entries)
            text = f"{name} of the flavors {flavors} counts together; read with one flavor alone"
            dump.remark(item.kind, item.meta.name, f"{text} its limits are kept")
        _add(dump, member, [resource for _, resource in entries])
    if any(member.kept.values()):
        text = "lendingLimit is not kept: all that is idle is lent, and taken back on demand"
        dump.remark(item.kind, item.meta.name, text)
    return member


def _add(dump: Dump, member: Member, entries: list[Resource]) -> None:
    """Add up a resource over its flavors."""
    name = dump.named(entries[0].name)

    def units(amount: Fraction) -> int:
        return dump.units({entries[0].name: amount})[name]

    member.nominal[name] = sum(units(entry.nominal_quota) for entry in entries)
    limits = [entry.borrowing_limit for entry in entries]
    if None not in limits:
        member.borrowing[name] = sum(units(limit) for limit in limits if limit is not None)
    member.kept[name] = sum(
        max(0, units(entry.nominal_quota) - units(entry.lending_limit))
        for entry in entries
        if entry.lending_limit is not None
    )


def quotas_of(members: Mapping[str, Member], fair: bool) -> list[Quota]:
    """Return a quota for each member.

    Each covers all resources; it has none of those that a ClusterQueue does not list.
    """
    names = list(dict.fromkeys(name for member in members.values() for name in member.nominal))
    parents = {name: member.parent for name, member in members.items()}
    paths = {name: path_of(name, parents, "Cohort") for name in members}
    sums = {name: filled({}, names) for name in members}
    for name, member in members.items():
        for above in paths[name]:
            for resource, amount in member.nominal.items():
                sums[above][resource] += amount
    return [
        Quota(
            name,
            parent=member.parent,
            max=_most(member, sums[name], sums[paths[name][-1]]),
            min=sums[name],
            weight=dict.fromkeys(names, weight_of(member) if fair else 0),
            lends=member.lends,
        )
        for name, member in members.items()
    ]


def _most(member: Member, nominal: Mapping[str, int], top: Mapping[str, int]) -> dict[str, int]:
    """Return the nominal quota in and below it plus its borrowing limit, at most
    its tree's total.
    """
    return {
        name: min(amount, nominal[name] + member.borrowing.get(name, amount))
        for name, amount in top.items()
    }


def weight_of(member: Member) -> int:
    """Return the weight as an integer."""
    return ceil(member.weight * _FINEST)
