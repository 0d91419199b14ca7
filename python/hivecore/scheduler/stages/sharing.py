"""Sharing: a waiting job may join a running job on its GPUs, if they use different resources at
different times.

A *group* is the running jobs on the same GPUs. Its first job *holds* the GPUs in all parts under
its own name; the others hold nothing. Each running job that could share is in a group, perhaps
alone. The jobs of a group are alike in everything that parts read, so that the next job can hold
the GPUs when the first leaves.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from hivecore._arguments import as_bool, as_name
from hivecore._stateful import counted
from hivecore.interleaving import interleave
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role, Where
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages._groups import ROUNDING, Group, Table
from hivecore.scheduler.stages._regrouping import Regrouping, regroup
from hivecore.scheduler.stages.stage import Audited, Offer, Stage
from hivecore.scheduler.stages.units import Key, Kind, Refused, Unit

__all__ = ["Joined", "Left", "SharingStage"]


class Joined(NamedTuple):
    """The group that a job has joined."""

    placed: tuple[PlacedPod, ...]
    others: tuple[str, ...]
    #: for the job and each other job, by how many slots it is shifted
    offsets: tuple[int, ...]


class Left(NamedTuple):
    """The group that a job has left."""

    #: whether the job held the GPUs, and whether cells or a network placed them
    held: bool
    is_placed: bool
    #: the job that holds the GPUs now; "": the group is empty
    heir: str


class _Alike(NamedTuple):
    """What the jobs of a group have in common."""

    roles: tuple[Role, ...]
    where: Where
    tenant: str
    quota: str
    priority: int
    preemptible: bool
    guaranteed: bool


class SharingStage(Stage):
    """The terms of `Sharing`, and the groups of running jobs."""

    name = "sharing"
    honours = frozenset(("stages",))

    def __init__(self, terms: Sharing, has_quotas: bool, has_cells: bool) -> None:
        self.terms = terms
        self._has_quotas, self._has_cells = has_quotas, has_cells
        self._of: dict[str, Group] = {}
        #: by number
        self._groups: dict[int, Group] = {}
        self._begun = 0
        #: the groups that jobs may join, by common properties and size
        self._open: dict[Any, list[Table]] = {}
        #: the groups that changed since the last call of `able`
        self._fresh: dict[int, None] = {}
        self._unhealthy: frozenset[str] = frozenset()
        #: by demand, why kinds find no idle GPUs in this round
        self._refused: dict[Any, Refused] = {}

    def branch(self) -> Self:
        """A copy for a branch."""
        branch = type(self)(self.terms, self._has_quotas, self._has_cells)
        branch._unhealthy, branch._begun = self._unhealthy, self._begun
        for number in sorted(self._groups):
            branch._add(self._groups[number].copy())
        branch._fresh = self._fresh.copy()
        return branch

    def _add(self, group: Group) -> None:
        self._groups[group.number] = group
        self._of.update(dict.fromkeys(group.jobs, group))
        self._open_again(group)

    def _log(self, group: Group, *names: str) -> None:
        """Let the undo log restore a group, and which groups these jobs are in."""
        if self.log.is_on:
            self.log.keep(self._fresh, group.number)  # must be undone last
            self.log.add((self._restore, group, *group.state()))
            self.log.keep(self._of, *names)
            self.log.keep(self._groups, group.number)

    def _restore(self, group: Group, *state: Any) -> None:
        self._close(group)
        group.restore(*state)
        if group.number in self._groups:
            self._open_again(group)

    # --- sharing

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why jobs of this kind can never share as they request; "" if they can."""
        stages = len(kind.job.stages)
        if stages and stages != self.terms.resources:
            return f"has stages of {stages} resources, and sharing knows {self.terms.resources}"
        return ""

    def _alike(self, job: Job) -> "_Alike | None":
        """What jobs must have in common to share with this one; None: it cannot share."""
        if len(job.stages) != self.terms.resources or not job.gpus:
            return None
        if any(role.extra_numbers or role.joining_numbers for role in job.roles):
            return None
        tenant = "" if self.terms.any_tenant and not self._has_cells else job.tenant
        quota = job.quota if self._has_quotas else ""
        importance = job.priority, job.preemptible, job.guaranteed
        return _Alike(job.roles, job.where, tenant, quota, *importance)

    def may_share(self, kind: Kind) -> bool:
        """Whether a kind may share; not on idle cells, which it may have to leave at any time."""
        return not kind.is_lent and self._alike(kind.job) is not None

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The key of kinds that may share a unit's GPUs, or get them."""
        return ((self.name, str(kind.gpus)),) if self.may_share(kind) else ()

    begun = released

    def known_refusal(self, kind: Kind) -> Refused | None:
        """Why a kind finds no idle GPUs, if an equal demand was refused in this round."""
        if kind.is_alone or kind.is_lent:
            return None
        return self._refused.get(self._demand(kind.job))

    def note_refusal(self, kind: Kind, refused: Refused) -> None:
        """Record that a kind finds no idle GPUs, until a unit starts or stops."""
        if not kind.is_alone and self.may_share(kind):
            demand = self._demand(kind.job)
            self.log.keep(self._refused, demand)
            self._refused[demand] = refused

    def forget_refusals(self) -> None:
        """Forget refusals, as GPUs may be idle now."""
        if self._refused:
            self.log.set(self, "_refused", {})

    def _demand(self, job: Job) -> Any:
        return self._alike(job), job.tenant, job.quota, job.data and job.data.dataset

    def used_nodes(self) -> set[str]:
        """The nodes of jobs that may share."""
        return {pod.node for group in self._groups.values() for pod in group.placed if pod.node}

    def avoid(self, nodes: frozenset[str]) -> None:
        """Let no job join a group on these nodes."""
        if nodes != self._unhealthy:
            self.log.set(self, "_unhealthy", nodes)
            self.log.set(self, "_fresh", dict.fromkeys(self._groups))

    # --- joining

    def best(self, job: Job) -> Group | None:
        """The group with the largest gain; among equals the oldest."""
        most_so_far, best = self.terms.min_gain - ROUNDING, None
        for table in self._open.get(self._alike(job), ()):
            if not table.groups:
                continue
            gains = table.gains(job.stages, self.terms.max_slowdown)
            if self._unhealthy:
                gains[[group.is_on(self._unhealthy) for group in table.groups]] = -1.0
            most = float(gains.max())
            if most < most_so_far:
                continue
            equal = [table.groups[at] for at in np.flatnonzero(gains >= most - ROUNDING)]
            first = min(equal, key=lambda group: group.number)
            if best is None or most > most_so_far + ROUNDING or first.number < best.number:
                best = first
            most_so_far = max(most_so_far, most)
        return best

    def able(self, kinds: Iterable[Kind]) -> Iterator[int]:
        """The numbers of the kinds that can join a group that has changed."""
        fresh = self._fresh
        self.log.set(self, "_fresh", {})
        asking: dict[Any, list[Kind]] = {}
        for kind in kinds if fresh else ():
            asking.setdefault(self._alike(kind.job), []).append(kind)
        for number in fresh:
            group = self._groups.get(number)
            if group is None or group.place < 0 or group.is_on(self._unhealthy):
                continue
            likes = asking.get(group.alike)
            if likes:
                table = self._open[group.alike][len(group.jobs) - 1]
                stages = [kind.job.stages for kind in likes]
                gains = table.gains_of(group, stages, self.terms.max_slowdown)
                for at in np.flatnonzero(gains >= self.terms.min_gain - ROUNDING):
                    yield likes[at].number

    def join(self, unit: Unit) -> Joined | None:
        """Let a job join the best group; None if there is none."""
        job = unit.kind.job
        group = self.best(job)
        if group is None:
            return None
        others = tuple(group.jobs)
        order = interleave([job.stages, *group.jobs.values()])
        self._enter(unit.name, job, group)
        return Joined(group.placed, others, order.offsets)

    def unlike(self, jobs: Sequence[Job]) -> str:
        """Why these jobs cannot share GPUs; "" if they can."""
        if len(jobs) > self.terms.max_group:
            return f"are {len(jobs)}, and at most {self.terms.max_group} share GPUs"
        first, *others = map(self._alike, jobs)
        if first is None or any(other != first for other in others):
            return "are not alike, or have no stages"
        return ""

    def is_open(self, name: str) -> bool:
        """Whether other jobs may join a running job."""
        group = self._of[name]
        return not group.is_leaving and not group.is_on(self._unhealthy)

    def share(self, unit: Unit, holder: Unit) -> tuple[PlacedPod, ...]:
        """Let a job share the GPUs of another, whatever the gain; return its pods."""
        group = self._of[holder.name]
        self._enter(unit.name, unit.kind.job, group)
        return group.placed

    # --- starts and ends

    def begin(self, unit: Unit) -> None:
        """Open a group for a unit that has started on its own GPUs."""
        self.forget_refusals()
        alike = self._alike(unit.kind.job)
        if alike is not None and not unit.kind.is_lent:
            self.log.set(self, "_begun", self._begun + 1)
            group = Group(self._begun, alike, unit.placed, unit.is_placed)
            self._log(group)
            self._groups[group.number] = group
            self._enter(unit.name, unit.kind.job, group)

    def _enter(self, name: str, job: Job, group: Group) -> None:
        self._log(group, name)
        self._close(group)
        group.jobs[name] = job.stages
        self._of[name] = group
        self._open_again(group)

    def _close(self, group: Group) -> None:
        """Let no job join a group for now."""
        if group.place >= 0:
            self._open[group.alike][len(group.jobs) - 1].remove(group)

    def _open_again(self, group: Group) -> None:
        self._fresh[group.number] = None
        is_full = len(group.jobs) >= self.terms.max_group
        if group.is_leaving or is_full or not group.jobs:
            return
        tables = self._open.get(group.alike)
        if tables is None:
            sizes = range(1, self.terms.max_group)
            tables = [Table(size, self.terms.resources) for size in sizes]
            self._open[group.alike] = tables
        tables[len(group.jobs) - 1].add(group)

    def leave(self, name: str) -> Left | None:
        """Remove a unit from its group; None if it is in no group."""
        self.forget_refusals()
        if name not in self._of:
            return None
        group = self._of[name]
        self._log(group, name)
        del self._of[name]
        held = next(iter(group.jobs)) == name
        self._close(group)
        del group.jobs[name]
        if group.jobs:
            self._open_again(group)
            return Left(held, group.is_placed, next(iter(group.jobs)))
        del self._groups[group.number]
        self._fresh.pop(group.number, None)
        return Left(held, group.is_placed, "")

    def stop(self, name: str) -> None:
        """Let no job join the group of a job that has to stop."""
        if name in self._of:
            group = self._of[name]
            self._log(group)
            self._close(group)
            group.is_leaving = True

    def _set_placed(self, units: Iterable[Unit]) -> None:
        """Update whether cells still place the groups of units."""
        for unit in units:
            if unit.name in self._of:
                group = self._of[unit.name]
                self._log(group)
                group.is_placed = unit.is_placed

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Record which victims still have cells."""
        self._set_placed(leaving)

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Record which victims have cells again."""
        self._set_placed(leaving)

    def members(self, name: str) -> tuple[str, ...]:
        """The jobs of a job's group, the holder first."""
        group = self._of.get(name)
        return (name,) if group is None else tuple(group.jobs)

    # --- regrouping

    def regrouped(self, seconds: float, begun: Collection[str]) -> list[Regrouping]:
        """The groups to change; jobs that are not preemptible do not move.

        :param seconds: the expected lifetime of the groups.
        :param begun: jobs that start in this round; their groups stay until the next call.
        """
        alike: dict[_Alike, list[Group]] = {}
        for _, group in sorted(self._groups.items()):
            stays = group.is_leaving or group.is_on(self._unhealthy)
            stays = stays or not group.jobs.keys().isdisjoint(begun)
            if group.alike.preemptible and not stays:
                alike.setdefault(group.alike, []).append(group)
        terms = self.terms
        return [
            change
            for common, groups in alike.items()
            if len(groups) > 1
            for change in regroup(
                groups,
                sum(role.pods * role.gpus for role in common.roles),
                max_group=terms.max_group,
                max_slowdown=terms.max_slowdown,
                restart_share=terms.restart_cost / seconds,
            )
        ]

    def regroup(self, changes: Iterable[Regrouping]) -> None:
        """Change the jobs of groups."""
        self.forget_refusals()
        stages = {
            name: durations for change in changes for name, durations in change.group.jobs.items()
        }
        for group, names in changes:
            self._log(group, *names)
            self._close(group)
            group.jobs = {name: stages[name] for name in names}
            self._of.update(dict.fromkeys(names, group))
            if names:
                self._open_again(group)
            else:
                del self._groups[group.number]
                self._fresh.pop(group.number, None)

    # --- the whole state

    def plain(self) -> dict[str, Any]:
        """The state as plain data."""
        terms = self.terms
        return {
            "terms": {name: getattr(terms, name) for name in Sharing.__struct_fields__},
            "groups": [
                [list(group.jobs), group.is_leaving] for _, group in sorted(self._groups.items())
            ],
            "fresh": [next(iter(self._groups[number].jobs)) for number in sorted(self._fresh)],
        }

    @staticmethod
    def terms_of_plain(data: Mapping[str, Any]) -> Sharing:
        """Read the terms from plain data."""
        return Sharing(**data["terms"])

    def restore(self, data: Mapping[str, Any], units: Mapping[str, Unit]) -> None:
        """Restore the groups from plain data, given the running units by name."""
        for names, is_leaving in data["groups"]:
            members = [units[as_name(name, "groups")] for name in names]
            first = members[0]
            self._begun += 1
            alike = self._alike(first.kind.job)
            group = Group(self._begun, alike, first.placed, first.is_placed)
            group.is_leaving = as_bool(is_leaving, "groups")
            group.jobs = {unit.name: unit.kind.job.stages for unit in members}
            if not 1 <= len(names) <= self.terms.max_group:
                raise ValueError("groups: too many share GPUs")
            self._add(group)

    def restore_fresh(self, data: Mapping[str, Any]) -> None:
        """Restore which groups changed since `able`, after everything else."""
        names = [as_name(name, "fresh") for name in data["fresh"]]
        self._fresh = {self._of[name].number: None for name in names}

    def faults(self, audited: Audited) -> Iterator[str]:
        """Inconsistencies of the groups."""
        units = {unit.name: unit for unit in audited.running if not unit.kind.is_lent}
        if {name for name, unit in units.items() if self._alike(unit.kind.job)} != set(self._of):
            yield "groups are not of those that run and may share"
            return
        if sum(len(group.jobs) for group in self._groups.values()) != len(self._of):
            yield "a job is in two groups"
        for group in self._groups.values():
            yield from self._faults_of(group, [units[name] for name in group.jobs])

    def _faults_of(self, group: Group, units: list[Unit]) -> Iterator[str]:
        is_open = not group.is_leaving and len(units) < self.terms.max_group
        if not 1 <= len(units) <= self.terms.max_group or is_open != (group.place >= 0):
            jobs = counted(len(units), "job")
            yield f"group {group.number} has {jobs}, and is in row {group.place}"
        for unit in units:
            job = unit.kind.job
            if self._alike(job) != group.alike or job.stages != group.jobs[unit.name]:
                yield f"{unit.name!r} is of another kind than its group"
            if unit.placed != group.placed:
                yield f"{unit.name!r} is elsewhere than its group"
            if unit.is_placed != (group.is_placed and unit is units[0]):
                yield f"{unit.name!r}: the holder of what it runs on"
