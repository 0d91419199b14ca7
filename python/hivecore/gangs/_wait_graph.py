"""Who holds what others lack: the wait-for graph between groups, and its cycles.

A group that holds places gives them up when it starts, and it starts when no pod that it needs is
held up. So it waits for another group if a held-up pod, its own or one of a group that it starts
with, lacks what a waiting pod of the other one holds. It waits for itself if that pod is of a
group that it starts with. Every deadlock is a cycle in this graph. Groups that hold something and
may wait for somebody are kept by what they hold, so that a search meets no others.

Invariants: ``_held[r][g]`` waiting pods of group g hold r, ``_holds[g][r]`` says the same;
``_lacking[g][r]`` held-up pods of it lack r; ``_stuck[r]`` are the groups of ``_held[r]`` that lack
something or start with others.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

__all__ = ["Node", "WaitGraph", "Wanting"]


class Node(Protocol):
    """A group; of two the younger one has the larger number."""

    number: int

    @property
    def outside(self) -> int:
        """How many gangs it starts with that are not its own."""


class Wanting(Protocol):
    """A pod."""

    @property
    def holds(self) -> tuple[str, ...]:
        """What it holds, each once."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What it lacks, each once."""


_G = TypeVar("_G", bound=Node)
_P = TypeVar("_P", bound=Wanting)
_K = TypeVar("_K")
_V = TypeVar("_V")


class WaitGraph(Generic[_G, _P]):
    """What waiting pods hold and held-up pods lack.

    :param others: the groups that start with a group, itself left out.
    """

    __slots__ = ("_held", "_holds", "_lacking", "_others", "_stuck", "wanted")

    def __init__(self, others: Callable[[_G], Iterable[_G]]) -> None:
        self._others = others
        self._holds: dict[_G, dict[str, int]] = {}
        self._held: dict[str, dict[_G, int]] = {}
        self._lacking: dict[_G, dict[str, int]] = {}
        self._stuck: dict[str, dict[_G, None]] = {}
        self.wanted: dict[str, dict[_P, None]] = {}
        """The held-up pods that lack something."""

    def hold(self, group: _G, pod: _P) -> None:
        """A pod of this group waits with what it holds."""
        if not pod.holds:
            return
        mine = self._holds.setdefault(group, {})
        stuck = self.may_wait(group)
        for what in pod.holds:
            mine[what] = mine.get(what, 0) + 1
            self._held.setdefault(what, {})[group] = mine[what]
            if stuck:
                self._stuck.setdefault(what, {})[group] = None

    def give_up(self, group: _G, pod: _P) -> None:
        """It does not wait any more."""
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

    def lack(self, group: _G, pod: _P) -> None:
        """A pod of this group is held up for want of what it lacks."""
        if not pod.lacks:
            return
        mine = self._lacking.setdefault(group, {})
        for what in pod.lacks:
            mine[what] = mine.get(what, 0) + 1
            self.wanted.setdefault(what, {})[pod] = None
        self.sort(group)

    def lack_no_more(self, group: _G, pod: _P) -> None:
        """It is tried again, or gone."""
        if not pod.lacks:
            return
        mine = self._lacking[group]
        for what in pod.lacks:
            mine[what] -= 1
            if not mine[what]:
                del mine[what]
            _discard(self.wanted, what, pod)
        if not mine:
            del self._lacking[group]
        self.sort(group)

    def sort(self, group: _G) -> None:
        """Note whether a group may be on a cycle, after that has changed."""
        held = self._holds.get(group)
        if not held:
            return
        if self.may_wait(group):
            for what in held:
                self._stuck.setdefault(what, {})[group] = None
        else:
            for what in held:
                _discard(self._stuck, what, group)

    def may_wait(self, group: _G) -> bool:
        """Whether it lacks something, or starts with others that may."""
        return group in self._lacking or bool(group.outside)

    def waits_for(self, group: _G) -> list[_G]:
        """The groups that a group waits for, the oldest first; it must hold something."""
        if group not in self._holds:
            return []
        found: dict[_G, None] = {}
        for what in self._lacking.get(group, ()):
            found.update(dict.fromkeys(self._held.get(what, ())))
        found.pop(group, None)
        for what in self._lacked_by_others(group):
            found.update(dict.fromkeys(self._held.get(what, ())))
        return sorted(found, key=lambda one: one.number)

    def cycle(self, group: _G) -> list[_G]:
        """The groups of a shortest cycle through this one; empty: there is none. O(graph)."""
        if not self._lacking or group not in self._holds or not self.may_wait(group):
            return []
        came_from: dict[_G, _G] = {}
        seen: set[str] = set()
        ahead = deque([group])
        while ahead:
            here = ahead.popleft()
            lacks = self._lacked_by_others(here)
            if here is not group:
                lacks.update(self._lacking.get(here, {}))
            if any(group in self._stuck.get(what, ()) for what in lacks):
                path = [here]
                while path[-1] is not group:
                    path.append(came_from[path[-1]])
                return path
            if here is group:
                lacks.update(self._lacking.get(here, {}))
            found: dict[_G, None] = {}
            for what in lacks:
                if what not in seen:
                    seen.add(what)
                    found.update(dict.fromkeys(self._stuck.get(what, ())))
            for after in sorted(found, key=lambda one: one.number):
                if after is not group and after not in came_from:
                    came_from[after] = here
                    ahead.append(after)
        return []

    def _lacked_by_others(self, group: _G) -> dict[str, int]:
        """What held-up pods lack of the groups that it starts with."""
        found: dict[str, int] = {}
        if group.outside:
            for other in self._others(group):
                found.update(self._lacking.get(other, {}))
        return found

    def books(self) -> tuple[object, ...]:
        """All that is known, to be compared with what it should be."""
        return self._holds, self._held, self._lacking, self._stuck, self.wanted


def _discard(index: dict[str, dict[_K, _V]], what: str, key: _K) -> None:
    entries = index.get(what)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del index[what]
