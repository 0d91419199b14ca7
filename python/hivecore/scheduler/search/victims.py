"""Chooses the jobs to evict for a unit that was refused. Sets are tried on the stages and undone.

The search tries in turn: (1) the victims that quotas and cells propose, until the unit starts or no
more are proposed; (2) sets that leave enough room by counting
(`hivecore.scheduler.search.proposals`); (3) all candidates, the least important first. Unnecessary
victims are dropped, and a few trials look for a cheaper set.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations, islice
from math import inf
from typing import TYPE_CHECKING

from hivecore.decisions import Refusal
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.precedence import OUTSIDE, of_quota
from hivecore.scheduler.moves.fragments import idle_and_usable
from hivecore.scheduler.moves.moving import start_in_place
from hivecore.scheduler.search.fewest import Fewest
from hivecore.scheduler.search.limits import Limits, Victims
from hivecore.scheduler.search.proposals import Candidate, Proposals
from hivecore.scheduler.search.room import Room
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import BEGUN, FREED, Key, Kind, Refused, Unit, owner_of

if TYPE_CHECKING:
    from hivecore.scheduler.ledger.live import Live
    from hivecore.scheduler.ledger.state import State

__all__ = [
    "NAME_NO_VICTIMS",
    "Victims",
    "find_victims",
    "needed_by",
    "needs_other_nodes",
    "where_placed",
]

#: Stages that refuse for lack of room and propose no victims.
NAME_NO_VICTIMS = ("topology", "devices", "claims")
_QUOTAS = "quotas"
_PRIORITIES = 10_000  # exceeds every difference of priorities
#: The reasons to evict a job, the preferred reason first.
_REASONS = ("opportunistic", "reclaim", "priority")
_PLACING = ("cells", *NAME_NO_VICTIMS)
_MANY = 64  # with more candidates, the first ones are tried before room is counted
_FIRST = 15
_MOST_PROPOSALS = 64  # trials of proposed sets
_MOST_SETS = 256  # trials of sets with fewer fragments,
_MOST_LOOKS = 20_000  # out of so many that are compared


def find_victims(state: "State", unit: Unit, refused: Refused) -> tuple[Victims, tuple[Key, ...]]:
    """The victims that let the unit start, in order and with reasons; empty if there are none.

    Jobs that share GPUs leave together.

    :returns: also the keys of events that have to happen before another search can succeed.
    """
    stages, search = state.stages, _Search(state, unit)
    stopping = search.stopping()
    later = (*_changes_of(sorted(map(search._owner, stopping))), BEGUN, FREED)
    if not stopping:
        victims = search.chosen(refused)
    else:
        with stages.trial():
            # Quotas count both the stopping jobs and the jobs that replace them: too much.
            stages.uncharge(stopping)
            if refused.refusal.stage == _QUOTAS:
                with stages.trial():
                    tried = start_in_place(stages, search.jobs, unit.trial())
                if isinstance(tried, Started) or tried.refusal.stage != _QUOTAS:
                    return {}, later
                refused = tried
            victims = search.chosen(refused)
        if victims and not search.fewest.starts_without(stages, [*victims]):
            return {}, later
    whole = search.limits.whole(victims) if search.limits.keep(victims) else {}
    if not whole:
        state.wake_at = min(state.wake_at, search.limits.wake_at)
    keys: tuple[Key, ...] = (OUTSIDE,) if search.above or search.above_quota else ()
    if state.reserved or state.replacing:  # reserved pods may be evicted once they run
        keys += (BEGUN,)
    return whole, (*search.hindered_by, *keys)


def where_placed(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The keys of stages that place pods."""
    return tuple(key for key in keys if key[0] in _PLACING)


def needs_other_nodes(stages: Stages, job: Job, refusal: Refusal) -> bool:
    """Whether victims may be on nodes that the refusing cells did not consider."""
    return refusal.code == "mapping" or not stages.is_whole or bool(job.where.nodes)


def _changes_of(names: Iterable[str]) -> list[Key]:
    """The keys of the start and the end of these jobs."""
    return [(event, name) for name in names for event in ("started", "stopped")]


