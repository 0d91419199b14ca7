"""The request to a `CellCluster`: a group of pods that start together or not at all."""

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from hivecore._arguments import as_choice, as_int, as_name, as_tuple
from hivecore._record import Name, Record, with_name, within

__all__ = ["EVICTIONS", "AffinityGroup", "Evictions", "Member", "check_evictions"]

Evictions = Literal["packing", "least", "private"]
EVICTIONS: tuple[Evictions, ...] = ("packing", "least", "private")  # as the kernel numbers them

_MOST_LEAVES = 2**31
_MOST_PODS = 2**20


class Member(NamedTuple):
    """Some equal pods of an affinity group."""

    pods: int
    leaves: int
    """Leaves of each pod."""
    within: str | None = None
    """Name of a level: one cell of it must hold all leaves of a pod."""


def check_evictions(value: Any) -> None:
    """Raise unless it is a value of ``evictions``."""
    as_choice(value, "evictions", EVICTIONS)


_new_member = tuple.__new__
_within_of = itemgetter(2)


def _members(members: Any, name: str) -> tuple[Member, ...]:
    if type(members) is not list:
        members = as_tuple(members, name)
    checked: list[Member] = []
    count = total = 0
    for i, member in enumerate(members):
        within = None
        if not isinstance(member, tuple):
            raise _no_member(i, member)
        if len(member) == 2:
            pods, leaves = member
        elif len(member) == 3:
            pods, leaves, within = member
        else:
            raise _no_member(i, member)
        if type(pods) is not int or pods < 1:
            pods = as_int(pods, f"members[{i}].pods", 1, _MOST_PODS)
        if type(leaves) is not int or leaves < 1:
            leaves = as_int(leaves, f"members[{i}].leaves", 1, _MOST_LEAVES)
        if within is not None:
            within = as_name(within, f"members[{i}].within")
        count += pods
        total += pods * leaves
        if total > _MOST_LEAVES or count > _MOST_PODS:
            raise ValueError(f"members[{i}]: more than 2**20 pods or 2**31 leaves in all")
        checked.append(_new_member(Member, (pods, leaves, within)))
    if not checked:
        raise ValueError("members must not be empty")
    return tuple(checked)


def _no_member(i: int, member: object) -> TypeError:
    return TypeError(f"members[{i}] must be (pods, leaves[, within]), not {member!r}")


_priority = within(-1, 1000)


class _OfTenant(Record, frozen=True):
    name: Name
    virtual_cluster: Name
    members: Annotated[tuple[Member, ...], _members]


class AffinityGroup(_OfTenant, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A gang: all of its pods get their leaves (GPUs) at once, or none does.

    :param name: unique among the groups of a cluster.
    :param virtual_cluster: the tenant.
    :param members: `Member` s or tuples (pods, leaves[, within]), not empty; pods and leaves >= 1,
        at most 2**20 pods and 2**31 leaves in all.
    :param priority: 0 to 1000, guaranteed: it uses the cells of its tenant, and only groups of the
        same tenant with a higher priority preempt it. -1, opportunistic: it uses idle leaves of all
        tenants, and every guaranteed group preempts it.
    :param leaf_type: name of the leaf level of the chains to search; ``None``: all chains.
    :param pinned_cell: name of the tenant's pinned cell, the only one to use.
    :param lazy_preemption: whether it is downgraded instead of preempted: if a group of its tenant
        with a higher priority needs its cells, it runs on as an opportunistic group until there are
        cells for it again.
    :param within: name of a level: one cell of it must hold the whole group.
    :param placement: "pack" prefers cells in use with the fewest leaves left, "spread" those with
        the fewest leaves in use, pod by pod.
    :param merge_siblings: whether a pod may use several cells of its tenant below node level, if
        they happen to be on one node. Nothing guarantees that they are.
    :param evictions: "packing": evict no group if there is a place without; else as few leaves as
        possible without opening more idle nodes. "least": the same, even if it opens more nodes.
        "private": take the virtual nodes that the group would get in a private cluster of its
        tenant, so that opportunistic groups never change what starts later (unless the tenant
        preempts by priority, or confines a group to less than a node); only which physical cells
        are bound depends on evictions. ``None``: as the cluster says.
    :raises ValueError: a value is not allowed.
    :raises TypeError: an argument is of a wrong type.

    Source: HiveD (OSDI'20) and its affinity groups.

    >>> group = AffinityGroup("bert", "A", [(1, 1), (2, 8)], priority=5)
    >>> group.pods, group.leaves
    (3, 17)
    """

    priority: Annotated[int, _priority] = 0
    leaf_type: Name | None = None
    pinned_cell: Name | None = None
    lazy_preemption: bool = False
    within: Name | None = None
    placement: Literal["pack", "spread"] = "pack"
    merge_siblings: bool = False
    evictions: Evictions | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            virtual_cluster: str,
            members: Iterable[Member | tuple[int, int] | tuple[int, int, str | None]],
            *,
            priority: int = 0,
            leaf_type: str | None = None,
            pinned_cell: str | None = None,
            lazy_preemption: bool = False,
            within: str | None = None,
            placement: Literal["pack", "spread"] = "pack",
            merge_siblings: bool = False,
            evictions: Evictions | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.pinned_cell is not None and self.priority < 0:
            raise ValueError("pinned_cell: an opportunistic group (priority -1) uses none")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The leaves of each pod: the members' pods in order."""
        if len(self.members) == 1:
            ((pods, leaves, _),) = self.members
            return (leaves,) * pods
        return tuple([leaves for pods, leaves, _ in self.members for _ in range(pods)])

    @property
    def confined(self) -> bool:
        """Whether the group or a member has a ``within``."""
        return self.within is not None or any(map(_within_of, self.members))

    @property
    def pods(self) -> int:
        """How many pods the group has."""
        return sum([member.pods for member in self.members])

    @property
    def leaves(self) -> int:
        """How many leaves its pods have together."""
        return sum([member.pods * member.leaves for member in self.members])

    def replace(self, **changes: Any) -> Self:
        """The same group with other values of some fields."""
        return with_name(self, changes) or Record.replace(self, **changes)
