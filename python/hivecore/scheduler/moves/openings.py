"""Who could make room for somebody who finds none: the jobs whose going costs least, by counting.

This only proposes: a proposal is tried before anything follows from it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.search.room import Room

__all__ = ["Openings"]

_MOST = 8
#: How much it counts, beside the cost, how many GPUs have to be found a place again.
_WEIGHTS = (0.0, 0.25, 1.0, 4.0)


class _Choice(NamedTuple):
    """Some jobs of a node, and how many slots there are more without them."""

    rate: float
    gpus: float
    node: str
    slots: int
    names: frozenset[str]


class Openings:
    """Proposals for one problem.

    :param closed: the nodes on which nobody is to be.
    :param jobs: those that may move.
    """

    def __init__(
        self, room: Room, jobs: Mapping[str, Live], costs: Mapping[str, int], closed: frozenset[str]
    ) -> None:
        self.room, self.jobs, self.costs, self.closed = room, jobs, costs, closed
        self._known: dict[tuple[int, int, str], _Choice | None] = {}

    def of(
        self,
        owner: str,
        units: Sequence[Unit],
        places: tuple[frozenset[str], ...],
        gone: frozenset[str],
        landed: Iterable[tuple[Role, PlacedPod]],
    ) -> list[frozenset[str]]:
        """Sets of jobs, each of which may be enough, the best one first; at most 8.

        :param owner: who finds no place, with all of his ``units``.
        :param places: the sets of nodes of which one has to hold him; none: all together.
        :param gone: the jobs that move already.
        :param landed: the pods that have taken their new places.
        """
        at = next((i for i, _ in enumerate(self.room.dimensions) if self.room.needs(i, units)), -1)
        taken: Counter[str] = Counter()
        found: list[frozenset[str]] = []
        if at >= 0:
            for role, pod in landed:
                taken[pod.node] += self.room.dimensions[at].need(role)
            sizes = self.room.needs(at, units)
            g = max(sizes)
            found = list(self._bundles(at, g, sizes.count(g), places, gone, taken))
        for name in self._singles(owner, gone):
            if len(found) >= _MOST:
                break
            if frozenset((name,)) not in found:
                found.append(frozenset((name,)))
        return found[:_MOST]

    def _singles(self, owner: str, gone: frozenset[str]) -> list[str]:
        """Where counting finds nothing amiss: those of his own tenant are most in his way."""
        tenant = self.jobs[owner].job.tenant if owner in self.jobs else ""
        rest = (name for name in self.costs if name not in gone and self.room.nodes[name])
        return sorted(
            rest,
            key=lambda name: (
                self.jobs[name].job.tenant != tenant,
                self.costs[name],
                self.jobs[name].job.gpus,
                name,
            ),
        )[:_MOST]

    def _bundles(
        self,
        at: int,
        g: int,
        pods: int,
        places: tuple[frozenset[str], ...],
        gone: frozenset[str],
        taken: Counter[str],
    ) -> Iterator[frozenset[str]]:
        """The cheapest jobs that give so many pods room, then others."""
        idle = self.room.dimensions[at].idle
        nodes = [node for node in idle if node not in self.closed]
        slots = {node: (self.room.idle(at, node, gone) - taken[node]) // g for node in nodes}
        changed = {node for name in gone for node in self.room.nodes[name]} | set(taken)
        choices = sorted(
            choice
            for node in nodes
            if (choice := self._choice(at, g, node, gone, taken, node in changed)) is not None
        )
        if not places:
            lack = pods - sum(slot for slot in slots.values() if slot > 0)
            yield from filter(None, dict.fromkeys(self._by_weight(choices, lack)))
            return
        by_place = []
        for place in places:
            lack = pods - sum(max(0, slots.get(node, 0)) for node in place)
            mine = [one for one in choices if one.node in place]
            bundle = _bundle(mine, lack)
            if bundle:
                by_place.append((self._rank(bundle), bundle))
        for _, bundle in sorted(by_place)[:_MOST]:
            yield bundle

    def _by_weight(self, choices: list[_Choice], lack: int) -> Iterator[frozenset[str]]:
        """Few GPUs have to be found a place again; the more that counts, the later it is tried.
        Then others than the first ones.
        """
        unit = sum(one.rate for one in choices) / max(1.0, sum(one.gpus for one in choices))
        for weight in _WEIGHTS:
            light = sorted(choices, key=lambda one: one.rate + weight * unit * one.gpus)
            yield _bundle(light, lack)
        for skipped in range(1, min(_MOST, len(choices))):
            yield _bundle(choices[skipped:], lack)

    def _rank(self, names: frozenset[str]) -> tuple[int, int, list[str]]:
        gpus = sum(self.jobs[name].job.gpus for name in names)
        return sum(self.costs[name] for name in names), gpus, sorted(names)

    def _choice(
        self,
        at: int,
        g: int,
        node: str,
        gone: frozenset[str],
        taken: Counter[str],
        is_changed: bool,
    ) -> _Choice | None:
        """The jobs of a node that give a slot more at the least cost."""
        if is_changed:
            return self._found(at, g, node, gone, self.room.idle(at, node, gone) - taken[node])
        key = at, g, node
        if key not in self._known:
            idle = self.room.dimensions[at].idle[node]
            self._known[key] = self._found(at, g, node, gone, idle)
        return self._known[key]

    def _found(self, at: int, g: int, node: str, gone: frozenset[str], idle: int) -> _Choice | None:
        sums: dict[int, tuple[int, int, tuple[str, ...]]] = {0: (0, 0, ())}
        wanted = (max(idle, 0) // g + 1) * g - idle
        for name, (held, _) in sorted(self.room.on[at].get(node, {}).items()):
            if name in gone or not held:
                continue
            cost, gpus = self.costs[name], self.jobs[name].job.gpus
            for freed, (spent, moved, names) in list(sums.items()):
                if freed < wanted:
                    total = freed + held
                    new = spent + cost, moved + gpus, (*names, name)
                    sums[total] = min(sums.get(total, new), new)
        enough = [(*how, total) for total, how in sums.items() if total >= wanted]
        if not enough:
            return None
        cost, gpus, names, total = min(enough)
        slots = max(1, (idle + total) // g - max(idle, 0) // g)
        return _Choice(cost / slots, gpus / slots, node, slots, frozenset(names))


def _bundle(choices: Iterable[_Choice], lack: int) -> frozenset[str]:
    """The first choices that are enough together; none: they are not, or nothing lacks."""
    found: frozenset[str] = frozenset()
    for choice in choices:
        if lack <= 0:
            break
        found |= choice.names
        lack -= choice.slots
    return found if lack <= 0 else frozenset()
