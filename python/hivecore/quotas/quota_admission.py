"""Which owners are admitted, and at the cost of which others."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hivecore._arguments import as_instance, as_int, as_text, as_tuple
from hivecore._trial import Transaction
from hivecore.errors import StaleDecisionError
from hivecore.quotas._amounts import MOST
from hivecore.quotas._names import FirstFraction
from hivecore.quotas.quota_decision import QuotaDecision, made_decision
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import CODES, refused

__all__ = ["QuotaAdmission"]

_Asked = QuotaRequest | str | Iterable[QuotaRequest | str]


class QuotaAdmission(QuotaLedger):
    """The part of a `QuotaTree` that decides which owners run, and carries it out."""

    def fits(self, request: _Asked) -> bool:
        """Whether ``schedule`` would bind; errors are the same."""
        with self._lock:
            if (number := self._plain(request)) is not None:
                found = self._core.schedule_one(number, 0, False)
                if found is None:
                    raise _full(self._known(number))
                return found[0] == 0
            with self._asked(request, None) as (_, asks):
                return self._core.fits([ask[:2] for ask in asks])

    def schedule(self, request: _Asked, *, members: int | None = None) -> QuotaDecision:
        """Decide whether owners are admitted, all together; nothing changes.

        :param request: an owner that was submitted, by name, or a request, as if it had been; or
            several of them, which are admitted together or not at all. Each is held against its
            limits as if the others had been admitted before it, so what owners of outside quotas
            ask for is taken off the total of the others.
        :param members: of one owner: how many more of its members; ``None``: ``min_count`` if it is
            pending, one if it runs.
        :raises ValueError: an owner has all its members, is named twice, has asked for something
            else, or ``members`` is out of range or for several; and as of ``submit``.

        It is refused with code "runtime" or "max" where that would be exceeded, "min" where owners
        that cannot be preempted would be beyond the minimum of their quota, together with those
        below it, "total" where the tree has no more, "evicted" where an owner would borrow again
        before anything has happened since its eviction. The part is the quota that would be
        exceeded; if it is the total, "". What the quota itself refuses comes first, then from the
        top down.

        Victims are named for owners that are within the runtimes of their path, or of their own
        quota where ancestors are not checked. They are of the quotas that are most over theirs, as
        a part of the total (of equals the first by its path of names), but of no outside quota; of
        one quota those of lower priority, then those admitted last, leave first; a victim that
        turns out not to be needed stays, the most important first. A quota that its weakest owners
        bring within its runtime gives up no stronger one, even where that one would do.
        """
        with self._lock:
            if members is None and (number := self._plain(request)) is not None:
                found = self._core.schedule_one(number, 0, True)
                mine = self._known(number)
                if found is None:
                    raise _full(mine)
                outcome, more, before, borrows, code, part, victims = found
                if outcome == 0:
                    return made_decision(mine, ((mine, more, before),), "bind", (), borrows)
                answer = outcome, code, borrows, part, victims
                return self._decided(mine, [(number, more, before)], answer)
            with self._asked(request, members) as (named, asks):
                return self._decided(named, asks, self._core.schedule([ask[:2] for ask in asks]))

    def schedule_many(self, requests: Iterable[QuotaRequest | str]) -> tuple[QuotaDecision, ...]:
        """What would be decided for one after the other, each as if those before it that bind had
        been committed; nothing changes, and errors are those of ``schedule``.
        """
        given = as_tuple(requests, "requests")
        with self._lock:
            try:
                return self._schedule_many(given)
            except FirstFraction:
                with self.trial(), self._refined(given):
                    return self._schedule_many(given)

    def _schedule_many(self, given: tuple[Any, ...]) -> tuple[QuotaDecision, ...]:
        found: list[QuotaDecision] = []
        done: list[tuple[int, int, str | None]] = []
        try:
            for one in given:
                new = self._submitted([one])
                done.extend((-1, 0, name) for name in new)
                named, asks = self._asks([one], None)
                answer = self._core.schedule([ask[:2] for ask in asks])
                found.append(self._decided(named[0], asks, answer))
                if found[-1].outcome == "bind":
                    for number, members, _ in asks:
                        self._core.admit(number, members)
                        done.append((number, members, None))
        finally:
            for number, members, name in reversed(done):
                if name is None:
                    self._core.take_back(number, members)
                else:
                    self._withdraw([name])
        return tuple(found)

    def preempt_within(
        self, request: QuotaRequest | str, *, budgets: Iterable[tuple[Iterable[str], int]] = ()
    ) -> QuotaDecision:
        """Decide whether an owner is admitted at the cost of owners of lower priority in the same
        quota; nothing changes.

        :param budgets: how many of some owners may go, as (names, number); an owner beyond one
            leaves only if no other will do.
        :raises ValueError: as of ``schedule``, or a budget is below 0.

        As few leave as can be: all are thought away, then come back if it still fits, those beyond
        a budget first, then the most important.
        """
        pairs = [as_tuple(pair, "budgets") for pair in as_tuple(budgets, "budgets")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("budgets must hold pairs of names and a number")
        allowed = [
            (
                frozenset(as_text(name, "budgets") for name in as_tuple(names, "budgets")),
                as_int(left, "budgets", 0, MOST),
            )
            for names, left in pairs
        ]
        if not isinstance(request, str):
            as_instance(request, "request", QuotaRequest)
        with self._lock, self._asked(request, None) as (named, asks):
            mine = named if isinstance(named, QuotaRequest) else named[0]
            weaker = self._weaker(self._names.number(mine.quota), mine.priority)
            beyond = []
            used = [0] * len(allowed)
            for number in weaker:
                name = self._known(number).name
                within = True
                for i, (names, left) in enumerate(allowed):
                    used[i] += name in names
                    within &= name not in names or used[i] <= left
                if not within:
                    beyond.append(number)
            order = beyond + [number for number in weaker if number not in beyond]
            answer = self._core.schedule_without([ask[:2] for ask in asks], order)
            return self._decided(named, asks, answer)

    def commit(self, decision: QuotaDecision) -> None:
        """Carry out a decision to bind; requests that were not submitted are.

        :raises StaleDecisionError: it does not bind any more, or its owners are not what they were.
        :raises ValueError: its outcome is not "bind".
        """
        if not isinstance(decision, QuotaDecision):
            raise TypeError(f"decision must be a QuotaDecision, not {type(decision).__name__}")
        if decision.outcome != "bind":
            raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
        with self._lock:
            new: list[str] = []
            try:
                asks = []
                for request, members, before in decision._asks:
                    number = self._owners.get(request.name)
                    if number is None and before == 0:
                        number = self._submit(request)
                        new.append(request.name)
                    if number is None:
                        raise _stale(request)
                    known = self._requests[number]
                    if known is not request and known != request:
                        raise _stale(request)
                    asks.append((number, members, before))
                if not self._core.commit(asks):
                    raise _stale(request)
            except (KeyError, ValueError, StaleDecisionError) as error:
                self._withdraw(new)
                if isinstance(error, FirstFraction):
                    with self._refined([one for one, _, _ in decision._asks]):
                        return self.commit(decision)
                if isinstance(error, StaleDecisionError):
                    raise
                raise _stale(request) from None

    def commit_many(self, decisions: Iterable[QuotaDecision]) -> None:
        """Carry out decisions one after the other, all of them or none; errors as of ``commit``."""
        given = as_tuple(decisions, "decisions")
        with self._lock, Transaction(self):
            for decision in given:
                self.commit(decision)

    def grow(self, name: str, members: int = 1) -> QuotaDecision:
        """Admit so many more members of an owner that runs, if they are admitted.

        :returns: what was decided; if it binds, it is done.
        :raises ValueError: it does not run, or would have more than ``count``.
        """
        with self._lock:
            if not self._core.members(self._number(name)):
                raise ValueError(f"name: {name!r} does not run")
            decision = self.schedule(name, members=members)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def _weaker(self, quota: int, priority: int) -> list[int]:
        """The owners of a quota that run, may be preempted and are of lower priority, the most
        important first.
        """
        found: list[int] = []
        for number in reversed(self._core.running(quota)):
            request = self._known(number)
            if request.priority >= priority:
                break
            if request.preemptible:
                found.append(number)
        return found[::-1]

    def _plain(self, request: _Asked) -> int | None:
        """The number of one owner that was submitted as meant; ``None``: it is not as simple."""
        if isinstance(request, str):
            return self._number(request)
        if isinstance(request, QuotaRequest):
            number = self._owners.get(request.name)
            if number is not None and self._requests[number] is request:
                return number
        return None

    @contextmanager
    def _asked(
        self, request: _Asked, members: int | None
    ) -> Iterator[tuple[Any, list[tuple[int, int, int]]]]:
        """What is meant, and (owner, members more, members before) of each, submitted meanwhile."""
        alone = isinstance(request, (str, QuotaRequest))
        given: list[Any] = [request] if alone else list(as_tuple(request, "request"))
        if not alone and members is not None:
            raise ValueError("members: is for one owner")
        if not given:
            raise ValueError("request: is empty")
        try:
            new = self._submitted(given)
        except FirstFraction:
            with self.trial(), self._refined(given), self._asked(request, members) as asked:
                yield asked
            return
        try:
            named, asks = self._asks(given, members)
            yield named[0] if alone else tuple(named), asks
        finally:
            if new:
                self._withdraw(new)

    def _submitted(self, given: Iterable[Any]) -> list[str]:
        """The names of those that were not yet and have been now; all of them or none."""
        new: list[str] = []
        try:
            for one in given:
                if not isinstance(one, str):
                    as_instance(one, "request", QuotaRequest)
                    if one.name not in self._owners:
                        self._submit(one)
                        new.append(one.name)
                    elif self.request(one.name) != one:
                        raise ValueError(f"request: {one.name!r} has asked for something else")
        except Exception:
            self._withdraw(new)
            raise
        return new

    def _asks(
        self, given: Iterable[QuotaRequest | str], members: int | None
    ) -> tuple[list[QuotaRequest], list[tuple[int, int, int]]]:
        requests: list[QuotaRequest] = []
        asks: list[tuple[int, int, int]] = []
        for one in given:
            name = one if isinstance(one, str) else one.name
            number = self._number(name)
            request = self._known(number)
            before = self._core.members(number)
            left = request.count - before
            if left == 0:
                raise _full(request)
            if number in [ask[0] for ask in asks]:
                raise ValueError(f"request: {name!r} is named twice")
            if members is None:
                more = 1 if before else request.min_count
            else:
                more = as_int(members, "members", 1 if before else request.min_count, left)
            requests.append(request)
            asks.append((number, more, before))
        return requests, asks

    def _decided(
        self, named: Any, asks: list[tuple[int, int, int]], answer: tuple[Any, ...]
    ) -> QuotaDecision:
        outcome, code, borrows, part, victims = answer
        requests = [self._known(number) for number, _, _ in asks]
        kept = tuple((one, ask[1], ask[2]) for one, ask in zip(requests, asks, strict=True))
        if outcome == 0:
            return made_decision(named, kept, "bind", (), borrows)
        if outcome == 1:
            names = tuple(self._known(number).name for number in victims)
            return made_decision(named, kept, "preempt", names)
        refusal = refused(self, self._names, CODES[code], self._part(part), kept)
        return made_decision(named, kept, "wait", (), False, refusal)

    def _part(self, number: int) -> str:
        """The quota of a number, or "" for a root."""
        if number < 0:
            return ""
        return next(name for name, known in self._names.numbers.items() if known == number)


def _full(request: QuotaRequest) -> ValueError:
    return ValueError(f"request: {request.name!r} has all its members")


def _stale(request: QuotaRequest) -> StaleDecisionError:
    return StaleDecisionError(f"decision: {request.name!r} would not be admitted so any more")
