"""The pods of gangs, the gangs, and the groups of gangs that start together.

Gangs that name the same gangs form a group, and are its members. A gang is *valid* if enough of its
pods hold a place, and *collected* if it has enough pods. A change of a pod changes its gang's
counts; when a gang becomes valid or collected, or no longer is, ``lacking`` or ``uncollected`` of
the groups that name it change. So whether a group may start, or be tried, is known without looking
at its pods.

Invariants: an undefined gang has pods and is a group of its own; a group has members; ``idle`` are
its pending and held-up pods, ``waiting`` those that hold a place, by number.
"""

from collections import deque
from collections.abc import Container

from hivecore.gangs._records import GangBook, GroupBook, PodBook, counted
from hivecore.gangs._states import BOUND, ENDED, IDLE, NOT_PLACED, PLACED
from hivecore.gangs._timers import Timers
from hivecore.gangs._wait_graph import WaitGraph
from hivecore.gangs.action import PodState
from hivecore.gangs.gang_spec import GangSpec

__all__ = ["Books"]

_LISTED = IDLE | {"waiting"}  # states of pods that a group lists
# state -> (has a place, is bound, has not ended)
_COUNTS: dict[str | None, tuple[int, int, int]] = {
    None: (0, 0, 0),
    **dict.fromkeys(NOT_PLACED, (0, 0, 1)),
    **dict.fromkeys(PLACED, (1, 0, 1)),
    **dict.fromkeys(BOUND, (0, 1, 1)),
    **dict.fromkeys(ENDED, (0, 0, 0)),
}


