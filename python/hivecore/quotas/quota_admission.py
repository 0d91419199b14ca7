"""Which owners are admitted, and which owners are evicted for them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hivecore._arguments import as_instance, as_int, as_text, as_tuple
from hivecore._trial import Transaction
from hivecore.errors import StaleDecisionError
from hivecore.quotas._amounts import MOST
from hivecore.quotas._names import FirstFraction
from hivecore.quotas.quota_decision import QuotaDecision
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import CODES, refused

__all__ = ["QuotaAdmission"]

_Asked = QuotaRequest | str | Iterable[QuotaRequest | str]


class QuotaAdmission(QuotaLedger):
    """The part of a `QuotaTree` that decides which owners run, and starts them."""

    def fits(self, request: _Asked) -> bool:
        """Whether ``schedule`` would bind; errors are the same."""
        with self._lock:
            if (number := self._plain(request)) is not None:
                answer = self._core.schedule_one(number, 0, False)
                if answer is None:
                    raise _full(self._known(number))
                return answer[0] == 0
            with self._asked(request, None) as (_, asks):
                return self._core.fits([ask[:2] for ask in asks])

    def schedule(self, request: _Asked, *, members: int | None = None) -> QuotaDecision:
        """Decide whether owners are admitted; nothing changes.

        :param request: the name of a submitted owner, or a request (as if it were submitted), or
            several, which are admitted together or not at all. Each is checked as if the others had
            been admitted before it; what owners of outside quotas request is subtracted from the
            total.
        :param members: for one owner, how many more members; ``None``: ``min_count`` if it waits, 1
            if it runs.
        :raises ValueError: an owner has all its members, is named twice or differs from what was
            submitted, ``members`` is out of range or given for several; and as ``submit`` does.

        The codes of a refusal are "runtime" and "max" (that limit would be exceeded), "min" (owners
        that are not preemptible would exceed the minimum of their quota), "total" (the tree has no
        more) and "evicted" (the owner would borrow again before the next event). Its part is the
        quota with that limit, "" for the total: the owner's quota if it refuses, else the highest
        that does.

        Victims are named for an owner within the runtimes of its path (of its own quota, if
        ancestors are not checked). The quota that exceeds its runtime by most, as a part of the
        total, gives up owners first (ties: the first by its path of names); outside quotas never
        do. Within a quota, owners of lower priority leave first, then those admitted last. A
        victim stays if the owner is within the runtimes without that eviction; the most important
        victims are tried first. If the weakest owners are enough to bring a quota within its
        runtime, no stronger one leaves, even where that one alone would do.
        """
        with self._lock:
            number = self._owners.get(request) if type(request) is str else self._plain(request)
            if members is None and number is not None:
                return self._alone(number)
            with self._asked(request, members) as (named, asks):
                return self._decided(named, asks, self._core.schedule([ask[:2] for ask in asks]))

    def admit(self, name: str) -> QuotaDecision:
        """Decide on a submitted owner as ``schedule(name)``, and carry it out at once if it binds.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8}, limit="max")
        >>> for owner in ("train", "tune"):
        ...     tree.submit(QuotaRequest(owner, "vision", {"gpu": 8}))
        >>> tree.admit("train").outcome, tree.admit("tune").outcome
        ('bind', 'wait')
        >>> tree.members("train"), tree.members("tune")
        (1, 0)
        """
        with self._lock:
            number = self._number(name)
            decision = self._alone(number)
            if decision.outcome == "bind":
                ((request, more, _),) = decision._asks
                if not self._core.admit(number, more):
                    raise _stale(request)
            return decision

    def take_back(self, name: str) -> None:
        """Undo the `admit` that started an owner, if nothing has happened since: all of its members
        wait as before.

        :raises ValueError: it does not run.
        """
        with self._lock:
            number = self._number(name)
            members = self._core.members(number)
            if not members:
                raise ValueError(f"name: {name!r} does not run")
            self._core.take_back(number, members)

    def _alone(self, number: int) -> QuotaDecision:
        """The decision on one owner."""
        alone = self._core.schedule_one(number, 0, True)
        mine = self._known(number)
        if alone is None:
            raise _full(mine)
        outcome, more, before, borrows, code, part, victims = alone
        if outcome == 0:
            return QuotaDecision(mine, ((mine, more, before),), "bind", (), borrows)
        answer = outcome, code, borrows, part, victims
        return self._decided(mine, [(number, more, before)], answer)

    def schedule_many(self, requests: Iterable[QuotaRequest | str]) -> tuple[QuotaDecision, ...]:
        """Decide on requests in order, each as if those before it that bind were committed.

        Nothing changes; errors are those of ``schedule``.
        """
        given = as_tuple(requests, "requests")
        with self._lock:
            try:
                return self._schedule_many(given)
            except FirstFraction:  # of these requests; those before it are decided without it
                decisions: list[QuotaDecision] = []
                with self.trial():
                    for request in given:
                        decisions.append(self.schedule(request))
                        if decisions[-1].outcome == "bind":
                            self.commit(decisions[-1])
                return tuple(decisions)

    def _schedule_many(self, given: tuple[Any, ...]) -> tuple[QuotaDecision, ...]:
        decisions: list[QuotaDecision] = []
        done: list[tuple[int, int, str | None]] = []
        try:
            for request in given:
                new = self._submitted([request])
                done.extend((-1, 0, name) for name in new)
                named, asks = self._asks([request], None)
                answer = self._core.schedule([ask[:2] for ask in asks])
                decisions.append(self._decided(named[0], asks, answer))
                if decisions[-1].outcome == "bind":
                    for number, members, _ in asks:
                        self._core.admit(number, members)
                        done.append((number, members, None))
        finally:
            for number, members, name in reversed(done):
                if name is None:
                    self._core.take_back(number, members)
                else:
                    self._withdraw([name])
        return tuple(decisions)

    def preempt_within(
        self, request: QuotaRequest | str, *, budgets: Iterable[tuple[Iterable[str], int]] = ()
    ) -> QuotaDecision:
        """Decide whether an owner is admitted if owners of lower priority in its own quota leave.

        :param budgets: (names, number) pairs: how many of these owners may leave. More leave only
            if nothing else is enough.
        :raises ValueError: as ``schedule`` does, or a budget is below 0.

        Nothing changes. All candidates are removed, then kept one by one where the request still
        fits: first those beyond a budget, then the most important.
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
        """Carry out a decision that binds; owners that were not submitted are.

        :raises StaleDecisionError: it does not bind any more, or an owner has changed.
        :raises ValueError: its outcome is not "bind".
        """
        if not isinstance(decision, QuotaDecision):
            raise TypeError(f"decision must be a QuotaDecision, not {type(decision).__name__}")
        if decision.outcome != "bind":
            raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
        with self._lock:
            if len(decision._asks) == 1:
                ((request, members, before),) = decision._asks
                number = self._owners.get(request.name)
                if (
                    number is not None
                    and self._requests[number] is request
                    and self._core.commit_one(number, members, before)
                ):
                    return
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
                    with (
                        suppress(ValueError),  # the tree can no longer count fractions
                        self._refined([request for request, _, _ in decision._asks]),
                    ):
                        return self.commit(decision)
                if isinstance(error, StaleDecisionError):
                    raise
                raise _stale(request) from None

    def commit_many(self, decisions: Iterable[QuotaDecision]) -> None:
        """Carry out decisions in order, all of them or none; errors are those of ``commit``."""
        given = as_tuple(decisions, "decisions")
        with self._lock, Transaction(self):
            for decision in given:
                self.commit(decision)

    def grow(self, name: str, members: int = 1) -> QuotaDecision:
        """Start more members of a running owner, if they are admitted.

        :returns: the decision; if it binds, it has been carried out.
        :raises ValueError: the owner does not run, or would have more than ``count`` members.
        """
        with self._lock:
            if not self._core.members(self._number(name)):
                raise ValueError(f"name: {name!r} does not run")
            decision = self.schedule(name, members=members)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def _weaker(self, quota: int, priority: int) -> list[int]:
        """Running preemptible owners of lower priority in a quota, the most important first."""
        weaker: list[int] = []
        for number in reversed(self._core.running(quota)):
            request = self._known(number)
            if request.priority >= priority:
                break
            if request.preemptible:
                weaker.append(number)
        return weaker[::-1]

    def _plain(self, request: _Asked) -> int | None:
        """The number of an owner that is submitted just so; ``None``: the slow path is needed."""
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
        """The requests, submitted meanwhile, and asks: owner, more members, members before."""
        alone = isinstance(request, (str, QuotaRequest))
        given: list[Any] = [request] if alone else list(as_tuple(request, "request"))
        if not alone and members is not None:
            raise ValueError("members: is for one owner")
        if not given:
            raise ValueError("request: is empty")
        try:
            new = self._submitted(given)
        except FirstFraction:
            with self.trial(), self._refined(given), self._asked(request, members) as wanted:
                yield wanted
            return
        try:
            named, asks = self._asks(given, members)
            yield named[0] if alone else tuple(named), asks
        finally:
            if new:
                self._withdraw(new)

    def _submitted(self, given: Iterable[Any]) -> list[str]:
        """Submit those that are new, all or none; returns their names."""
        new: list[str] = []
        try:
            for request in given:
                if not isinstance(request, str):
                    as_instance(request, "request", QuotaRequest)
                    if request.name not in self._owners:
                        self._submit(request)
                        new.append(request.name)
                    elif self.request(request.name) != request:
                        raise ValueError(
                            f"request: {request.name!r} was submitted with other values"
                        )
        except Exception:
            self._withdraw(new)
            raise
        return new

    def _asks(
        self, given: Iterable[QuotaRequest | str], members: int | None
    ) -> tuple[list[QuotaRequest], list[tuple[int, int, int]]]:
        requests: list[QuotaRequest] = []
        asks: list[tuple[int, int, int]] = []
        for request in given:
            name = request if isinstance(request, str) else request.name
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
        kept = tuple((request, ask[1], ask[2]) for request, ask in zip(requests, asks, strict=True))
        if outcome == 0:
            return QuotaDecision(named, kept, "bind", (), borrows)
        if outcome == 1:
            names = tuple(self._known(number).name for number in victims)
            return QuotaDecision(named, kept, "preempt", names)
        refusal = refused(self, self._names, CODES[code], self._part(part), kept)
        return QuotaDecision(named, kept, "wait", (), False, refusal)

    def _part(self, number: int) -> str:
        """The quota with this number, "" for a root."""
        if number < 0:
            return ""
        return next(name for name, known in self._names.numbers.items() if known == number)


def _full(request: QuotaRequest) -> ValueError:
    return ValueError(f"request: {request.name!r} has all its members")


def _stale(request: QuotaRequest) -> StaleDecisionError:
    return StaleDecisionError(f"decision: {request.name!r} would not be admitted so any more")
