"""A table of what refused kinds lack of quotas.

Each event changes the runtimes of many quotas a little, and thousands of kinds may wait for them.
The needs of all kinds are in arrays, so that one comparison finds the kinds that may fit now.
"""

import copy
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from hivecore._thousandths import Amount, counted
from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.quotas import QuotaTree
from hivecore.scheduler.stages.quotas import LIMITS, Limit, QuotaStage
from hivecore.scheduler.stages.units import Kind

__all__ = ["Lacks"]


class _Table:
    """Needs by kind, in rows without gaps."""

    def __init__(self, columns: int, log: UndoLog) -> None:
        self.log = log
        #: number of changes of rows
        self.version = 0
        self.rows: dict[int, int] = {}
        self._numbers: npt.NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._at: npt.NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._needs: npt.NDArray[Any] = np.zeros((16, columns), dtype=np.int64)

    def copy(self, log: UndoLog) -> Self:
        """An independent copy."""
        table = copy.copy(self)
        table.log = log
        table.rows, table._numbers = self.rows.copy(), self._numbers.copy()
        table._at, table._needs = self._at.copy(), self._needs.copy()
        return table

    def add(self, number: int, quota: int, needs: Any) -> None:
        """Add the needs of a kind at a quota."""
        self.log.note(self.drop, number)
        self.version += 1
        row = self.rows[number] = len(self.rows)
        if row == len(self._needs):
            self._numbers = np.concatenate([self._numbers, self._numbers])
            self._at = np.concatenate([self._at, self._at])
            self._needs = np.concatenate([self._needs, self._needs])
        if any(type(need) is Decimal for need in needs) and self._needs.dtype == np.int64:
            self.log.set(self, "_needs", self._needs.astype(np.float64))
        self._numbers[row], self._at[row], self._needs[row] = number, quota, needs

    def drop(self, number: int) -> None:
        """Remove a kind, if it is known."""
        row = self.rows.pop(number, None)
        if row is None:
            return
        if self.log.is_on:
            self.log.add((self.add, number, self._at[row], self._needs[row].copy()))
        self.version += 1
        last = len(self.rows)
        if row < last:
            moved = int(self._numbers[last])
            self.rows[moved], self._numbers[row] = row, moved
            self._at[row], self._needs[row] = self._at[last], self._needs[last]

    def able(
        self, tree: QuotaTree, limit: Limit, dimensions: list[str], number: int | None = None
    ) -> list[int]:
        """The kinds, or only the one with this number, with needs that are met."""
        used = slice(len(self.rows))
        if number is not None:
            used = slice(self.rows[number], self.rows[number] + 1)
        has = tree.have_room(limit, self._at[used], self._needs[used], dimensions)
        kinds: list[int] = self._numbers[used][has].tolist()
        return kinds


class _Urgent(NamedTuple):
    """A kind that may evict jobs."""

    #: None: placement refused it
    limit: Limit | None
    quota: int
    needs: list[Amount]
    #: the runtime that its own quota needs so that other quotas return something; None: they do not
    own: list[Amount] | None
    priority: int
    #: whether it starts together with other jobs
    is_linked: bool
    #: quotas whose opportunistic units it may evict, too
    others: tuple[str, ...]


