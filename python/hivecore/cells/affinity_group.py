"""The request to a `CellCluster`: a group of pods that start together or not at all."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Self, final

from hivecore._arguments import as_bool, as_int, as_name, as_tuple
from hivecore._cells import Maker

__all__ = ["EVICTIONS", "AffinityGroup", "Evictions", "Member", "check_evictions"]

Evictions = Literal["packing", "least", "private"]
EVICTIONS: tuple[Evictions, ...] = ("packing", "least", "private")  # as the kernel numbers them

_MOST_LEAVES = 2**31
_MOST_PODS = 2**20
_PACK: Literal["pack"] = "pack"


class Member(NamedTuple):
    """Some equal pods of an affinity group."""

    pods: int
    leaves: int
    """Leaves of each pod."""
    within: str | None = None
    """Name of a level: one cell of it must hold all leaves of a pod."""


@final
class AffinityGroup:
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
    evictions: Evictions | None
    sizes: tuple[int, ...]
    """Leaves of each pod: the members' pods in order."""
    confined: bool
    """Whether the group or a member has a ``within``."""

    def __new__(  # noqa: D102
        cls,
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
    ) -> Self:
        # Made for each request, so plain arguments are checked without a call.
        if type(name) is not str or not name:
            name = as_name(name, "name")
        if type(virtual_cluster) is not str or not virtual_cluster:
            virtual_cluster = as_name(virtual_cluster, "virtual_cluster")
        if type(priority) is not int or not -1 <= priority <= 1000:
            priority = as_int(priority, "priority", -1, 1000)
        if leaf_type is not None:
            leaf_type = as_name(leaf_type, "leaf_type")
        if pinned_cell is not None:
            pinned_cell = as_name(pinned_cell, "pinned_cell")
            if priority < 0:
                raise ValueError("pinned_cell: an opportunistic group (priority -1) uses none")
        if within is not None:
            within = as_name(within, "within")
        if lazy_preemption is not False:
            lazy_preemption = as_bool(lazy_preemption, "lazy_preemption")
        if merge_siblings is not False:
            merge_siblings = as_bool(merge_siblings, "merge_siblings")
        if placement is not _PACK:
            placement = _placement(placement)
        if evictions is not None:
            check_evictions(evictions)
        checked, sizes, confined = _members(members)
        return _make(  # type: ignore[no-any-return]
            (
                name,
                virtual_cluster,
                checked,
                priority,
                leaf_type,
                pinned_cell,
                lazy_preemption,
                within,
                placement,
                merge_siblings,
                evictions,
                sizes,
                confined or within is not None,
            )
        )

    @property
    def pods(self) -> int:
        """How many pods the group has."""
        return len(self.sizes)

    @property
    def leaves(self) -> int:
        """How many leaves its pods have together."""
        return sum(self.sizes)

    def replace(self, **changes: Any) -> Self:
        """The same group with other values of these arguments."""
        name = changes.get("name")
        if type(name) is str and name and len(changes) == 1:
            return self._renamed(name)
        return type(self)(**(self._arguments() | changes))

    def _renamed(self, name: str) -> Self:
        """The same group under another name; everything else has been checked."""
        return _make(  # type: ignore[no-any-return]
            (
                name,
                self.virtual_cluster,
                self.members,
                self.priority,
                self.leaf_type,
                self.pinned_cell,
                self.lazy_preemption,
                self.within,
                self.placement,
                self.merge_siblings,
                self.evictions,
                self.sizes,
                self.confined,
            )
        )

    def _arguments(self) -> dict[str, Any]:
        derived = ("sizes", "confined")
        return {name: getattr(self, name) for name in _NAMES if name not in derived}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: an AffinityGroup does not change, see replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: an AffinityGroup does not change, see replace()")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._arguments(),)

    def _key(self) -> tuple[Any, ...]:
        return _values(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffinityGroup) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"AffinityGroup({self.name!r}, {self.virtual_cluster!r}, "
            f"{[tuple(member) for member in self.members]}, priority={self.priority})"
        )


#: In the order of the constructor's arguments, then what follows from them.
_NAMES = (
    *("name", "virtual_cluster", "members", "priority", "leaf_type", "pinned_cell"),
    *("lazy_preemption", "within", "placement", "merge_siblings", "evictions"),
    *("sizes", "confined"),
)
_values = attrgetter(*_NAMES)
_make = Maker(AffinityGroup, _NAMES).make


def _restored(fields: dict[str, Any]) -> AffinityGroup:
    return AffinityGroup(**fields)


def check_evictions(value: Any) -> None:
    """Raise unless it is a value of ``evictions``."""
    if as_name(value, "evictions") not in EVICTIONS:
        raise ValueError(f"evictions={value!r}: allowed are {', '.join(EVICTIONS)}")


def _placement(value: Any) -> Literal["pack", "spread"]:
    name = as_name(value, "placement")
    if name not in ("pack", "spread"):
        raise ValueError(f"placement={name!r}: allowed are 'pack' and 'spread'")
    return name  # type: ignore[return-value]


_new_member = tuple.__new__


def _members(members: Any) -> tuple[tuple[Member, ...], tuple[int, ...], bool]:
    """The members, the leaves of each pod, and whether a member has a ``within``."""
    if type(members) is not list:
        members = as_tuple(members, "members")
    checked: list[Member] = []
    sizes: list[int] = []
    total, confined = 0, False
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
            within, confined = as_name(within, f"members[{i}].within"), True
        total += pods * leaves
        if total > _MOST_LEAVES or len(sizes) + pods > _MOST_PODS:
            raise ValueError(f"members[{i}]: more than 2**20 pods or 2**31 leaves in all")
        checked.append(_new_member(Member, (pods, leaves, within)))
        sizes += [leaves] * pods
    if not checked:
        raise ValueError("members must not be empty")
    return tuple(checked), tuple(sizes), confined


def _no_member(i: int, member: object) -> TypeError:
    return TypeError(f"members[{i}] must be (pods, leaves[, within]), not {member!r}")
