"""What is asked of a `CellCluster`: a group of pods that start together or not at all."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Self

from hivecore._arguments import as_bool, as_int, as_name, as_tuple

__all__ = ["AffinityGroup", "Member", "check_evictions"]

_MOST_LEAVES = 2**31
_MOST_PODS = 2**20


class Member(NamedTuple):
    """Some equal pods of an affinity group."""

    pods: int
    leaves: int
    """Leaves of each pod."""
    within: str | None = None
    """Name of a level: all leaves of a pod must be in one cell of it."""


class AffinityGroup:
    """A gang: all of its pods get their leaves at once, or none does.

    :param name: unique among the groups of a cluster.
    :param virtual_cluster: the tenant.
    :param members: `Member` s or tuples (pods, leaves[, within]), not empty; pods and leaves
        >= 1, at most 2**20 pods and 2**31 leaves in all.
    :param priority: 0 to 1000, guaranteed: it uses the cells that the tenant owns, and only groups
        of the same tenant with a higher priority preempt it. -1, opportunistic: it uses idle
        leaves of anybody, and every guaranteed group preempts it.
    :param leaf_type: name of the leaf level of the chains to search; ``None``: all chains.
    :param pinned_cell: name of the tenant's pinned cell to use, and nothing else.
    :param lazy_preemption: when a group of the tenant with a higher priority needs its cells, it
        may go on opportunistically instead of being preempted, until there are cells for it again.
    :param within: name of a level: the whole group must be in one cell of it.
    :param placement: "pack" prefers the cells with the most used leaves, "spread" those with the
        fewest, pod by pod.
    :param merge_siblings: a pod may use several cells below node level that the tenant owns, if
        they can be had on one node. It needs luck: the tenant owns no such cells together.
    :param evictions: "packing": the tenant's nodes are packed as in a private cluster, and only
        among choices that pack equally well the one that evicts the fewest leaves is taken.
        "least": it evicts nobody if it finds a place without, and otherwise as few as it can, even
        if that opens nodes. ``None``: what the cluster says.
    :raises ValueError: a value is not allowed.
    :raises TypeError: an argument is of a wrong type.

    Source: HiveD (OSDI'20) and its affinity groups.

    >>> group = AffinityGroup("bert", "A", [(1, 1), (2, 8)], priority=5)
    >>> group.pods, group.leaves
    (3, 17)
    """

    __slots__ = (
        "confined",
        "evictions",
        "lazy_preemption",
        "leaf_type",
        "members",
        "merge_siblings",
        "name",
        "pinned_cell",
        "placement",
        "priority",
        "sizes",
        "virtual_cluster",
        "within",
    )

    name: str
    virtual_cluster: str
    members: tuple[Member, ...]
    priority: int
    leaf_type: str | None
    pinned_cell: str | None
    lazy_preemption: bool
    within: str | None
    placement: Literal["pack", "spread"]
    merge_siblings: bool
    evictions: Literal["packing", "least"] | None
    sizes: tuple[int, ...]
    """Leaves of each pod: the members' pods in order."""
    confined: bool
    """Whether the group or a member has a ``within``."""

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
        evictions: Literal["packing", "least"] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "name", as_name(name, "name"))
        put(self, "virtual_cluster", as_name(virtual_cluster, "virtual_cluster"))
        if priority.__class__ is not int or not -1 <= priority <= 1000:
            priority = as_int(priority, "priority", -1, 1000)
        put(self, "priority", priority)
        put(self, "leaf_type", _optional_name(leaf_type, "leaf_type"))
        put(self, "pinned_cell", _optional_name(pinned_cell, "pinned_cell"))
        put(self, "within", _optional_name(within, "within"))
        put(self, "lazy_preemption", as_bool(lazy_preemption, "lazy_preemption"))
        put(self, "merge_siblings", as_bool(merge_siblings, "merge_siblings"))
        placement = as_name(placement, "placement")  # type: ignore[assignment]
        if placement not in ("pack", "spread"):
            raise ValueError(f"placement={placement!r}: allowed are 'pack' and 'spread'")
        put(self, "placement", placement)
        if evictions is not None:
            check_evictions(evictions)
        put(self, "evictions", evictions)
        if priority < 0 and pinned_cell is not None:
            raise ValueError("pinned_cell: an opportunistic group (priority -1) uses none")
        checked, sizes = _members(members)
        put(self, "members", checked)
        put(self, "sizes", sizes)
        put(self, "confined", within is not None or any(m.within for m in checked))

    @property
    def pods(self) -> int:
        """How many pods the group has."""
        return len(self.sizes)

    @property
    def leaves(self) -> int:
        """How many leaves its pods have together."""
        return sum(self.sizes)

    def replace(self, **changes: Any) -> Self:
        """The same group but for these arguments."""
        return type(self)(**(self._arguments() | changes))

    def _arguments(self) -> dict[str, Any]:
        derived = ("sizes", "confined")
        return {name: getattr(self, name) for name in self.__slots__ if name not in derived}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: an AffinityGroup does not change, see replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: an AffinityGroup does not change, see replace()")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._arguments(),)

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffinityGroup) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"AffinityGroup({self.name!r}, {self.virtual_cluster!r}, "
            f"{[tuple(member) for member in self.members]}, priority={self.priority})"
        )


def _restored(fields: dict[str, Any]) -> AffinityGroup:
    return AffinityGroup(**fields)


def check_evictions(value: Any) -> None:
    """Raise unless it is a way to weigh evictions against packing."""
    if as_name(value, "evictions") not in ("packing", "least"):
        raise ValueError(f"evictions={value!r}: allowed are 'packing' and 'least'")


def _optional_name(value: Any, argument: str) -> str | None:
    return None if value is None else as_name(value, argument)


def _members(members: Any) -> tuple[tuple[Member, ...], tuple[int, ...]]:
    checked: list[Member] = []
    total = pods_in_all = 0
    for i, member in enumerate(as_tuple(members, "members")):
        if not isinstance(member, tuple) or not 2 <= len(member) <= 3:
            raise TypeError(f"members[{i}] must be (pods, leaves[, within]), not {member!r}")
        pods, leaves = member[:2]
        if type(pods) is not int or pods < 1:
            pods = as_int(pods, f"members[{i}].pods", 1, _MOST_PODS)
        if type(leaves) is not int or leaves < 1:
            leaves = as_int(leaves, f"members[{i}].leaves", 1, _MOST_LEAVES)
        within = _optional_name(member[2], f"members[{i}].within") if len(member) == 3 else None
        total += pods * leaves
        pods_in_all += pods
        if total > _MOST_LEAVES or pods_in_all > _MOST_PODS:
            raise ValueError(f"members[{i}]: more than 2**20 pods or 2**31 leaves in all")
        checked.append(Member(pods, leaves, within))
    if not checked:
        raise ValueError("members must not be empty")
    if len(checked) == 1 and checked[0].pods == 1:
        return tuple(checked), (checked[0].leaves,)
    return tuple(checked), tuple(member.leaves for member in checked for _ in range(member.pods))