def _priorities_count(job: Job, other: Job, by_quota: bool) -> bool:
    """Whether priorities may decide: the jobs share a quota, or without quotas a tenant."""
    return job.quota == other.quota if by_quota else job.tenant == other.tenant


def needed_by(state: "State", job: Job) -> set[str]:
    """The job, and all jobs that have to run so that it can start."""
    names, jobs = {job.name, *job.after}, state.jobs
    for linked in (known := [job]):
        for name in linked.together:
            if name not in names and name in jobs and not jobs[name].extra_of:
                names.add(name)
                other = jobs[name]
                if not other.runs or name in state.begun:
                    known.append(other.job)
                if not other.runs:
                    names.update(other.job.after)
    return {name for name in names if name not in jobs or not jobs[name].extra_of}


def _leave(jobs: "Mapping[str, Live]", stages: Stages, names: Iterable[str]) -> None:
    for name in names:
        for member in reversed(stages.members(name)):
            for unit in jobs[member].placed:
                stages.give_back(unit, end=False)


class _Search:
    def __init__(self, state: "State", unit: Unit) -> None:
        self.stages, self.jobs, self.running = state.stages, state.jobs, state.running
        self.unit, self.now, self.goal = unit, state.now, state.fragments
        self._leave = partial(_leave, self.jobs)  # a bound method would make a reference cycle
        self.fewest = Fewest(unit, self._leave, self.jobs)
        self.job = self.jobs[unit.owner].job
        self.above = state.precedence.above(self.job.name)
        #: quotas that lost a job to the quota of this job, as `of_quota` names them
        self.above_quota = state.precedence.above(of_quota(self.job.quota))
        #: the job, and the jobs that it or a reserved job of no lower priority cannot start without
        self.needed = needed_by(state, self.job)
        for other in state.reserved.values():
            is_above = self.job.guaranteed and self.job.priority > other.job.priority
            if (other.job.together or other.job.after) and not is_above:
                self.needed |= needed_by(state, other.job)
        #: keys of events that would make the victims proposed by stages sufficient
        self.hindered_by: tuple[Key, ...] = ()
        #: whether nodes lack room even without all candidates
        self.has_no_room = False
        self._costs: dict[str, tuple[int, int, int, float]] = {}
        self.limits = Limits(state)

    def chosen(self, refused: Refused) -> Victims:
        """The victims that let the unit start, in order; empty if there are none."""
        victims = self.victims(refused, self.of_quotas(self.stages, refused))
        return _leaving_few_fragments(self, self.newest(victims))

    def newest(self, victims: Victims) -> Victims:
        """Replace extra pods among the victims by the newest of their role, if these are enough."""
        numbers = Counter(map(self._role_of, filter(self._role_of, victims)))
        newest = {name: why for name, why in victims.items() if not self._role_of(name)}
        for role, number in numbers.items():
            pods = [name for name in self._candidates if self._role_of(name) == role]
            pods.sort(key=lambda name: (self.jobs[name].since, self.jobs[name].number))
            newest |= {name: self._candidates[name] for name in pods[-number:]}
        if newest.keys() <= victims.keys() or not self.fewest.starts_without(
            self.stages, [*newest]
        ):
            return victims
        return newest

    def _role_of(self, name: str) -> str:
        """Job and role of an extra pod; "" for other jobs."""
        return name.rpartition("/")[0] if self.jobs[name].extra_of else ""

    def _owner(self, unit: str) -> str:
        """The job of a unit, or the extra pod that the unit is."""
        return owner_of(unit, self.jobs)

    def stopping(self) -> list[str]:
        """The units that are being stopped already, by their names in quotas."""
        if not self.stages.reclaims:
            return []
        return [
            unit.request
            for live in self.running.values()
            if live.for_job and self.stages.members(live.job.name)[0] == live.job.name
            for unit in live.placed
        ]

    def of_quotas(self, stages: Stages, refused: Refused) -> Victims:
        """The victims that quotas propose, with reasons."""
        reclaimed = dict.fromkeys(map(self._owner, refused.quota_victims), "reclaim")
        if reclaimed or refused.refusal.stage != _QUOTAS:
            return reclaimed
        owners = dict.fromkeys(map(self._owner, stages.less_important(self.unit)))
        weak = {name for name in owners if name in self.jobs and self.jobs[name].is_weak}
        return {name: "opportunistic" if name in weak else "priority" for name in owners}

    def victims(self, refused: Refused, named: Victims) -> Victims:
        """The victims before improvement by fragments and age; quotas propose ``named`` ones."""
        victims: Victims = {}
        stay = self._add_named(victims, refused, named)
        # The last stage is sure of its victims, so they are enough.
        is_enough = refused.is_sure and self.stages.names[-1] == refused.refusal.stage
        if victims and not stay and is_enough:
            tried: Refused | bool = not self._may_be_too_many(victims, named)
        else:
            tried = self._tried(refused, victims, stay, named) if victims or stay else refused
        if not isinstance(tried, Refused):
            victims = victims if tried else self._least(victims)
            if self.limits.keep(victims):
                return self._improved(victims)
            if refused.cell_victims:
                self.hindered_by += (BEGUN,)  # cells may propose fewer victims then
            return self._searched({}, self._candidates)
        if tried.cell_victims and any(
            name in self.needed or self.jobs[name].for_job for name in stay
        ):
            self.hindered_by += (BEGUN,)  # cells may propose other victims then
        searched: Victims = {}
        may_help = not (stay and tried.cell_victims) and self._may_help(tried)
        if may_help or any(map(self.limits.may_protect, stay)):
            named = victims if self.limits.keep(victims) else {}
            searched = self._searched(named, self._candidates)
        if self.has_no_room:
            self.hindered_by += where_placed(self.stages.released(self.unit.kind))
        else:
            self.hindered_by += where_placed(tried.keys)
        return searched

    def _may_help(self, refused: Refused) -> bool:
        """Whether evicting jobs that no stage proposed might help. A quick check."""
        stage = refused.refusal.stage
        if stage == "cells":
            needs_nodes = needs_other_nodes(self.stages, self.job, refused.refusal)
            if not needs_nodes and not (self.job.guaranteed and self._borrowed):
                return False
            reasons = self._candidates.values()
            return "reclaim" in reasons or (needs_nodes and "priority" in reasons)
        if stage == _QUOTAS:  # other jobs may leave in place of protected victims
            return (
                bool(refused.quota_victims)
                or self.stages.has_less_important(self.unit)
                or self.stages.may_be_admitted(self.unit, refused.refusal)
            )
        return stage in NAME_NO_VICTIMS

    def _tried(
        self, refused: Refused, victims: Victims, stay: list[str], named: Victims
    ) -> Refused | bool:
        """Evict the jobs that stages propose, in a trial, until the unit starts.

        :param victims: the proposed jobs; more are added.
        :param stay: replaced by the proposed jobs that must not be evicted.
        :returns: whether all victims are needed; or the last refusal.
        """
        gone: list[str] = []
        others = self._instead_of_those_of_cells()
        are_least = True
        with self.stages.trial():
            while victims or stay:
                if stay:
                    more = next(others, None) if refused.cell_victims else None
                    if more is None:
                        return refused
                    victims |= dict.fromkeys(more, "priority")
                    are_least = False
                leaving = [name for name in victims if name not in gone]
                if not leaving and stay:
                    continue
                if not leaving:
                    return refused
                self._leave(self.stages, leaving)
                are_least &= not gone and not self._may_be_too_many(victims, named)
                gone += leaving
                tried = start_in_place(self.stages, self.jobs, self.unit.trial())
                if isinstance(tried, Started):
                    return are_least
                refused = tried
                stay[:] = self._add_named(victims, refused, self.of_quotas(self.stages, refused))
        return refused

    def _may_be_too_many(self, victims: Victims, named: Victims) -> bool:
        """Whether some victims may be unnecessary: quotas propose singly, and whole jobs leave."""
        return len(named) > 1 or any(len(list(self.jobs[name].placed)) > 1 for name in victims)

    def _add_named(self, victims: Victims, refused: Refused, of_quotas: Victims) -> list[str]:
        """Add the proposed jobs that may be evicted; return the others."""
        for name, why in of_quotas.items():
            victims.setdefault(name, why)
        kept = set[str]()  # jobs of other quotas that do not borrow; cells know no quotas
        for name in refused.cell_victims:
            owner, why = self._owner(name), "opportunistic"
            if not (self.jobs[owner].is_weak or self.stages.is_downgraded(name)):
                why = "priority"
                if owner not in victims and not self._priorities_count_with(owner):
                    why = "reclaim"
                    if owner not in self._borrowed:
                        kept.add(owner)
            victims.setdefault(owner, why)
        stay = [name for name in victims if name in kept or not self._may_leave(name)]
        for name in stay:
            del victims[name]
        self.hindered_by = tuple(_changes_of(stay))
        return stay

    def _instead_of_those_of_cells(self) -> Iterator[list[str]]:
        """Substitutes where cells propose protected jobs: jobs of the same tenant with lower
        priority, the least important first, in batches that double.
        """
        weaker = [
            name
            for name, live in self.running.items()
            if live.runs
            and not live.is_weak
            and live.job.tenant == self.job.tenant
            and live.job.priority < self.job.priority
            and self.stages.members(name)[0] == name
            and self._may_leave(name)
            and self._priorities_count_with(name)
        ]
        candidates = self._by_importance(dict.fromkeys(weaker, "priority"))
        count = 1
        while candidates:
            yield candidates[:count]
            candidates, count = candidates[count:], 2 * count

    def _may_leave(self, name: str) -> bool:
        """Whether a job may be evicted with all jobs that share its GPUs."""
        return all(map(self._may_go, self.stages.members(name)))

    def _may_go(self, name: str) -> bool:
        live = self.jobs.get(name)
        if live is None or name in self.needed or name in self.above:
            return False
        may_evict = live.runs and live.job.preemptible and not live.for_job and self._may_lose(live)
        return may_evict and not self.limits.is_protected(live)

    def _may_lose(self, live: "Live") -> bool:
        """Whether the waiting job's quota may take a job from this one's quota."""
        above = self.above_quota
        return not above or live.is_weak or of_quota(live.job.quota) not in above

    # --- where no stage proposes victims

    @cached_property
    def _candidates(self) -> Victims:
        """The jobs that may be evicted and the reason for each, the least important first."""
        stages = self.stages
        borrowed = self._borrowed if self.job.guaranteed else {}
        shares, now, needed, above = stages.by_stages, self.now, self.needed, self.above
        by_kind: dict[tuple[int, str], tuple[str, int, int, int]] = {}
        ranks: list[tuple[int, float, str, str]] = []
        for name, live in self.running.items():
            alike = live.units[0].kind.number, live.state
            why, importance, reclaimed, gpus = by_kind.get(alike) or by_kind.setdefault(
                alike, self._standing(live)
            )
            if reclaimed and name in borrowed:
                why = "reclaim"
                importance = reclaimed + (0 if borrowed[name] else _PRIORITIES)
            if not why or live.for_job or name in needed or name in above:
                continue
            if (not shares and not self.limits.is_protected(live)) or (
                shares and self._may_leave_first(name, why)
            ):
                ranks.append((importance, (now - live.since) * gpus, name, why))
        ranks.sort()
        if not shares:
            weak = "opportunistic"
            self._costs = {
                name: (int(why != weak), self._counts(name), importance + _PRIORITIES, lost)
                for importance, lost, name, why in ranks
            }
        return {name: why for _, _, name, why in ranks}

    def _standing(self, live: "Live") -> tuple[str, int, int, int]:
        """For jobs of a kind: the reason to evict them without reclaim, their importance for that
        reason, their importance for reclaim (0 if it is not possible), and their GPUs.
        """
        job, other, why = self.job, live.job, ""
        if not (other.preemptible and self._may_lose(live)):
            return "", 0, 0, other.gpus
        if live.is_weak:
            why = "opportunistic" if job.guaranteed else ""
        elif other.priority < job.priority:
            is_near = _priorities_count(other, job, self.stages.reclaims)
            why = "priority" if is_near or self.stages.by_stages else ""
        importance = self._importance(other.name, why) if why else 0
        is_other = why != "opportunistic" and other.quota != job.quota
        reclaimed = _PRIORITIES * 2 * _REASONS.index("reclaim") + other.priority
        return why, importance, reclaimed if is_other else 0, other.gpus

    def _may_leave_first(self, name: str, why: str) -> bool:
        """Whether a job holds GPUs and may be evicted with all jobs that share them."""
        if not self.stages.holds(name) or not self._may_leave(name):
            return False
        return why != "priority" or self._priorities_count_with(name)

    def _by_importance(self, victims: Victims) -> list[str]:
        """The names, the least important first; then those that lose the fewest GPU-seconds."""
        ranks = [
            (self._importance(name, why), self._lost(name), name) for name, why in victims.items()
        ]
        return [name for _, _, name in sorted(ranks)]

    def _importance(self, name: str, why: str) -> int:
        """The rank of a victim by reason and priority; higher is more important."""
        is_last = why == "reclaim" and not self._borrowed.get(name, True)
        reason = 2 * _REASONS.index(why) + is_last
        return _PRIORITIES * reason + self.jobs[name].job.priority

    def _lost(self, name: str) -> float:
        """The GPU-seconds that a job loses if it is evicted."""
        live = self.jobs[name]
        return (self.now - live.since) * live.job.gpus

    def _priorities_count_with(self, name: str) -> bool:
        """Whether priorities may decide between this job and all that share GPUs with another."""
        by_quota = self.stages.reclaims
        if not self.stages.by_stages:
            return _priorities_count(self.jobs[name].job, self.job, by_quota)
        others = [self.jobs[member].job for member in self.stages.members(name)]
        return all(_priorities_count(other, self.job, by_quota) for other in others)

    @cached_property
    def _borrowed(self) -> dict[str, bool]:
        """Jobs of over-used quotas, and whether the quota itself would evict each first; empty if
        the waiting job would borrow, too.
        """
        if not self.stages.reclaims or self._borrows():
            return {}
        jobs = ((name, live.job.quota) for name, live in self.running.items())
        return self.stages.overusers(jobs, self.jobs)

    def _borrows(self) -> bool:
        """Whether this job would borrow even if less important jobs of its quota were evicted."""
        stages, job = self.stages, self.job
        if not stages.borrows(self.unit) or not stages.has_less_important(self.unit):
            return stages.borrows(self.unit)
        with stages.trial():
            for name, live in self.running.items():
                if live.job.quota != job.quota:
                    continue
                is_less = live.is_weak or live.job.priority < job.priority
                if is_less and self._may_leave(name):
                    stages.uncharge(self._requests(name))
            return stages.borrows(self.unit)

    def _requests(self, name: str) -> list[str]:
        """The names of a job's units in quotas."""
        return [unit.request for unit in self.jobs[name].placed]

    def _is_allowed(self, names: Collection[str]) -> bool:
        return self.limits.keep(names) and self._is_fair(names)

    def _is_fair(self, names: Iterable[str]) -> bool:
        """Whether no quota loses more than it borrowed, its last job counted in part."""
        stages, candidates = self.stages, self._candidates
        reclaimed = [name for name in names if candidates.get(name) == "reclaim"]
        if not reclaimed:
            return True
        with stages.trial():
            for name in sorted(reclaimed, key=lambda name: self.jobs[name].job.gpus):
                if not stages.overuses(name, self.jobs[name].job.quota, self.jobs):
                    return False
                stages.uncharge(self._requests(name))
            for name in set(names).difference(reclaimed):
                stages.uncharge(self._requests(name))
            return self.unit.has_quota or not stages.borrows(self.unit)

    def _searched(self, named: Victims, candidates: Victims) -> Victims:
        """Choose victims among candidates and ``named`` ones; empty if no tried set is enough."""
        names = [name for name in candidates if name not in named]
        victims: Victims = {}
        if len(names) > _MANY:
            victims = self._by_turns(named, names[:_FIRST])
            rank = self._rank(victims)
            if victims and not rank[0] and _is_best(self, rank):
                return victims
            victims = {}
        if len(candidates) > _MANY:  # a set without guaranteed jobs is best
            victims = self._first_of(self._proposals(named, self._weak()).sets())
            if victims and not self._rank(victims)[0]:
                return victims
        proposals = self._proposals(named, candidates)
        if not proposals.may_do_with_all():
            self.has_no_room = True
            return {}
        victims = self._first_of(proposals.sets()) or victims
        if victims or 2 ** len(candidates) <= _MOST_PROPOSALS:  # all sets were tried
            return victims
        victims = self._by_turns(named, names)  # counting ignores some constraints
        if victims or not self.limits.allowed:
            return victims
        return self._by_turns({}, self.limits.largest(candidates))

    def _by_turns(self, named: Victims, names: Sequence[str]) -> Victims:
        """A minimal subset of the shortest sufficient prefix of these jobs."""
        with self.stages.trial():
            self._leave(self.stages, named)
            gone = self.fewest.first(self.stages, names)
            if not gone:
                return {}
            fewer = self.fewest.on_its_nodes(self.stages, gone)
        candidates = self._candidates
        victims = self._least(named | {name: candidates[name] for name in fewer})
        return victims if self._is_allowed(victims) else {}

    def _improved(self, victims: Victims) -> Victims:
        """A cheaper set of victims, if a few trials find one."""
        rank = self._rank(victims)
        if _is_best(self, rank):
            return victims
        has_many = len(self._candidates) > _MANY
        tries: list[Collection[str]] = [self._weak()] if has_many else []
        if rank[0] or not has_many:
            tries.append(self._candidates)
        for some in tries:
            proposals = self._proposals(victims, some)
            # to an opportunistic job, others cost as much as guaranteed ones
            if self.job.guaranteed and not proposals.may_cost_less(rank):
                continue
            better = self._first_of(names for names in proposals.sets() if self._rank(names) < rank)
            if better:
                return better
        return victims

    def _weak(self) -> list[str]:
        return [name for name, why in self._candidates.items() if why == "opportunistic"]

    def _first_of(self, proposals: Iterable[Sequence[str]]) -> Victims:
        """The first of these sets that lets the unit start and may be evicted."""
        candidates = self._candidates
        for names in islice(filter(self.limits.keep, proposals), _MOST_PROPOSALS):
            if self._is_fair(names) and self.fewest.starts_without(self.stages, names):
                return self._least({name: candidates[name] for name in names})
        return {}

    def _proposals(self, named: Victims, names: Collection[str]) -> Proposals:
        """Sets of these candidates that are enough by counting."""
        stages, loads = self.stages, self._loads(names)
        evictions = (
            {name: self.limits.evictions(name) for name in names} if self.limits.allowed else {}
        )
        costs = {
            name: Candidate(self._cost(name), *loads.get(name, (0.0, "")), evictions.get(name, {}))
            for name in names
        }
        room = Room(stages, self.jobs, dict.fromkeys([*named, *names]))
        closed, within = frozenset(stages.unhealthy()), stages.domains_for(self.job)
        return Proposals(room, [self.unit], costs, closed, within, allowed=self.limits.allowed)

    def _loads(self, names: Iterable[str]) -> dict[str, tuple[float, str]]:
        """By job to reclaim: its quota, and its fraction of what the quota borrowed."""
        loads: dict[str, tuple[float, str]] = {}
        candidates = self._candidates
        reclaimed = [name for name in names if candidates[name] == "reclaim"]
        over = self.stages.overuse() if reclaimed else {}
        known: dict[tuple[Kind, ...], tuple[float, str]] = {}
        for name in reclaimed:
            live = self.jobs[name]
            borrowed = over.get(live.job.quota)
            if borrowed:
                kinds = tuple([unit.kind for unit in live.placed])
                load = known.get(kinds)
                if load is None:
                    amounts = sum((Counter(kind.amounts) for kind in kinds), Counter[str]())
                    part = min(
                        float(amounts[dimension] / most) for dimension, most in borrowed.items()
                    )
                    load = known[kinds] = part, live.job.quota
                loads[name] = load
        return loads

    def _rank(self, names: Iterable[str]) -> tuple[int, int]:
        """The number of guaranteed jobs, and of all jobs, that leave with these."""
        jobs = [self.jobs[member] for name in names for member in self.stages.members(name)]
        return sum(not live.is_weak for live in jobs), sum(not live.extra_of for live in jobs)

    def _counts(self, name: str) -> int:
        """How many jobs a candidate counts as: 0 for an extra pod, else 1."""
        return int(not self.jobs[name].extra_of)

    def _cost(self, name: str) -> tuple[int, int, int, float]:
        """What a candidate and its sharers cost: guaranteed jobs, jobs, importance, GPU-seconds."""
        cost = self._costs.get(name)
        if cost is None:
            members = self.stages.members(name)
            guaranteed = sum(not self.jobs[member].is_weak for member in members)
            importance = self._importance(name, self._candidates.get(name, "priority"))
            lost = sum(map(self._lost, members))
            count = sum(map(self._counts, members))
            cost = self._costs[name] = guaranteed, count, importance + _PRIORITIES, lost
        return cost

    def _least(self, victims: Victims) -> Victims:
        """The victims without the unnecessary ones. The most important are dropped first."""
        order = self._by_importance(victims)
        fewer = _only(victims, self.fewest.needed(self.stages, order))
        # The job would borrow quota that others must return, while less important jobs of its own
        # quota stay.
        own = {name for name, why in victims.items() if why != "reclaim"}
        more = _only(victims, fewer.keys() | own)
        if len(more) == len(fewer) or self._is_fair(fewer) or not self._is_fair(more):
            return fewer
        for name in reversed(order):
            rest = _only(more, more.keys() - {name})
            if self._is_fair(rest) and self.fewest.starts_without(self.stages, [*rest]):
                more = rest
        return more