class Lacks:
    """Needs by kind and limit.

    A guaranteed kind may evict less important units of its own quota, so it does not need what
    these use. If it is refused above its own quota, it may also evict opportunistic units of the
    other quotas there. Both are computed again when other units run. If it is refused above its own
    quota, or by placement, its quota only has to be entitled to more, as other quotas may have
    borrowed what it lacks.
    """

    def __init__(self, stage: QuotaStage) -> None:
        self._stage, self._log = stage, stage.log
        tree = stage.part
        names = tree.quotas
        self._quotas = stage.places
        self._managed = {name: dict(tree.quota(name).max) for name in names}
        self._dimensions = sorted(
            {dimension for limits in self._managed.values() for dimension in limits}
        )
        self._tables = {limit: _Table(len(self._dimensions), self._log) for limit in LIMITS}
        self._entitled = _Table(len(self._dimensions), self._log)
        self._urgent: dict[str, dict[int, _Urgent]] = {}
        self._own_quota: dict[int, str] = {}
        #: by quota, the usage of its opportunistic units when last computed
        self._weak: dict[str, Mapping[str, Amount]] = {}
        #: kinds that evictions would not help, as far as is known
        self._hopeless: set[int] = set()
        #: of these and of kinds that placement refused: those that were entitled to more when last
        #: computed
        self._seen: dict[int, None] = {}
        #: the last result of `able`, and the versions that it depends on
        self._able: tuple[Any, list[int]] = None, []
        #: the usage of each over-used quota above its runtime, at the last check
        self._overused: dict[str, dict[str, int]] = {}

    def branch(self, stage: QuotaStage) -> Self:
        """A copy for a branch."""
        lacks = copy.copy(self)
        lacks._stage, lacks._log = stage, stage.log
        lacks._tables = {limit: table.copy(stage.log) for limit, table in self._tables.items()}
        lacks._entitled = self._entitled.copy(stage.log)
        lacks._urgent = {quota: kinds.copy() for quota, kinds in self._urgent.items()}
        lacks._own_quota, lacks._hopeless = self._own_quota.copy(), self._hopeless.copy()
        lacks._weak, lacks._seen = self._weak.copy(), self._seen.copy()
        return lacks

    def add(self, kind: Kind, refusal: Refusal, *, hindered: bool) -> None:
        """Add a kind that a quota or its tree refuses; ``hindered``: evictions would not help."""
        number, job = kind.number, kind.job
        self.drop(number)
        part, limit = refusal.part or job.quota, cast(Limit, refusal.code)
        needs, at = self._needs(kind.amounts, part), self._quotas[part]
        self._tables[limit].add(number, at, needs)
        if job.guaranteed:
            others = self._stage.others_below(job.quota, refusal)
            own = None
            if others or hindered:
                own = self._needs(self._stage.entitled_to(kind), job.quota)
                self.note_overused()
            self._set_hopeless(number, hindered)
            self._watch(
                kind, _Urgent(limit, at, needs, own, job.priority, bool(job.together), others)
            )

    def add_unplaced(self, kind: Kind) -> None:
        """Add a guaranteed kind that placement refused, if other quotas may have to return room."""
        job = kind.job
        self.drop(kind.number)
        own = self._needs(self._stage.entitled_to(kind), job.quota)
        self._watch(kind, _Urgent(None, 0, [], own, job.priority, bool(job.together), ()))

    def _watch(self, kind: Kind, urgent: _Urgent) -> None:
        number, quota = kind.number, kind.job.quota
        self._log.keep(self._urgent, quota)
        of_quota = self._urgent.setdefault(quota, {})
        self._log.keep(self._own_quota, number)
        self._log.keep(of_quota, number)
        self._log.keep(self._seen, number)
        self._own_quota[number] = quota
        of_quota[number] = urgent
        self._spare(number, quota, urgent)
        self._seen.pop(number, None)
        if urgent.own and self._is_hindered(number) and self._entitled_now(number):
            self._seen[number] = None

    def _is_hindered(self, number: int) -> bool:
        """Whether evictions did not help a kind at the last try."""
        return (
            number in self._hopeless or self._urgent[self._own_quota[number]][number].limit is None
        )

    def _needs(self, amounts: Mapping[str, Amount], quota: str) -> list[Amount]:
        managed = self._managed[quota]
        return [
            amounts.get(dimension, 0) if dimension in managed else 0
            for dimension in self._dimensions
        ]

    def _used_by_weak(self, quota: str) -> Mapping[str, Amount]:
        """The usage of a quota's opportunistic units when last computed."""
        if quota not in self._weak:
            self._log.keep(self._weak, quota)
            self._weak[quota] = self._stage.evictable(quota)
        return self._weak[quota]

    def _set_hopeless(self, number: int, is_hopeless: bool) -> None:
        if is_hopeless == (number in self._hopeless):
            return
        self._log.note(self._set_hopeless, number, not is_hopeless)
        (self._hopeless.add if is_hopeless else self._hopeless.discard)(number)

    def _spare(self, number: int, quota: str, urgent: _Urgent) -> None:
        """Reduce a kind's needs by what evictions may free, unless these do not help."""
        gone = self._stage.evictable(quota, urgent.priority)
        if urgent.own is not None:
            self._entitled.drop(number)
            self._entitled.add(number, self._quotas[quota], self._less(urgent.own, gone))
        if urgent.others:
            gone = Counter[str](gone)
            for other in urgent.others:
                gone.update(self._used_by_weak(other))  # a change is noticed
        if urgent.limit is not None and number not in self._hopeless:
            self._tables[urgent.limit].drop(number)
            self._tables[urgent.limit].add(number, urgent.quota, self._less(urgent.needs, gone))

    def _less(self, needs: list[Amount], gone: Mapping[str, Amount]) -> list[Amount]:
        pairs = zip(self._dimensions, needs, strict=True)
        return [need and need - gone.get(name, 0) for name, need in pairs]

    def drop(self, number: int) -> None:
        """Remove a kind, if it is known."""
        for table in (*self._tables.values(), self._entitled):
            table.drop(number)
        quota = self._own_quota.get(number)
        if quota is not None:
            self._set_hopeless(number, False)
            of_quota = self._urgent[quota]
            self._log.keep(self._own_quota, number)
            self._log.keep(of_quota, number)
            self._log.keep(self._urgent, quota)
            del self._own_quota[number], of_quota[number]
            if not of_quota:
                del self._urgent[quota]

    def plain(self) -> dict[str, Any]:
        """The state that does not follow from the waiting kinds, as plain data."""
        return {
            "vain": sorted(self._hopeless),
            "stirred": sorted(self._stage.stirred),
            "excess": self._overused,
            "seen": sorted(self._own_quota.keys() & self._seen),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state from plain data, after all waiting kinds were added."""
        for number in self._hopeless.difference(state["vain"]):
            quota = self._own_quota[number]
            self._set_hopeless(number, False)
            self._spare(number, quota, self._urgent[quota][number])
        self._stage.stirred = self._quotas.keys() & state["stirred"]
        self._overused = (
            state["excess"] if "excess" in state else self._excess()
        )  # written by an older release
        self._seen = dict.fromkeys(self._own_quota.keys() & state.get("seen", self._seen))

    def _excess(self) -> dict[str, dict[str, int]]:
        """The usage of over-used quotas above their runtimes, in thousandths."""
        return {
            name: {dimension: counted(amount, True) for dimension, amount in excess.items()}
            for name, excess in self._stage.overuse().items()
        }

    def note_overused(self) -> None:
        """Record the over-used quotas, as a kind is refused beside them."""
        now, before = self._excess(), self._overused
        noted = {
            name: {
                dimension: min(amount, before[name].get(dimension, 0))
                for dimension, amount in excess.items()
            }
            for name, excess in now.items()
            if name in before
        }
        self._log.set(self, "_overused", noted)

    def _is_more_overused(self) -> bool:
        """Whether a quota exceeds its runtime by more than at the last check."""
        now, before = self._excess(), self._overused
        self._log.set(self, "_overused", now)
        return any(
            amount > before.get(name, {}).get(dimension, 0)
            for name, excess in now.items()
            for dimension, amount in excess.items()
        )

    def _refresh(self) -> None:
        """Compute again what evictions may free, for quotas whose running units changed."""
        stirred = self._stage.stirred
        others = stirred & self._weak.keys()
        self._log.keep(self._weak, *others)
        for quota in others:
            del self._weak[quota]
        for quota in self._urgent if others else sorted(stirred & self._urgent.keys()):
            for number, urgent in self._urgent[quota].items():
                if quota in stirred or not others.isdisjoint(urgent.others):
                    self._set_hopeless(number, False)
                    self._spare(number, quota, urgent)
        self._stage.settle()

    def able(self) -> list[int]:
        """Kinds for which there is, or may be, enough quota now."""
        self._refresh()
        versions = [table.version for table in self._tables.values()]
        seen = self._stage.part.room_version, versions
        if seen != self._able[0]:
            kinds: list[int] = []
            for limit, table in self._tables.items():
                if table.rows:
                    kinds += table.able(self._stage.part, limit, self._dimensions)
            self._able = seen, kinds
        return self._able[1]

    @property
    def may_reclaim(self) -> bool:
        """Whether quotas may have to return something to a kind."""
        return bool(self._entitled.rows)

    def able_to_reclaim(self) -> list[int]:
        """Kinds that other quotas may return something to. A kind that evictions did not help is
        tried again when a quota exceeds its runtime by more.
        """
        is_new = self._is_more_overused()
        if not self._entitled.rows:
            return []
        self._refresh()
        entitled = self._entitled_now()
        before, seen = self._seen, dict.fromkeys(filter(self._is_hindered, entitled))
        self._log.set(self, "_seen", seen)
        return [
            number
            for number in entitled
            if is_new or number not in seen or number not in before or self._is_linked(number)
        ]

    def _is_linked(self, number: int) -> bool:
        """Whether a kind starts with others; their start may make a quota exceed its runtime."""
        return self._urgent[self._own_quota[number]][number].is_linked

    def _entitled_now(self, number: int | None = None) -> list[int]:
        """The kinds, or only this one, that are entitled to more, if a quota may be over-used."""
        kinds = self._entitled.able(self._stage.part, "runtime", self._dimensions, number)
        return kinds if self._stage.part.overused() else [*filter(self._is_linked, kinds)]
