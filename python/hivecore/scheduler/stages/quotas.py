"""Quotas: whether a unit is admitted, and who has to give back what he has borrowed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from hivecore.decisions import Refusal
from hivecore.quotas import QuotaDecision, QuotaTree
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.units import Key, Kind, Unit
from hivecore.scheduler.stages._lacks import HEADROOM, LIMITS, OVERUSED
from hivecore.scheduler.stages.stage import Stage

__all__ = ["QuotaStage"]

#: What a unit waits for that is refused for another reason than a limit.
_ANY = ("quotas", "any")


class QuotaStage(Stage):
    """A `QuotaTree`: units ask from submit to end, are admitted on start, evicted on preemption."""

    name = "quotas"
    honours = frozenset(("quota", "resources"))
    part: QuotaTree

    def __init__(self, tree: QuotaTree) -> None:
        self.part = tree
        #: those among whose own units others run now than when that was looked at last
        self.stirred: set[str] = set()
        self._paths: dict[str, tuple[str, ...]] = {}

    def branch(self) -> Self:
        """An adapter of a copy."""
        made = type(self)(self.part.copy())
        made.stirred = self.stirred.copy()
        return made

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A context whose changes to the quotas are undone at its end."""
        stirred, self.stirred = self.stirred, self.stirred.copy()
        try:
            with super().trial():
                yield
        finally:
            self.stirred = stirred

    def impossible(self, kind: Kind, growing: bool) -> str:
        """Why units of this kind could never be admitted; "": they could.

        :param growing: whether there may be more to share out.
        """
        job = kind.job
        if job.quota not in self.part.quotas:
            return f"there is no quota {job.quota!r}"
        for name in self._path(job.quota):
            quota = self.part.quota(name)
            for what, limits in (("max", quota.max), ("min", () if job.preemptible else quota.min)):
                if what == "min" and (job.preemptible or name != job.quota):
                    continue
                most = dict(limits)
                for dimension, amount in kind.amounts.items():
                    if dimension in dict(quota.max) and amount > most.get(dimension, 0):
                        return (
                            f"asks for {amount} of {dimension!r}, and {what} of {name!r} is "
                            f"{most.get(dimension, 0)}"
                        )
        return "" if growing else self._beyond_total(kind)

    def _beyond_total(self, kind: Kind) -> str:
        """Why a tree never has as much as units of a kind ask for; "": it has."""
        tree, quota = self.part, self.part.quota(kind.job.quota)
        top = tree.quota(self._path(quota.name)[-1])
        if top.outside or not (tree.check_ancestors or tree.limit == "runtime"):
            return ""
        total, limited = tree.total(top.tree), dict(quota.max)
        for dimension, amount in kind.amounts.items():
            in_all = total.get(dimension, 0)
            if dimension in limited and amount > in_all:
                in_all += self._used_outside(top.tree, dimension)
                if amount > in_all:
                    known = (
                        f"there are {in_all} in all" if in_all else "the total has none: set_total"
                    )
                    return f"asks for {amount} of {dimension!r}, and {known}"
        return ""

    def _used_outside(self, of_tree: str, dimension: str) -> int:
        """What outside quotas use of a tree's total: it comes back when their owners end.

        Cost: O(quotas).
        """
        tops = [quota for quota in map(self.part.quota, self.part.quotas) if quota.outside]
        used = [self.part.status(top.name).used for top in tops if top.tree == of_tree]
        return sum(amounts.get(dimension, 0) for amounts in used)

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the quota of a job, or one above it, limits a resource."""
        if job.quota not in self.part.quotas:
            return True  # such a job is rejected
        return any(resource in dict(self.part.quota(name).max) for name in self._path(job.quota))

    def is_outside(self, quota: str) -> bool:
        """Whether what a quota uses is taken off the total of the others."""
        return self.part.quota(quota).outside

    def submit(self, unit: Unit) -> None:
        """From now on it asks for its part."""
        self.part.submit(unit.kind.quota_request.replace(name=unit.name))

    def admit(self, unit: Unit, decision: QuotaDecision) -> None:
        """It uses its part from now on."""
        self.part.commit(decision)
        self.stirred.add(unit.kind.job.quota)

    def evict(self, unit: Unit, *, reclaimed: bool = False) -> None:
        """It uses its part no more, and asks for it still.

        :param reclaimed: others take it back, so that it does not borrow again at once.
        """
        self.part.evict(unit.request, reclaimed=reclaimed)
        self.stirred.add(unit.kind.job.quota)

    def release(self, unit: Unit) -> None:
        """It asks for nothing any more."""
        self.part.release(unit.request)
        self.stirred.add(unit.kind.job.quota)

    def hold(self, unit: Unit) -> None:
        """Charge a unit for what it gets when others have left, who are charged still."""
        self.stirred.add(unit.kind.job.quota)
        request = self.part.request(unit.request)
        self.part.release(request.name)
        self.part.recover(request, request.count)

    def schedule(self, unit: Unit) -> QuotaDecision:
        """What would be decided."""
        return self.part.schedule(unit.request)

    def schedule_many(self, units: Iterable[Unit]) -> tuple[QuotaDecision, ...]:
        """What would be decided for one after the other."""
        return self.part.schedule_many([unit.request for unit in units])

    def less_important(self, unit: Unit) -> tuple[str, ...]:
        """Those of lower priority in the same quota without whom a unit is admitted; none: there
        are too few, or another quota refuses it.
        """
        return self.part.preempt_within(unit.request).victims

    def has_less_important(self, unit: Unit) -> bool:
        """Whether any of lower priority run in the same quota."""
        asked = unit.kind.quota_request
        return bool(self.part.used_below(asked.quota, asked.priority))

    def waits_for(self, refusal: Refusal) -> tuple[Key, ...]:
        """What has to happen before a refused unit is worth another try."""
        return (HEADROOM if refusal.code in LIMITS else _ANY,)

    def touched(self) -> Iterator[Key]:
        """What happens when a unit asks for something, or gives something back: runtimes move."""
        yield HEADROOM
        yield _ANY
        yield OVERUSED

    def _path(self, name: str) -> tuple[str, ...]:
        """A quota and those above it."""
        found = self._paths.get(name)
        if found is None:
            path = [name]
            while parent := self.part.quota(path[-1]).parent:
                path.append(parent)
            found = self._paths[name] = tuple(path)
        return found

    def forget_paths(self) -> None:
        """Quotas have other parents now."""
        self._paths.clear()