def _is_best(search: _Search, rank: tuple[int, int]) -> bool:
    """Whether no set of victims has a better rank. A quick check."""
    guaranteed, jobs = rank
    running = search.running.items()
    if guaranteed and any(live.is_weak and name in search._candidates for name, live in running):
        return False
    if jobs and any(live.extra_of and name in search._candidates for name, live in running):
        return False
    return guaranteed <= 1 and jobs <= 1


def _only(victims: Victims, names: Iterable[str]) -> Victims:
    kept = set(names)
    return {name: why for name, why in victims.items() if name in kept}


def _leaving_few_fragments(search: _Search, victims: Victims) -> Victims:
    """Among sets of as many and as important jobs, the one that leaves the fewest fragments."""
    if not victims or search.goal is None or any(search.jobs[name].extra_of for name in victims):
        return victims
    rank, best, tries = _ranks(search, victims), _fragments(search, victims), _MOST_SETS
    for names in islice(combinations(search._candidates, len(victims)), _MOST_LOOKS):
        if not tries or not best:
            break
        if _ranks(search, names) != rank or not search._is_allowed(names):
            continue
        tries -= 1
        left = _fragments(search, names)
        if left < best:
            best, victims = left, {name: search._candidates[name] for name in names}
    return victims


def _ranks(search: _Search, names: Iterable[str]) -> tuple[int, ...]:
    """The sums of the candidates' guaranteed jobs, jobs and importance."""
    return tuple(map(sum, zip(*(search._cost(name)[:3] for name in names), strict=True)))


def _fragments(search: _Search, names: Collection[str]) -> float:
    """The fragments left once the unit has replaced these jobs; inf if it does not start."""
    assert search.goal is not None
    unit, stages = search.unit.trial(), search.stages
    gone = {member for name in names for member in stages.members(name)}
    with stages.trial():
        _leave(search.jobs, stages, list(names))
        if isinstance(start_in_place(stages, search.jobs, unit), Refused):
            return inf
        idle, usable = idle_and_usable(search.goal, stages, search.jobs, gone, unit.placed)
        return idle - usable
