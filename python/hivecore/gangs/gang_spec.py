"""What a gang needs before any of its pods may start."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from hivecore._arguments import as_int
from hivecore._record import (
    FOLLOWS,
    Name,
    Names,
    Record,
    amounts,
    force_setattr,
    sorted_names,
    within,
)

__all__ = ["GangMode", "GangSpec", "MatchPolicy"]

#: What the failure of a pod means to its gang, see `GangSpec`.
GangMode = Literal["strict", "non-strict"]
#: Which pods count towards the minimum, see `GangSpec`.
MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]

_MOST_PODS = 2**31 - 1
_MOST_TIME = 2**60


_Counts = tuple[tuple[str, int], ...]


class _Pods(Record, frozen=True):
    name: Name
    min_members: Annotated[int, within(0, _MOST_PODS)]
    total: Annotated[int, within(0, _MOST_PODS)] = FOLLOWS


class GangSpec(_Pods, frozen=True, kw_only=True):
    """The definition of a gang.

    :param name: the gang, such as "namespace/name".
    :param min_members: the number of pods with which it may start, 0 to 2**31 - 1.
    :param total: its final number of pods, at least the minimum (the default). It is only stored.
    :param mode: "strict": if a pod finds no place, waiting pods give theirs back. "non-strict":
        they keep them, and only that pod is retried.
    :param match_policy: which pods count. "once-satisfied": those that hold a place; once a pod of
        the group is bound, the others start alone and are tried at once. "only-waiting": those that
        hold a place and are not bound yet. "waiting-and-running": also bound ones.
    :param wait_time: how long a pod holds its place, in the caller's unit of time, 1 to 2**60.
    :param groups: the gangs that must start with this one, always including itself. They need not
        name this gang in return.
    :param roles: role -> number of its pods needed, in addition to ``min_members`` of any role.
    :param must: network layers in which one domain must hold all pods. ``must``, ``prefer`` and
        ``multiple`` are only stored.
    :param prefer: network layers in which one domain should hold all pods.
    :param multiple: layer -> each domain in use gets a multiple of so many pods, 1 to 2**31.
    :raises ValueError: a value is out of range.
    :raises TypeError: an argument has a wrong type.

    Source: Koordinator's gangs, ``apis/extension/coscheduling.go``.

    >>> from hivecore.gangs import GangSpec
    >>> GangSpec("ps", 2, groups=["worker"]).groups
    ('ps', 'worker')
    """

    _follows: ClassVar[dict[str, str]] = {"total": "min_members"}

    mode: GangMode = "strict"
    match_policy: MatchPolicy = "once-satisfied"
    wait_time: Annotated[int, within(1, _MOST_TIME)] = 600
    groups: Annotated[tuple[str, ...], sorted_names] = ()
    roles: Annotated[_Counts, amounts(0, _MOST_PODS)] = ()
    must: Names = ()
    prefer: Names = ()
    multiple: Annotated[_Counts, amounts(1, 2**31)] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            min_members: int,
            total: int | None = None,
            *,
            mode: GangMode = "strict",
            match_policy: MatchPolicy = "once-satisfied",
            wait_time: int = 600,
            groups: Iterable[str] = (),
            roles: Mapping[str, int] | Iterable[tuple[str, int]] = (),
            must: Iterable[str] = (),
            prefer: Iterable[str] = (),
            multiple: Mapping[str, int] | Iterable[tuple[str, int]] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.total is FOLLOWS:
            force_setattr(self, "total", self.min_members)
        elif self.total < self.min_members:
            as_int(self.total, "total", self.min_members, _MOST_PODS)
        if self.name not in self.groups:
            force_setattr(self, "groups", tuple(sorted((*self.groups, self.name))))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with changed fields; a new name replaces the old one in ``groups``.

        >>> from hivecore.gangs import GangSpec
        >>> GangSpec("ps", 2, groups=["worker"]).replace(name="server").groups
        ('server', 'worker')
        """
        if "name" in changes:
            changes.setdefault("groups", [name for name in self.groups if name != self.name])
        return Record.replace(self, **changes)
