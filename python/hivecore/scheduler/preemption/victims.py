"""Whose end would let a unit start, tried on a branch before anybody is named.

Quotas name whom they reclaim from, else who is less important in the same quota, and cells whom
they preempt; what they name leaves on a branch, and the unit is decided on there, until it starts
or nobody more is named. Where placement in a network or devices refuse, who name nobody, those who
may have to leave do so on the branch, the least important first, twice as many each time. Where
more than one stage has had its say, as many stay then as can.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.units import Refused, Unit, owner_of
from hivecore.scheduler.stages.transaction import Stages, Started

if TYPE_CHECKING:
    from hivecore.scheduler.lifecycle.live import Live

__all__ = ["NAME_NOBODY", "Victims", "find_victims", "might_leave"]

#: Who has to leave, and why, in order.
Victims = dict[str, str]
_MOST_BRANCHES = 32
#: Where these refuse and name nobody, nobody's leaving would help.
_WHO_NAME_VICTIMS = ("quotas", "cells", "scheduler")
#: These refuse because too little is idle, and name nobody.
NAME_NOBODY = ("topology", "devices")


def find_victims(
    stages: Stages, jobs: "Mapping[str, Live]", unit: Unit, refused: Refused, now: float
) -> Victims:
    """Those without whom the unit starts; none: there are no such jobs, or too hard to find.

    Who shares its GPUs leaves with those that it shares them with.
    """
    search = _Search(stages, jobs, unit, now)
    named = search.of_quotas(stages, refused)
    if named and search.has_quota_soon():
        return {}
    victims = search.victims(refused, named)
    return {member: why for name, why in victims.items() for member in search.stages.members(name)}


def might_leave(other: "Live", job: Job, by_quota: bool) -> bool:
    """Whether one that runs might have to leave for a guaranteed job, at a glance.

    :param by_quota: quotas take back what they have lent.
    """
    mine = other.job
    if not mine.preemptible or other.for_job or _is_needed(mine.name, job):
        return False
    if other.is_weak or (by_quota and mine.quota != job.quota):
        return True
    return mine.priority < job.priority and _is_on_the_side_of(mine, job, by_quota)


def _is_on_the_side_of(mine: Job, job: Job, by_quota: bool) -> bool:
    """Whether priorities count between jobs: of one tenant, or of one quota."""
    return mine.tenant == job.tenant or (by_quota and mine.quota == job.quota)


def _is_needed(name: str, job: Job) -> bool:
    """Whether a job does not start without another one."""
    return name in job.after or name in job.together


class _Search:
    def __init__(self, stages: Stages, jobs: "Mapping[str, Live]", unit: Unit, now: float) -> None:
        self.stages, self.jobs, self.unit, self.now = stages, jobs, unit, now
        self.job = jobs[unit.owner].job

    def has_quota_soon(self) -> bool:
        """Whether quotas admit it when those who have to stop for others already have stopped: till
        then they count both these and those others.
        """
        stopping = [
            unit.request
            for live in self.jobs.values()
            if live.for_job and self.stages.members(live.job.name)[0] == live.job.name
            for unit in live.placed
        ]
        quotas = self.stages.quotas
        return bool(stopping) and quotas is not None and quotas.would_admit(self.unit, stopping)

    def of_quotas(self, stages: Stages, refused: Refused) -> Victims:
        """Whom quotas name, and why."""
        reclaimed = dict.fromkeys(map(owner_of, refused.quota_victims), "reclaim")
        if reclaimed or stages.quotas is None or refused.refusal.stage != stages.quotas.name:
            return reclaimed
        owners = dict.fromkeys(map(owner_of, stages.quotas.less_important(self.unit)))
        weak = {name for name in owners if name in self.jobs and self.jobs[name].is_weak}
        return {name: "opportunistic" if name in weak else "priority" for name in owners}

    def victims(self, refused: Refused, named: Victims) -> Victims:
        """See `find_victims`.

        :param named: by quotas.
        """
        found: Victims = {}
        if not self._add_named(found, refused, named):
            return {}
        if found and self._is_enough(refused):
            return found
        branch: Stages | None = None
        again: Refused = refused
        gone: list[str] = []
        while leaving := [name for name in found if name not in gone]:
            branch = branch or self.stages.branch()
            self._leave(branch, leaving)
            gone += leaving
            tried = branch.start(self.unit.trial())
            if isinstance(tried, Started):
                return found if leaving == gone else self._without_whom_it_may(found, gone)
            again = tried
            if not self._add_named(found, again, self.of_quotas(branch, again)):
                return {}
        if again.refusal.stage in _WHO_NAME_VICTIMS:
            return {}
        return self._searched(found)

    def _is_enough(self, refused: Refused) -> bool:
        """Whether the word of the stage that names them is enough: nobody is asked after it."""
        if self.stages.devices is not None:
            return False
        return bool(refused.cell_victims) or self.stages.place is None

    def _add_named(self, found: Victims, refused: Refused, of_quotas: Victims) -> bool:
        """Add the jobs that stages name; whether all of them may be made to leave."""
        for name, why in of_quotas.items():
            found.setdefault(name, why)
        for name in refused.cell_victims:
            owner = owner_of(name)
            weak = self.jobs[owner].is_weak or self.stages.is_downgraded(name)
            found.setdefault(owner, "opportunistic" if weak else "priority")
        return all(self._may_leave(name) for name in found)

    def _may_leave(self, name: str) -> bool:
        live = self.jobs.get(name)
        # Nobody leaves the idle cells he has for himself.
        if live is None or name == self.job.name or _is_needed(name, self.job):
            return False
        return live.runs and live.job.preemptible and not live.for_job

    def _leave(self, branch: Stages, names: Iterable[str]) -> None:
        for name in names:
            for member in reversed(self.stages.members(name)):
                for unit in self.jobs[member].placed:
                    branch.give_back(unit, end=False)

    # --- where nobody is named

    def _candidates(self, known: Victims) -> list[tuple[tuple[int, int, float, str], str, str]]:
        """Who may have to leave, the least important first."""
        mine = self.job
        overdrawn = self._overdrawn() if mine.guaranteed else frozenset()
        found = []
        for name, live in self.jobs.items():
            other = live.job
            if not live.runs or name in known or not self._may_leave(name):
                continue
            if self.stages.members(name)[0] != name:
                continue
            lost = (self.now - live.since) * other.gpus
            if live.is_weak:
                if mine.guaranteed:
                    found.append(((0, other.priority, lost, name), name, "opportunistic"))
            elif name in overdrawn and other.quota != mine.quota:
                found.append(((1, other.priority, lost, name), name, "reclaim"))
            elif other.priority < mine.priority and self._is_on_my_side(name):
                found.append(((2, other.priority, lost, name), name, "priority"))
        return sorted(found)

    def _is_on_my_side(self, name: str) -> bool:
        """So that nobody leaves with another one's job who does not for this one."""
        by_quota = self.stages.quotas is not None
        others = [self.jobs[one].job for one in self.stages.members(name)]
        return all(_is_on_the_side_of(one, self.job, by_quota) for one in others)

    def _overdrawn(self) -> frozenset[str]:
        """Who runs on what his quota has borrowed, as far as this one does not borrow itself."""
        quotas = self.stages.quotas
        if quotas is None:
            return frozenset()
        decision = quotas.schedule(self.unit)
        if decision.outcome == "bind" and decision.borrows:
            return frozenset()
        tree = quotas.part
        return frozenset(
            owner_of(owner) for quota in tree.overused() for owner in tree.overusers(quota)
        )

    def _searched(self, known: Victims) -> Victims:
        candidates = self._candidates(known)
        if not candidates:
            return {}
        branch = self.stages.branch()
        self._leave(branch, known)
        gone: list[str] = []
        step = 1
        trial = self.unit.trial()
        while True:
            if len(gone) == len(candidates):
                return {}
            leaving = [name for _, name, _ in candidates[len(gone) : len(gone) + step]]
            self._leave(branch, leaving)
            gone += leaving
            step *= 2
            if isinstance(branch.start(trial), Started):
                break
        nodes = {pod.node for pod in trial.placed}
        there = [name for name in gone if self._is_on(name, nodes)]
        if not self._starts_without([*known, *there]):
            there = gone
        why = {name: reason for _, name, reason in candidates}
        found = known | {name: why[name] for name in there}
        return self._without_whom_it_may(found, [*known, *there])

    def _without_whom_it_may(self, found: Victims, names: list[str]) -> Victims:
        """The same without those who need not leave, as far as that is not too much to try; what
        one stage has named may be no use to another one.

        :param names: who may stay, the last ones first.
        """
        for name in names[: -_MOST_BRANCHES - 1 : -1]:
            rest = {one: why for one, why in found.items() if one != name}
            if self._starts_without(rest):
                found = rest
        return found

    def _is_on(self, name: str, nodes: set[str]) -> bool:
        return any(pod.node in nodes for unit in self.jobs[name].placed for pod in unit.placed)

    def _starts_without(self, names: Iterable[str]) -> bool:
        branch = self.stages.branch()
        self._leave(branch, names)
        return isinstance(branch.start(self.unit.trial()), Started)
