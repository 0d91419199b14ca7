"""Decides which pods are tried next, may start, or must give their places back.

A group whose gangs are all collected is *open* for a round: its idle pods are tried one after the
other. Any number of groups are open at once. The round ends when no pod is left to try, or when a
pod of a strict gang finds no place. Then:

    every gang that the group names is valid    its pods were released when the last became valid
    all of its own gangs are valid              they wait for those of other groups
    a gang that is not valid is strict          all places are given back
    none of these                               they keep their places; the others are retried

A pod of a gang with the policy "once-satisfied" whose group had a pod bound is in no round: it is
tried alone and at once, and after a failure at its own time.

The books record what an event has changed; `settle` acts on it after the event.
"""

from collections import deque
from collections.abc import Collection, Iterable
from operator import attrgetter

from hivecore._stateful import counted as in_words
from hivecore.gangs._books import Books
from hivecore.gangs._records import GangBook, GroupBook, PodBook, counted
from hivecore.gangs._states import IDLE
from hivecore.gangs.action import Action

__all__ = ["Rounds"]

_age = attrgetter("number")
# At most so many gangs of a group are checked to name one that is not ready.
_NAMED = 16


class Rounds(Books):
    """The rounds of all groups, which append to ``actions``.

    :param backoff: how long a group waits after a failure, doubled by each further failure.
    :param max_backoff: the longest such time.
    :param resolve: whether cycles of waits are broken.
    """

    def __init__(self, backoff: int, max_backoff: int, resolve: bool) -> None:
        super().__init__()
        self.backoff = backoff
        self.max_backoff = max_backoff
        self.resolve = resolve
        self.now = 0
        self.actions: list[Action] = []

    def say(self, kind: str, pods: Iterable[PodBook], group: GroupBook, reason: str) -> None:
        """Append an action."""
        names = tuple([pod.name for pod in pods])
        self.actions.append(Action(kind, names, group.id, reason))  # type: ignore[arg-type]

    # --- tries

    def admit(self, pod: PodBook) -> None:
        """Try an idle pod now or later, and say which."""
        group = pod.gang.group
        if self.starts_alone(pod):
            self._try_alone(pod)
            return
        if group.open:
            self._queue(pod)
        elif group.time < 0:
            self._open(group, group.idle.values())
        self.go_on(group)
        if pod.state in IDLE:
            self.say("hold", (pod,), group, self.reason(pod))

    def _queue(self, pod: PodBook) -> None:
        if not pod.queued:
            self.enqueue(pod)
            pod.gang.group.queue.append(pod)

    def _open(self, group: GroupBook, pods: Iterable[PodBook]) -> None:
        """Start a round with these pods, in the order of their numbers."""
        if group.uncollected or len(group.idle) == group.alone:
            return
        chosen = sorted(
            [pod for pod in pods if pod.time < 0 and pod.state in IDLE],
            key=_age,
        )
        if not chosen:
            return
        self.timers.clear(group)
        group.open = True
        self.mind(group)
        group.queue = deque(chosen)
        for pod in chosen:
            self.enqueue(pod)

    def try_pod(self, pod: PodBook, reason: str) -> None:
        self.call_off(pod)
        self.move(pod, "trying")
        pod.lacks = ()
        self.say("try", (pod,), pod.gang.group, reason)

    def _try_alone(self, pod: PodBook) -> None:
        group = pod.gang.group
        self.try_pod(pod, f"pods of group {group.id!r} were bound before: it starts alone")

    def _try_those_alone(self, group: GroupBook) -> None:
        """Try the idle pods that start alone, except those that failed alone before."""
        pods = [
            pod for _, pod in sorted(group.idle.items()) if pod.time < 0 and self.starts_alone(pod)
        ]
        for pod in pods:
            self.dequeue(pod)
        group.queue = deque([pod for pod in group.queue if pod.queued])
        for pod in pods:
            self._try_alone(pod)
        if len(group.idle) == group.alone:
            self.timers.clear(group)

    def go_on(self, group: GroupBook) -> None:
        """Try the next pod of an open group, or end its round."""
        if not group.open or group.trying is not None:
            return
        if not group.uncollected:
            while group.queue:
                pod = group.queue.popleft()
                if pod.queued:
                    self.dequeue(pod)
                    if pod.state in IDLE:
                        group.trying = pod
                        count = len(group.waiting)
                        first = f"it is tried for group {group.id!r}"
                        self.try_pod(pod, f"{first}, of which {count} wait" if count else first)
                        return
        self._end(group)

    def _end(self, group: GroupBook) -> None:
        group.open = False
        self.mind(group)
        self._empty_queue(group)
        if group.waiting:
            if group.uncollected:
                self.close(group, self._what_is_missing(group))
                return
            if group.short:
                strict = [
                    gang
                    for gang in group.members.values()
                    if not gang.valid and gang.spec is not None and gang.spec.mode == "strict"
                ]
                if strict:
                    self.close(group, f"no pod is left to try, {_short_of(strict[0])}")
                    return
        self.again_later(group)

    def _empty_queue(self, group: GroupBook) -> None:
        for pod in group.queue:
            self.dequeue(pod)
        if group.queue:
            group.queue.clear()
            self.suspect(group)

    def again_later(self, group: GroupBook) -> None:
        """Set the time of the next round, if there is a pod to try."""
        if group.uncollected or len(group.idle) == group.alone:
            if not group.idle:
                group.failures = 0
            return
        group.failures += 1
        self.timers.set(group, self.now + self._pause(group.failures))

    def _pause(self, failures: int) -> int:
        return min(self.max_backoff, self.backoff << min(failures - 1, 60))

    # --- ends of waits

    def close(self, group: GroupBook, reason: str) -> None:
        """Take back all places of a group that may not start, and retry it later."""
        group.open = False
        self.mind(group)
        group.failure = reason
        self._empty_queue(group)
        if group.trying is not None:
            group.trying.doomed = True  # unless it starts alone by then
            group.trying = None
        pods = [group.waiting[number] for number in sorted(group.waiting)]
        self.reject(pods, group, reason)
        if group.time < 0:
            self.again_later(group)

    def reject(self, pods: list[PodBook], group: GroupBook, reason: str) -> None:
        """Take back the places of waiting pods."""
        if not pods:
            return
        freed: dict[str, None] = {}
        for pod in pods:
            self.call_off(pod)
            self.move(pod, "pending")
            freed.update(dict.fromkeys(pod.holds))
            pod.holds = ()
            if self.starts_alone(pod):
                self._again_alone(pod)
        self.say("reject", pods, group, reason)
        self.wake(freed, False)

    def lose(self, pod: PodBook, reason: str) -> None:
        """Handle a pod that has lost its place: a strict group fails."""
        group, spec = pod.gang.group, pod.gang.spec
        if self.starts_alone(pod):
            if pod.time < 0:
                self._again_alone(pod)
        elif spec is None or spec.mode == "strict":
            self.close(group, reason)
        elif not group.open and group.time < 0:
            self.again_later(group)

    def _again_alone(self, pod: PodBook) -> None:
        """Set the time to retry a pod that starts alone."""
        pod.failures += 1
        self.put_off(pod, self.now + self._pause(pod.failures))

    def wake(self, what: Iterable[str], hard: bool) -> None:
        """Retry the pods that lack what is free now.

        :param hard: whether it stays free. What a failed group gives back does not wake groups that
            have failed themselves, or they would wake each other forever.
        """
        wanting = self.graph.wanting(what, hard)
        if not wanting:
            return
        touched: dict[GroupBook, list[PodBook]] = {}
        for group in _in_order(wanting):
            for pod in sorted(wanting[group], key=_age):
                if self.starts_alone(pod):
                    self.try_pod(pod, "what it lacks is free")
                elif group.open:
                    self._queue(pod)
                elif hard or group.waiting:
                    touched.setdefault(group, []).append(pod)
        for group, pods in touched.items():
            self._open(group, pods if group.waiting else group.idle.values())
            self.go_on(group)

    def release(self, ready: Iterable[GroupBook]) -> None:
        """Start the waiting pods of these groups and all that start with them, if they may.

        Then do the same for groups that only start with these.
        """
        started: set[GroupBook] = set()
        ahead = deque(ready)
        while ahead:
            group = ahead.popleft()
            if group in started:
                continue
            starting = self.reachable(group, started)
            if starting is None:
                continue
            started.update(starting)
            self._release([each for each in starting if each.waiting])
            for each in starting:
                ahead.extend([other for other in self.naming_it(each) if not other.lacking])

    def _release(self, groups: list[GroupBook]) -> None:
        for group in groups:
            if group.members_bound < 0:
                group.members_bound = sum(self.gangs[name].placed for name in group.names)
        for group in _in_order(groups):
            pods = [group.waiting[number] for number in sorted(group.waiting)]
            for pod in pods:
                self.call_off(pod)
                self.move(pod, "released")
                pod.failures = 0
            group.failure = ""
            self.say("release", pods, group, "every gang of the group has enough pods")

    def settle(self) -> None:
        """Act on the groups that an event has changed."""
        while self.has_changes():
            if self.ready:
                ready, self.ready = self.ready, {}
                self.release(ready)
            elif self.satisfied:
                satisfied, self.satisfied = self.satisfied, {}
                for group in _in_order(satisfied):
                    self._try_those_alone(group)
            elif self.dropped:
                dropped, self.dropped = self.dropped, {}
                for group in dropped:
                    if group.uncollected and (group.waiting or group.open):
                        self.close(group, self._what_is_missing(group))
            elif self.collected:
                collected, self.collected = self.collected, {}
                for group in _in_order(collected):
                    if not group.open and group.time < 0 and not group.uncollected:
                        self._open(group, group.idle.values())
                        self.go_on(group)
            else:
                suspects, self.suspects = self.suspects, {}
                for group in _in_order(suspects):
                    self._break_cycles(group)

    def suspect(self, group: GroupBook) -> None:
        """Note that a group is held up by more than before.

        It, or a group that only starts with it, may be on a cycle of waits now.
        """
        if self.graph.is_held_up(group):
            self.suspects[group] = None

    def suspect_below(self, group: GroupBook) -> None:
        """Note that a group starts with other groups than before."""
        for below in self.graph.with_it(group):
            self.suspect(below)

    def _break_cycles(self, group: GroupBook) -> None:
        if not self.resolve:
            return
        ends = {other for other in self.dependents(group) if other.waiting}
        if not ends:
            return
        while cycle := self.graph.cycle(group, ends):
            youngest = max(cycle, key=_age)
            others = [repr(other.id) for other in cycle if other is not youngest]
            met = f"group {', '.join(others)}" if others else "a group that it starts with"
            self.close(youngest, f"a deadlock with {met}; this group is the youngest that holds")

    # --- words

    def reason(self, pod: PodBook) -> str:
        """Return why a pod is not tried, or does not start."""
        group = pod.gang.group
        if pod.state in IDLE:
            if group.uncollected and not self.starts_alone(pod):
                return self._what_is_missing(group)
            if group.trying is not None:
                return f"pod {group.trying.name!r} is tried first for group {group.id!r}"
            return group.failure or "it found no place"
        if pod.state != "waiting":
            return ""
        if not pod.gang.valid:
            return _short_of(pod.gang)
        for name in group.names[:_NAMED]:
            gang = self.gangs.get(name)
            if gang is None:
                return f"gang {name!r} is not defined"
            if not gang.valid:
                return _short_of(gang)
        return f"{group.lacking or 'some'} other gangs of the group have too few places"

    def _what_is_missing(self, group: GroupBook) -> str:
        for name in group.names[:_NAMED]:
            gang = self.gangs.get(name)
            if gang is None or gang.spec is None:
                return f"gang {name!r} is not defined"
            if not gang.collected:
                _, pods = counted(gang.spec, gang.live, gang.placed, gang.bound)
                if pods < gang.spec.min_members:
                    return f"gang {name!r} has {pods} of {in_words(gang.spec.min_members, 'pod')}"
                return f"gang {name!r} has too few pods of a role"
        return f"{group.uncollected} gangs of the group have too few pods"


def _in_order(groups: Collection[GroupBook]) -> Collection[GroupBook]:
    """Return older groups first."""
    return groups if len(groups) < 2 else sorted(groups, key=_age)


def _short_of(gang: GangBook) -> str:
    name, spec = gang.name, gang.spec
    if spec is None:
        return f"gang {name!r} is not defined"
    places, _ = counted(spec, gang.live, gang.placed, gang.bound)
    if places < spec.min_members:
        return f"gang {name!r} has places for {places} of {in_words(spec.min_members, 'pod')}"
    return f"gang {name!r} has places for too few pods of a role"
