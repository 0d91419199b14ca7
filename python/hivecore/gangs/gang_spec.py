"""What a gang needs before any of its pods may start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hivecore._arguments import as_amounts, as_choice, as_int, as_name, as_tuple

__all__ = ["GangMode", "GangSpec", "MatchPolicy"]

#: What the failure of a pod means to its gang: see `GangSpec`.
GangMode = Literal["strict", "non-strict"]
#: Which pods count toward the minimum: see `GangSpec`.
MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]

_MODES = ("strict", "non-strict")
_POLICIES = ("once-satisfied", "only-waiting", "waiting-and-running")
_MOST_PODS = 2**31 - 1
_MOST_TIME = 2**60


@dataclass(frozen=True, slots=True, init=False)
class GangSpec:
    """The definition of a gang.

    :param name: the gang, such as "namespace/name".
    :param min_members: with how many pods it may start, 0 to 2**31 - 1.
    :param total: how many it has in the end, at least the minimum; ``None``: the minimum. It is
        kept for the caller, and decides nothing.
    :param mode: "strict": when one pod finds no place, those that wait give theirs back.
        "non-strict": they keep them, and only that pod is tried again.
    :param match_policy: which pods count. "once-satisfied": those that hold a place; once a pod of
        the group is bound, the others start one by one, and each is tried at once. "only-waiting":
        those that hold a place and are not bound yet. "waiting-and-running": those and the bound
        ones.
    :param wait_time: how long a pod holds its place, in the caller's unit of time, 1 to 2**60.
    :param groups: the gangs without which this one does not start; itself is always one of them.
        A gang that is named here need not name this one.
    :param roles: how many pods of each role are needed, beside ``min_members`` of any.
    :param must: layers of the network of which one domain has to hold all pods. This, ``prefer``
        and ``multiple`` are kept for the caller, and decide nothing.
    :param prefer: layers of which one domain is to hold all pods, if one can.
    :param multiple: by layer, each domain in use gets a multiple of so many pods, 1 to 2**31.
    :raises ValueError: a value is not allowed.
    :raises TypeError: something is of a wrong type.

    Source: Koordinator's gangs, ``apis/extension/coscheduling.go``.

    >>> from hivecore.gangs import GangSpec
    >>> GangSpec("ps", 2, groups=["worker"]).groups
    ('ps', 'worker')
    """

    name: str
    min_members: int
    total: int
    mode: GangMode
    match_policy: MatchPolicy
    wait_time: int
    groups: tuple[str, ...]
    roles: tuple[tuple[str, int], ...]
    must: tuple[str, ...]
    prefer: tuple[str, ...]
    multiple: tuple[tuple[str, int], ...]

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
    ) -> None:
        own = as_name(name, "name")
        least = as_int(min_members, "min_members", 0, _MOST_PODS)
        named = {as_name(one, "groups") for one in as_tuple(groups, "groups")}
        for field, value in (
            ("name", own),
            ("min_members", least),
            ("total", least if total is None else as_int(total, "total", least, _MOST_PODS)),
            ("mode", as_choice(mode, "mode", _MODES)),
            ("match_policy", as_choice(match_policy, "match_policy", _POLICIES)),
            ("wait_time", as_int(wait_time, "wait_time", 1, _MOST_TIME)),
            ("groups", tuple(sorted({own, *named}))),
            ("roles", as_amounts(roles, "roles", 0, _MOST_PODS)),
            ("must", tuple(as_name(layer, "must") for layer in as_tuple(must, "must"))),
            ("prefer", tuple(as_name(layer, "prefer") for layer in as_tuple(prefer, "prefer"))),
            ("multiple", as_amounts(multiple, "multiple", 1, 2**31)),
        ):
            object.__setattr__(self, field, value)

    def replace(self, **changes: Any) -> "GangSpec":
        """The definition with other values in some fields."""
        values = {field: getattr(self, field) for field in self.__slots__}
        return GangSpec(**{**values, **changes})