class Books:
    """All pods, gangs and groups, and the waits between groups."""

    def __init__(self) -> None:
        self.pods: dict[str, PodBook] = {}
        self.gangs: dict[str, GangBook] = {}
        self.groups: dict[tuple[str, ...], GroupBook] = {}
        self.naming: dict[str, dict[tuple[str, ...], GroupBook]] = {}
        self.graph: WaitGraph = WaitGraph(self.named)
        self.timers = Timers()
        self.numbered = 0
        # Groups to look at after the event, because
        self.ready: dict[GroupBook, None] = {}  # all gangs that they name are valid
        self.satisfied: dict[GroupBook, None] = {}  # some of their pods may start alone
        self.collected: dict[GroupBook, None] = {}  # the last gang that they name is collected
        self.dropped: dict[GroupBook, None] = {}  # a gang that they name no longer exists
        self.suspects: dict[GroupBook, None] = {}  # they may be on a cycle of waits

    @property
    def changes(self) -> tuple[dict[GroupBook, None], ...]:
        """Return the groups to look at, by reason."""
        return self.ready, self.satisfied, self.collected, self.dropped, self.suspects

    def has_changes(self) -> bool:
        """Whether a group has changed since the last look."""
        return bool(self.ready or self.satisfied or self.dropped or self.collected or self.suspects)

    def number(self) -> int:
        """Return the next number."""
        self.numbered += 1
        return self.numbered

    # --- times of idle pods

    def put_off(self, pod: PodBook, time: int) -> None:
        """Try an idle pod at this time, outside rounds of its group."""
        pod.gang.group.alone += pod.time < 0
        self.timers.set(pod, time)

    def call_off(self, pod: PodBook) -> None:
        """Cancel a pod's timer."""
        if pod.time >= 0:
            if pod.state in IDLE:
                pod.gang.group.alone -= 1
            self.timers.clear(pod)

    # --- groups

    def mind(self, group: GroupBook) -> None:
        """Note whether pods of a group are retried for what others give up temporarily."""
        self.graph.mind(group, group.open or group.once or bool(group.waiting))

    def join(self, gang: GangBook, names: tuple[str, ...]) -> None:
        """Put a gang without a group into the group with these names."""
        group = self.groups.get(names)
        if group is None:
            group = self.new_group(names, self.number())
        self.enter(gang, group)

    def new_group(self, names: tuple[str, ...], number: int) -> GroupBook:
        group = self.groups[names] = GroupBook(names, number)
        for name in names:
            self.naming.setdefault(name, {})[names] = group
            gang = self.gangs.get(name)
            if gang is not None:
                group.lacking -= gang.valid
                group.uncollected -= gang.collected
                if hasattr(gang, "group"):
                    gang.group.awaited += 1
        return group

    def enter(self, gang: GangBook, group: GroupBook) -> None:
        gang.group = group
        group.members[gang.name] = gang
        group.short += not gang.valid
        group.live += gang.live
        named_by = self.naming[gang.name]
        # It was in no group, and counted for none.
        group.awaited += len(named_by) - 1
        for pod in gang.pods.values():
            self._into(group, pod)
        self.graph.sort(group)
        if gang.bound and not group.once:
            self.satisfy(group, True)
        elif group.once:
            self.satisfied[group] = None

    def leave(self, gang: GangBook) -> None:
        """Take a gang out of its group, which is removed with its last member."""
        group = gang.group
        for pod in gang.pods.values():
            self._out_of(group, pod)
            pod.queued = pod.doomed = False
        if group.queue:
            group.queue = deque([pod for pod in group.queue if pod.gang is not gang])
        group.awaited -= len(self.naming[gang.name]) - 1
        group.live -= gang.live
        group.short -= not gang.valid
        del group.members[gang.name]
        del gang.group
        if group.members:
            self.graph.sort(group)
            if not group.live:
                self.satisfy(group, False)
            return
        self.timers.clear(group)
        self.graph.mind(group, False)
        for changed in self.changes:
            changed.pop(group, None)
        del self.groups[group.names]
        for name in group.names:
            del self.naming[name][group.names]
            if not self.naming[name]:
                del self.naming[name]
            other = self.gangs.get(name)
            if other is not None and hasattr(other, "group"):
                other.group.awaited -= 1

    def named(self, group: GroupBook) -> list[GroupBook]:
        """Return the groups of the gangs that a group names."""
        if not group.outside:
            return []
        gangs = [self.gangs[name] for name in group.names if name in self.gangs]
        return list(dict.fromkeys([gang.group for gang in gangs]))

    def reachable(
        self, group: GroupBook, known: Container[GroupBook] = ()
    ) -> list[GroupBook] | None:
        """The groups, but the ``known``, that start with this one; ``None``: one may not start."""
        if group.lacking:
            return None
        reached = {group: None}
        ahead = [group]
        while ahead:
            here = ahead.pop()
            if here.outside:
                for name in here.names:
                    other = self.gangs[name].group
                    if other.lacking:
                        return None
                    if other not in reached and other not in known:
                        reached[other] = None
                        ahead.append(other)
        return list(reached)

    def naming_it(self, group: GroupBook) -> list[GroupBook]:
        """Return the groups that name a gang of this one."""
        if not group.awaited:
            return []
        return [partner for name in group.members for partner in self.naming[name].values()]

    def dependents(self, group: GroupBook) -> set[GroupBook]:
        """Return the groups that only start with this one, including itself."""
        dependents = {group}
        ahead = [group]
        while ahead:
            for other in self.naming_it(ahead.pop()):
                if other not in dependents:
                    dependents.add(other)
                    ahead.append(other)
        return dependents

    # --- gangs

    def gang(self, name: str) -> GangBook:
        """Return the gang of this name; a new one is undefined."""
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = GangBook(name)
            self.join(gang, (name,))
        return gang

    def define(self, gang: GangBook, spec: GangSpec | None, source: str) -> None:
        """Set or remove a gang's definition."""
        names = (gang.name,) if spec is None else spec.groups
        if names != gang.group.names:
            members_bound = gang.group.members_bound
            self.leave(gang)
            gang.spec, gang.source = spec, source
            self.join(gang, names)
            # Pods that are being bound are members of what was released then.
            if gang.group.members_bound < 0 and gang.placed + gang.bound:
                gang.group.members_bound = members_bound
        else:
            gang.spec, gang.source = spec, source
        self.judge(gang)
        if spec is None and not gang.pods:
            self.drop(gang)
            return
        group = gang.group
        if group.once:
            self.satisfied[group] = None
        for pod in list(group.idle.values()) if group.alone else ():
            if not self.starts_alone(pod):
                self.call_off(pod)

    def drop(self, gang: GangBook) -> None:
        """Forget a gang without pods; no group counts on it."""
        gang.spec = None
        self.judge(gang)
        self.leave(gang)
        del self.gangs[gang.name]

    def starts_alone(self, pod: PodBook) -> bool:
        """Whether a pod is tried, and starts, without the other pods of its group."""
        spec = pod.gang.spec
        return spec is not None and pod.gang.group.once and spec.match_policy == "once-satisfied"

    def judge(self, gang: GangBook) -> None:
        """Update whether a gang is valid and collected. O(roles + groups that name it)."""
        valid, collected = self.verdict(gang)
        if valid != gang.valid:
            self._turn(gang, valid)
        if collected != gang.collected:
            gang.collected = collected
            for group in self.naming[gang.name].values():
                group.uncollected += -1 if collected else 1
                if not collected:
                    self.dropped[group] = None
                elif not group.uncollected:
                    self.collected[group] = None

    def verdict(self, gang: GangBook) -> tuple[bool, bool]:
        """Return whether a gang's counts make it valid, and collected. O(roles)."""
        spec = gang.spec
        if spec is None:
            return False, False
        least = spec.min_members
        places, pods = counted(spec, gang.live, gang.placed, gang.bound)
        valid, collected = places >= least, pods >= least
        for role, number in spec.roles:
            places, pods = counted(spec, *gang.of_role.get(role, (0, 0, 0)))
            valid &= places >= number
            collected &= pods >= number
        once = spec.match_policy == "once-satisfied" and gang.group.once
        return valid or once, collected

    def _turn(self, gang: GangBook, valid: bool) -> None:
        gang.valid = valid
        step = -1 if valid else 1
        gang.group.short += step
        for group in self.naming[gang.name].values():
            group.lacking += step
            if not group.lacking:
                self.ready[group] = None

    def satisfy(self, group: GroupBook, once: bool) -> None:
        """Note that a pod of the group is bound, or that the group has no more pods."""
        if once:
            group.once = True
            self.satisfied[group] = None
        else:
            group.once = False
            group.members_bound = -1
            group.failures = 0
            group.failure = ""
        self.mind(group)
        for gang in group.members.values():
            self.judge(gang)

    # --- pods

    def add(self, name: str, gang: GangBook, role: str, state: PodState) -> PodBook:
        """Add a pod."""
        pod = self.pods[name] = gang.pods[name] = PodBook(name, gang, role, self.number())
        self.move(pod, state)
        return pod

    def remove(self, pod: PodBook) -> None:
        """Remove a pod; its gang is removed with the last pod, unless an object defines it."""
        gang = pod.gang
        self.call_off(pod)
        self.move(pod, None)
        pod.queued = False
        del self.pods[pod.name], gang.pods[pod.name]
        if not gang.pods and gang.source != "object":
            self.drop(gang)

    def move(self, pod: PodBook, state: PodState | None) -> None:
        """Change a pod's state and all counts of it; ``None`` means no state."""
        gang, before = pod.gang, pod.state
        group = gang.group
        if before in _LISTED:
            self._out_of(group, pod)
        pod.state = state
        if state in _LISTED:
            self._into(group, pod)
        counts, after = _COUNTS[before], _COUNTS[state]
        if counts == after:
            return
        placed = after[0] - counts[0]
        bound = after[1] - counts[1]
        live = after[2] - counts[2]
        gang.placed += placed
        gang.bound += bound
        gang.live += live
        if pod.role:
            of_role = gang.of_role.setdefault(pod.role, [0, 0, 0])
            of_role[0] += live
            of_role[1] += placed
            of_role[2] += bound
            if not any(of_role):
                del gang.of_role[pod.role]
        group.live += live
        if live < 0 and not group.live:
            self.satisfy(group, False)
        elif bound > 0 and not group.once:
            self.satisfy(group, True)
        else:
            self.judge(gang)

    def enqueue(self, pod: PodBook) -> None:
        """Note that a pod is about to be tried; what it lacked no longer counts."""
        if not pod.queued:
            if pod.state == "held-up":
                self.graph.lack_no_more(pod.gang.group, pod)
            pod.queued = True

    def dequeue(self, pod: PodBook) -> None:
        """Note that a pod is not to be tried, or is tried now."""
        if pod.queued:
            pod.queued = False
            if pod.state == "held-up":
                self.graph.lack(pod.gang.group, pod)

    def _into(self, group: GroupBook, pod: PodBook) -> None:
        if pod.state in IDLE:
            group.idle[pod.number] = pod
            group.alone += pod.time >= 0
            if pod.state == "held-up" and not pod.queued:
                self.graph.lack(group, pod)
        elif pod.state == "waiting":
            group.waiting[pod.number] = pod
            if len(group.waiting) == 1:
                self.mind(group)
            self.graph.hold(group, pod)

    def _out_of(self, group: GroupBook, pod: PodBook) -> None:
        if pod.state in IDLE:
            del group.idle[pod.number]
            group.alone -= pod.time >= 0
            if pod.state == "held-up" and not pod.queued:
                self.graph.lack_no_more(group, pod)
        elif pod.state == "waiting":
            del group.waiting[pod.number]
            if not group.waiting:
                self.mind(group)
            self.graph.give_up(group, pod)
