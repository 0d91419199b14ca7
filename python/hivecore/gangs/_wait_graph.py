"""The wait-for graph between groups, by what they hold and lack, and its cycles.

A group gives up its places when it starts, which it does once no needed pod is held up. So it waits
for another group if a held-up pod (its own, or of a group that it starts with) lacks what a waiting
pod of the other group holds. It waits for itself if that pod is of a group that it starts with, but
not if it is its own: another place may do. Every deadlock is a cycle in this graph. Groups that
hold something and may wait for others are indexed by what they hold, so that a search meets no
others.

Invariants: ``_held[r][g]`` is the number of waiting pods of group g that hold r, ``_holds[g][r]``
the same; ``_wanted[r][g]`` are its held-up pods that lack r, ``_lacking[g][r]`` their number;
``_stuck[r]`` are the groups of ``_held[r]`` that lack something or start with others;
``_eager_for[r]`` are the eager groups of ``_wanted[r]``.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from hivecore.gangs._records import GroupBook, PodBook

__all__ = ["WaitGraph"]


_age = attrgetter("number")  # of two groups, the younger has the larger number
_K = TypeVar("_K")
_V = TypeVar("_V")


_Counts = dict[str, dict["GroupBook", int]]
_Groups = dict[str, dict["GroupBook", None]]


@dataclass(slots=True)
class WaitGraph:
    """What waiting pods hold and held-up pods lack; ``named``: the groups that one names."""

    named: Callable[[GroupBook], Iterable[GroupBook]] = field(compare=False)
    _holds: dict[GroupBook, dict[str, int]] = field(default_factory=dict)
    _held: _Counts = field(default_factory=dict)
    _lacking: dict[GroupBook, dict[str, int]] = field(default_factory=dict)
    _stuck: _Groups = field(default_factory=dict)
    _wanted: dict[str, dict[GroupBook, dict[PodBook, None]]] = field(default_factory=dict)
    _eager: set[GroupBook] = field(default_factory=set)
    _eager_for: _Groups = field(default_factory=dict)

    def hold(self, group: GroupBook, pod: PodBook) -> None:
        """Note that a pod of this group waits with what it holds."""
        if not pod.holds:
            return
        mine = self._holds.setdefault(group, {})
        stuck = self.may_wait(group)
        for what in pod.holds:
            mine[what] = mine.get(what, 0) + 1
            self._held.setdefault(what, {})[group] = mine[what]
            if stuck:
                self._stuck.setdefault(what, {})[group] = None

    def give_up(self, group: GroupBook, pod: PodBook) -> None:
        """Note that it no longer waits."""
        if not pod.holds:
            return
        mine = self._holds[group]
        for what in pod.holds:
            mine[what] -= 1
            if mine[what]:
                self._held[what][group] = mine[what]
            else:
                del mine[what]
                _discard(self._held, what, group)
                _discard(self._stuck, what, group)
        if not mine:
            del self._holds[group]

    def lack(self, group: GroupBook, pod: PodBook) -> None:
        """Note that a pod of this group is held up by what it lacks."""
        if not pod.lacks:
            return
        mine = self._lacking.get(group)
        is_first = mine is None
        if mine is None:
            mine = self._lacking[group] = {}
        for what in pod.lacks:
            mine[what] = mine.get(what, 0) + 1
            self._wanted.setdefault(what, {}).setdefault(group, {})[pod] = None
            if group in self._eager:
                self._eager_for.setdefault(what, {})[group] = None
        if is_first:
            self.sort(group)

    def lack_no_more(self, group: GroupBook, pod: PodBook) -> None:
        """Note that it is retried or gone."""
        if not pod.lacks:
            return
        mine = self._lacking[group]
        for what in pod.lacks:
            mine[what] -= 1
            del self._wanted[what][group][pod]
            if not mine[what]:
                del mine[what]
                _discard(self._wanted, what, group)
                _discard(self._eager_for, what, group)
        if not mine:
            del self._lacking[group]
            self.sort(group)

    def sort(self, group: GroupBook) -> None:
        """Update whether a group may be on a cycle. O(what it holds)."""
        held = self._holds.get(group)
        if not held:
            return
        if self.may_wait(group):
            for what in held:
                self._stuck.setdefault(what, {})[group] = None
        else:
            for what in held:
                _discard(self._stuck, what, group)

    def may_wait(self, group: GroupBook) -> bool:
        """Whether it lacks something, or starts with groups that may."""
        return group in self._lacking or bool(group.outside)

    def waits_for(self, group: GroupBook) -> list[GroupBook]:
        """Return the groups that a group waits for, the oldest first; it must hold something."""
        if group not in self._holds:
            return []
        visited = {group}
        holders = self._holders(self._held, [group], set())
        holders.pop(group, None)
        holders.update(self._holders(self._held, self._below(group, visited), set()))
        return sorted(holders, key=_age)

    def with_it(self, group: GroupBook) -> list[GroupBook]:
        """Return a group and all that it starts with."""
        return [group, *self._below(group, {group})]

    def mind(self, group: GroupBook, eager: bool) -> None:
        """Note whether a group is eager: what another group gives up temporarily may help it."""
        if (group in self._eager) == eager:
            return
        if eager:
            self._eager.add(group)
        else:
            self._eager.remove(group)
        for what in self._lacking.get(group, ()):
            if eager:
                self._eager_for.setdefault(what, {})[group] = None
            else:
                _discard(self._eager_for, what, group)

    def wanting(
        self, what: Iterable[str], all_of_them: bool
    ) -> dict[GroupBook, dict[PodBook, None]]:
        """The held-up pods that lack any of these, by group, of all or of eager groups."""
        wanting: dict[GroupBook, dict[PodBook, None]] = {}
        for resource in what:
            pods = self._wanted.get(resource)
            if pods is None:
                continue
            for group in pods if all_of_them else self._eager_for.get(resource, ()):
                wanting.setdefault(group, {}).update(pods[group])
        return wanting

    def is_wanted(self, what: Iterable[str]) -> bool:
        """Whether a held-up pod lacks any of these."""
        return not self._wanted.keys().isdisjoint(what)

    def is_held_up(self, group: GroupBook) -> bool:
        """Whether its pods lack what a group holds that may wait as well."""
        return any(what in self._stuck for what in self._lacking.get(group, ()))

    def cycle(self, group: GroupBook, ends: Container[GroupBook]) -> list[GroupBook]:
        """Return a shortest cycle through a group that only starts with this one, via what holds
        this group up; empty if there is none. O(graph).

        :param ends: all such groups that hold something, including this one.
        """
        visited = {group}
        lacking: dict[str, GroupBook | None] = {}  # the group that lacks it; None: several
        for lacker in [group, *self._below(group, visited)]:
            for what in self._lacking.get(lacker, ()):
                lacking[what] = None if what in lacking else lacker
        holders: dict[GroupBook, None] = {}
        alone: dict[GroupBook, None] = {}  # groups that hold what only they lack
        for what, only in lacking.items():
            for holder in self._stuck.get(what, ()):
                (alone if holder is only else holders)[holder] = None
        # Such a group does not wait for itself, but two that start with each other then wait for
        # each other. All other waits are known already.
        own = sorted(
            [other for other in alone if other in ends and other not in holders],
            key=_age,
        )
        if len(own) > 1 and not any(holder in ends for holder in holders):
            return own[-2:]
        path: dict[GroupBook, GroupBook | None] = {}
        seen = set[str]()
        ahead: deque[GroupBook] = deque()
        here: GroupBook | None = None
        while True:
            for after in sorted(holders, key=_age):
                if after in path:
                    continue
                path[after] = here
                if after in ends:
                    cycle = [after]
                    while (before := path[cycle[-1]]) is not None:
                        cycle.append(before)
                    return cycle
                ahead.append(after)
            if not ahead:
                return []
            here = ahead.popleft()
            if here in visited:
                holders = {}
            else:
                visited.add(here)
                holders = self._holders(self._stuck, [here, *self._below(here, visited)], seen)

    def _holders(
        self, held: dict[str, dict[GroupBook, _V]], groups: Iterable[GroupBook], seen: set[str]
    ) -> dict[GroupBook, None]:
        """Return the groups that hold what these groups lack, without what earlier groups lack."""
        holders: dict[GroupBook, None] = {}
        for group in groups:
            for what in self._lacking.get(group, ()):
                if what not in seen:
                    seen.add(what)
                    holders.update(dict.fromkeys(held.get(what, ())))
        return holders

    def _below(self, group: GroupBook, visited: set[GroupBook]) -> list[GroupBook]:
        """The groups that it starts with, transitively, not visited before; marks them visited."""
        ahead, below = [group], []
        while ahead:
            for other in self.named(ahead.pop()):
                if other not in visited:
                    visited.add(other)
                    ahead.append(other)
                    below.append(other)
        return below


def _discard(index: dict[str, dict[_K, _V]], what: str, key: _K) -> None:
    entries = index.get(what)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del index[what]
