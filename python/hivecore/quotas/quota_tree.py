"""Elastic quotas: what each may use now, and who is admitted."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_bool, as_choice, as_int, as_mapping, as_text, as_tuple
from hivecore._quotas import QuotaKernel
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._thousandths import THOUSAND, exact
from hivecore._trial import Transaction, Trials
from hivecore.decisions import Explanation
from hivecore.errors import StaleDecisionError
from hivecore.quotas._amounts import MOST, Amount, Amounts, AmountsLike, as_amounts
from hivecore.quotas._fields import Field
from hivecore.quotas._names import FirstFraction, Names
from hivecore.quotas._saved import decode, encode
from hivecore.quotas.explanation import explain
from hivecore.quotas.quota import Quota, quotas_by_name
from hivecore.quotas.quota_decision import QuotaDecision, made_decision
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.quota_status import QuotaStatus
from hivecore.quotas.refusals import CODES, refused
from hivecore.quotas.runtime_trace import RuntimeLevel, runtime_trace

__all__ = ["Limit", "QuotaTree"]

#: What admission goes by beside the total.
Limit = Literal["runtime", "max"]

_Asked = QuotaRequest | str | Iterable[QuotaRequest | str]

_Mark = tuple[QuotaKernel, Names, int]

_MOST_SHOWN = 4  # amounts of the total, in the text of a tree


class QuotaTree(Trials, Stateful):
    """Quotas, one below the other, with the owners in them.

    :param quotas: in any order.
    :param total: what the default tree has, by dimension; it has nothing of a dimension that is not
        named. Without a total no owner is admitted until ``set_total``, and refusals say so.
    :param limit: what a quota may use: its "runtime", or "max": then it may borrow what is unused
        beyond its runtime, until another quota reclaims it.
    :param check_ancestors: whether the quotas above, and the total, limit what is admitted, too. If
        not, no owner has to leave because of them.
    :param scale_min: whether the minimums of a quota's children are scaled down where they add up
        to more than the quota can ever have: its maximum, or what the minimums of its siblings
        leave.
    :param guarantee: whether what runs is never taken back: it raises the minimum, up to the
        maximum, and no quota lends.
    :param parity: minimums are scaled as Koordinator scales them, for comparisons: in floats,
        rounded down each, by the runtime of the parent, those on the path of the quota that is read
        (``runtimes``: of each quota in its order); others keep what they had. So a read changes
        what the next one finds. A dimension of which nothing is said has a total of 0 here, too,
        which Koordinator leaves out when it scales.
    :raises KeyError: a parent is missing.
    :raises ValueError: quotas do not go together, or there is no such limit.
    :raises TypeError: an argument is of a wrong type.

    A quota's *runtime* is what it may use now: at most what it asks for, at least its minimum if it
    asks for that much, and a share by weight of what others leave. Everything that is asked for
    counts, whether it runs or waits, up to the maximum of its quota. What a quota uses beyond a
    maximum that was lowered counts at the quotas above it until it ends, if these limit anything
    (``check_ancestors``, no ``parity``). Runtimes are always current: a change marks the quotas on
    its path, and a read works out what is stale above the quota.

    An owner is submitted (``submit``), then admitted as a whole, with ``min_count`` members
    (``schedule``, ``commit``), may ``grow``, may be evicted (``evict``: it is pending again) and
    ends with ``release``. If it is refused, though it would be within the runtimes of its path,
    ``schedule`` names victims: owners of quotas that use more than their runtime. Reclaiming ends:
    an owner that was evicted for it may come back within the runtimes at any time, but may borrow
    only after something else has happened: an owner came or went, or a limit or total changed.

    Amounts are exact, up to 2**62 each, sums included: integers, or floats, Decimals and Fractions
    that are multiples of 0.001. From the first such fraction on, its dimension is counted in
    thousandths, up to 2**62 of them, and runtimes are shared to the thousandth; answers have
    integers where an amount is whole, else Decimals. There are at most 64 dimensions at a time. One
    object may be used by several threads: calls take turns. Cost: a change is O(depth x
    dimensions); a read works out stale parents above it, O(children) for each dimension. In a
    ``trial``, the first change of quotas, totals or dimensions costs a ``copy``. Source:
    Koordinator's elastic quotas, with their defects mended.

    >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
    >>> tree = QuotaTree(
    ...     [
    ...         Quota("vision", max={"gpu": 100}, min={"gpu": 60}),
    ...         Quota("speech", max={"gpu": 100}, min={"gpu": 40}),
    ...     ],
    ...     total={"gpu": 100},
    ... )
    >>> tree.submit(QuotaRequest("train", "speech", {"gpu": 8}, count=10))
    >>> tree.runtime("speech")                      # vision asks for nothing and lends
    {'gpu': 80}
    >>> tree.commit(tree.schedule("train"))
    >>> tree.submit(QuotaRequest("tune", "vision", {"gpu": 30}))
    >>> tree.runtime("speech"), tree.schedule("tune").victims
    ({'gpu': 70}, ('train',))
    """

    def __init__(
        self,
        quotas: Iterable[Quota] = (),
        *,
        total: AmountsLike | None = None,
        limit: Limit = "runtime",
        check_ancestors: bool = True,
        scale_min: bool = True,
        guarantee: bool = False,
        parity: bool = False,
    ) -> None:
        given = as_tuple(quotas, "quotas")
        self._start(
            as_choice(limit, "limit", get_args(Limit)),
            as_bool(check_ancestors, "check_ancestors"),
            as_bool(scale_min, "scale_min"),
            as_bool(guarantee, "guarantee"),
            as_bool(parity, "parity"),
        )
        if total is not None:
            self.set_total(total)
        for quota in _parents_first(given):
            self.set_quota(quota)

    def _start(self, limit: str, *flags: bool) -> None:
        self._lock = RLock()
        self._settings: tuple[Any, ...] = limit, *flags
        self._core = QuotaKernel(limit == "runtime", *flags)
        self._names = Names(self._core)
        self._owners: dict[str, int] = {}
        self._requests: list[QuotaRequest | None] = []
        self._unmarked()

    def _unmarked(self) -> None:
        self._marks: list[_Mark] = []
        self._changes: list[tuple[int, QuotaRequest | None]] = []
        """While there are marks: each number that changed, and its request before."""

    def __repr__(self) -> str:
        with self._lock:
            total = [f"{amount} {name}" for name, amount in self.total().items()]
            return shown(
                self,
                counted(len(self._names.quotas), "quota"),
                *total[:_MOST_SHOWN],
                "..." if len(total) > _MOST_SHOWN else "",
                counted(len(self._owners), "owner", unless_none=True),
            )

    # --- quotas

    @property
    def limit(self) -> Limit:
        """What admission goes by beside the total: "runtime" or "max"."""
        with self._lock:
            limit: Limit = self._settings[0]
            return limit

    @property
    def check_ancestors(self) -> bool:
        """Whether the quotas above, and the total, limit what is admitted, too."""
        with self._lock:
            return bool(self._settings[1])

    @property
    def quotas(self) -> tuple[str, ...]:
        """Their names, parents before their children."""
        with self._lock:
            return self._names.in_order()

    def quota(self, name: str) -> Quota:
        """A quota as it was declared.

        :raises KeyError: there is none of this name.
        """
        with self._lock:
            self._names.number(name)
            return self._names.quotas[name]

    def set_quota(self, quota: Quota) -> None:
        """Add a quota, or give one other limits or another parent; what is in it stays.

        :raises KeyError: its parent is missing.
        :raises ValueError: it is its own ancestor, it or a quota below it has a dimension that the
            parent has not, it would change its tree, or a sum would be above 2**62.
        :raises TypeError: ``quota`` is none.
        """
        if not isinstance(quota, Quota):
            raise TypeError(f"quota must be a Quota, not {type(quota).__name__}")
        with self._lock, self._refined((), quota.max, quota.min, quota.weight or ()):
            self._shape().set_quota(quota)

    def move(self, name: str, parent: str) -> None:
        """Put a quota with all that is below it under another one of its tree.

        :param parent: "": it comes to the top.
        :raises KeyError: there is no such quota.
        :raises ValueError: as of ``set_quota``.
        :raises TypeError: an argument is of a wrong type.
        """
        parent = as_text(parent, "parent")
        with self._lock:
            self._names.number(name)
            tree = "" if parent else self._names.tree_of(name)
            self._shape().set_quota(self._names.quotas[name].replace(parent=parent, tree=tree))

    def remove(self, name: str) -> None:
        """Remove a quota.

        :raises KeyError: there is none of this name.
        :raises ValueError: it has owners, or quotas below it.
        """
        with self._lock:
            self._shape().remove(name)

    def set_total(self, total: AmountsLike, *, tree: str = "", carved: bool = False) -> None:
        """Say what a tree has; what is not named is 0.

        :param tree: which; a new one if need be.
        :param carved: it is taken off what the default tree has.
        :raises ValueError: an amount is out of range, or the default tree would be carved.
        :raises TypeError: an argument is of a wrong type.
        """
        amounts = as_amounts(total, "total")
        tree, carved = as_text(tree, "tree"), as_bool(carved, "carved")
        if carved and not tree:
            raise ValueError("carved: the default tree is what others are carved out of")
        with self._lock, self._refined((), amounts):
            self._shape().set_total(tree, amounts, carved)

    def set_weights(self, weights: Mapping[str, AmountsLike | None]) -> None:
        """Give quotas other weights, see `Quota`.

        :raises KeyError: there is no such quota; nothing has changed.
        :raises ValueError: as of `Quota`; nothing has changed.
        :raises TypeError: an argument is of a wrong type; nothing has changed.
        """
        given = as_mapping(weights, "weights")
        with self._lock:
            changed = [self.quota(name).replace(weight=one) for name, one in given.items()]
            with self._refined((), *(quota.weight or () for quota in changed)):
                for quota in changed:
                    self._shape().set_quota(quota)

    # --- what quotas may use

    def runtime(self, name: str) -> dict[str, Amount]:
        """What a quota may use now, by dimension.

        :raises KeyError: there is no such quota.
        """
        with self._lock:
            row = self._core.amounts(self._names.number(name), Field.RUNTIME)
            return self._named(name, row)

    def runtimes(self, dimensions: Iterable[str]) -> npt.NDArray[np.int64 | np.float64]:
        """What each quota may use now.

        :param dimensions: which.
        :returns: int64[quotas, dimensions], in the order of ``quotas``; 0 where it has no maximum.
            float64 where one of the dimensions is counted in thousandths.
        :raises KeyError: there is no such dimension.
        """
        with self._lock:
            wanted = as_tuple(dimensions, "dimensions")
            columns = self._columns(wanted)
            found = self._core.all_amounts(self._names.numbers_in_order(), Field.RUNTIME)
            if self._names.fine.isdisjoint(wanted):
                return found[:, columns]
            scale = [THOUSAND if name in self._names.fine else 1 for name in wanted]
            return np.asarray(found[:, columns] / np.array(scale))

    def have_room(
        self,
        limit: Literal["runtime", "max", "total"],
        quotas: npt.ArrayLike,
        amounts: npt.ArrayLike,
        dimensions: Iterable[str],
    ) -> npt.NDArray[np.bool_]:
        """Whether quotas could use so much more by one of the limits, for whoever has many waiting.

        :param limit: "runtime" and "max": a quota's own; "total": what its tree has left.
        :param quotas: int64[n], by their places in ``quotas``; more than once for several demands.
        :param amounts: int64 or float64[n, dimensions]: of each how much more, below 0 how much
            less. What is 0, or has no maximum in a quota, does not count.
        :param dimensions: which.
        :returns: bool[n].
        :raises KeyError: there is no such dimension.
        :raises ValueError: there is no such limit or quota, an amount is out of range, or an array
            is not of that shape.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(n), and that of the runtimes that have moved.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> tree.have_room("max", [0, 0], [[8], [9]], ["gpu"])
        array([ True, False])
        """
        code = CODES.index(as_choice(limit, "limit", ("runtime", "max", "total")))
        asked, wanted = np.asarray(amounts), as_tuple(dimensions, "dimensions")
        if asked.ndim != 2 or asked.shape[1] != len(wanted):
            raise ValueError(
                f"amounts must have {len(wanted)} columns, not the shape {asked.shape}"
            )
        with self._lock:
            columns, known = self._columns(wanted), self._names.numbers_in_order()
            if self._names.fine or asked.dtype.kind == "f":
                asked = self._names.counted_rows(asked, wanted)
            return self._core.have_room(code, known, quotas, columns, asked.reshape(-1))

    @property
    def room_version(self) -> tuple[object, int]:
        """A value that changes whenever an answer of `have_room` may change, and never comes back.

        Cost: that of the runtimes that have moved.
        """
        with self._lock:
            return self._core, self._core.moves()

    def _columns(self, dimensions: Iterable[str]) -> list[int]:
        """The places of dimensions in the rows of the kernel."""
        wanted = [as_text(name, "dimensions") for name in as_tuple(dimensions, "dimensions")]
        known = self._names.dimensions
        missing = [n for n in wanted if n not in known or not self._core.uses(known[n])]
        if missing:
            raise KeyError(f"there is no dimension {missing[0]!r}")
        return [known[name] for name in wanted]

    def status(self, name: str) -> QuotaStatus:
        """What is asked for and used in a quota and below it.

        :raises KeyError: there is no such quota.
        """
        with self._lock:
            number = self._names.number(name)
            fields = {
                "runtime": self._core.amounts(number, Field.RUNTIME),
                "request": self._core.request(number),
                "limited_request": self._core.amounts(number, Field.LIMITED),
                "used": self._core.amounts(number, Field.USED),
                "non_preemptible": self._core.amounts(number, Field.FIRM),
                "min": self._core.amounts(number, Field.SCALED_MIN),
            }
            named = {field: self._named(name, row) for field, row in fields.items()}
            return QuotaStatus(name, **named)

    def total(self, tree: str = "") -> dict[str, Amount]:
        """What there is of a tree for the quotas at its top, by dimension.

        :raises KeyError: there is no such tree.
        """
        tree = as_text(tree, "tree")
        with self._lock:
            if not self._names.is_tree(tree):
                raise KeyError(f"there is no tree {tree!r}")
            row = self._core.net_total(self._names.roots[tree])
            known = self._names.dimensions
            return self._names.amounts(row, (one for one in sorted(known) if row[known[one]]))

    def _named(self, name: str, row: Iterable[int]) -> dict[str, Amount]:
        return self._names.amounts(row, (one for one, _ in self._names.quotas[name].max))

    # --- owners

    @property
    def owners(self) -> tuple[str, ...]:
        """The names of all owners, sorted."""
        with self._lock:
            return tuple(sorted(self._owners))

    def request(self, name: str) -> QuotaRequest:
        """What an owner has asked for.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._request(name)

    def members(self, name: str) -> int:
        """How many members of an owner run; 0: it is pending.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            return self._core.members(self._number(name))

    def may_borrow(self, name: str) -> bool:
        """Whether an owner may exceed runtimes: it was not just evicted, see ``evict``.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            *_, may_borrow = self._core.owner(self._number(name))
            return bool(may_borrow)

    def used_below(self, name: str, priority: int) -> dict[str, Amount]:
        """What owners of a quota itself use that may be preempted and are of lower priority, by
        dimension; what is 0 is left out. O(running owners of it).

        :raises KeyError: there is no such quota.
        """
        least = as_int(priority, "priority", -(2**31), 2**31 - 1)
        found: dict[str, Amount] = {}
        with self._lock:
            for number in self._weaker(self._names.number(name), least):
                members = self._core.members(number)
                for dimension, amount in self._known(number).amounts:
                    found[dimension] = exact(found.get(dimension, 0) + members * amount)
        return found

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

    def submit(self, request: QuotaRequest) -> None:
        """An owner asks for a part of a quota from now on.

        :raises KeyError: there is no such quota.
        :raises ValueError: there is an owner of this name, a sum would be above 2**62, or there
            would be more than 64 dimensions.
        :raises TypeError: ``request`` is none.
        """
        _check_request(request)
        with self._lock:
            try:
                self._submit(request)
            except FirstFraction:
                with self._refined([request]):
                    self._submit(request)

    def submit_many(self, requests: Iterable[QuotaRequest]) -> None:
        """Submit all of these, or none; errors are those of ``submit``."""
        given = as_tuple(requests, "requests")
        for request in given:
            _check_request(request)
        with self._lock:
            done: list[str] = []
            try:
                for request in given:
                    self._submit(request)
                    done.append(request.name)
            except (KeyError, ValueError) as error:
                for name in reversed(done):
                    self._withdraw(name)
                if not isinstance(error, FirstFraction):
                    raise
                with self._refined(given):
                    self.submit_many(given)

    def evict(self, name: str, *, reclaimed: bool = True) -> None:
        """Stop all members of an owner, which is pending then.

        :param reclaimed: others take back what it had, so that it may borrow only after something
            else has happened; if not, such as after a failure, it may at once.
        :raises KeyError: there is no such owner.
        :raises TypeError: ``reclaimed`` is not a bool.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8}, limit="max")
        >>> tree.submit(QuotaRequest("train", "vision", {"gpu": 8}))
        >>> tree.commit(tree.schedule("train"))
        >>> tree.evict("train", reclaimed=False)
        >>> tree.members("train")
        0
        """
        reclaimed = as_bool(reclaimed, "reclaimed")
        with self._lock:
            self._core.evict(self._number(name), reclaimed)

    def release(self, name: str) -> None:
        """The end of an owner, running or not.

        :raises KeyError: there is no such owner.
        """
        with self._lock:
            number = self._number(name)
            self._core.release(number)
            if self._marks:
                self._changes.append((number, self._requests[number]))
            del self._owners[name]
            self._requests[number] = None

    def exchange(self, one: str, other: str) -> None:
        """Each of two owners has what the other one had, such as when one hands on what it runs on.

        :raises KeyError: there is no such owner.
        :raises ValueError: they differ in more than their names.

        Nothing changes for anybody else: what is asked for and used is what it was. Cost: O(1).

        >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> tree.submit_many(QuotaRequest(name, "vision", {"gpu": 8}) for name in ("a", "b"))
        >>> tree.commit(tree.schedule("a"))
        >>> tree.exchange("a", "b")
        >>> tree.members("a"), tree.members("b")
        (0, 1)
        """
        with self._lock:
            mine, others = self._number(one), self._number(other)
            first, second = self._known(mine), self._known(others)
            if first.replace(name=other) != second:
                raise ValueError(f"other={other!r}: asks for something else than {one!r}")
            if self._marks:
                self._changes += ((mine, first), (others, second))
            self._owners[one], self._owners[other] = others, mine
            self._requests[mine], self._requests[others] = second, first

    def recover(self, request: QuotaRequest, members: int) -> None:
        """Charge an owner for what it has already, whatever the limits say; after a restart.

        :param members: how many run, 0 to ``request.count``. Owners that run count as admitted in
            the order in which they are recovered.
        :raises KeyError: there is no such quota.
        :raises ValueError: as of ``submit``, or ``members`` is out of range.
        :raises TypeError: an argument is of a wrong type.
        """
        _check_request(request)
        running = as_int(members, "members", 0, request.count)
        with self._lock:
            try:
                number = self._submit(request)
            except FirstFraction:
                with self._refined([request]):
                    return self.recover(request, members)
            if running and not self._core.admit(number, running):
                self._withdraw(request.name)
                raise _too_much(request)

    # --- decisions

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
        :raises KeyError: there is no such owner or quota.
        :raises ValueError: an owner has all its members, is named twice, has asked for something
            else, or ``members`` is out of range or for several; and as of ``submit``.
        :raises TypeError: an argument is of a wrong type.

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
                    self._withdraw(name)
        return tuple(found)

    def preempt_within(
        self, request: QuotaRequest | str, *, budgets: Iterable[tuple[Iterable[str], int]] = ()
    ) -> QuotaDecision:
        """Decide whether an owner is admitted at the cost of owners of lower priority in the same
        quota; nothing changes.

        :param budgets: how many of some owners may go, as (names, number); who is beyond one leaves
            only if nobody else will do.
        :raises KeyError: there is no such owner or quota.
        :raises ValueError: as of ``schedule``, or a budget is below 0.
        :raises TypeError: an argument is of a wrong type.

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
            _check_request(request)
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
        :raises TypeError: ``decision`` is none.
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
                for name in reversed(new):
                    self._withdraw(name)
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
        :raises KeyError: there is no such owner.
        :raises ValueError: it does not run, or would have more than ``count``.
        :raises TypeError: an argument is of a wrong type.
        """
        with self._lock:
            if not self._core.members(self._number(name)):
                raise ValueError(f"name: {name!r} does not run")
            decision = self.schedule(name, members=members)
            if decision.outcome == "bind":
                self.commit(decision)
            return decision

    def overusers(self, name: str) -> tuple[str, ...]:
        """The owners of a quota who have to go so that it uses no more than its runtime.

        Those of lower priority leave first, then those admitted last; who turns out not to be
        needed stays. The most important first. If the quota is over even without all that can go,
        all of them.

        :raises KeyError: there is no such quota.
        """
        with self._lock:
            found = self._core.revocable(self._names.number(name))
            return tuple(self._known(number).name for number in found)

    def overused(self) -> tuple[str, ...]:
        """The quotas that use more than their runtime in some dimension, in the order of
        ``quotas``.
        """
        with self._lock:
            found = set(self._core.overused())
            if not found:
                return ()
            return tuple(n for n in self._names.in_order() if self._names.numbers[n] in found)

    def explain(self, request: QuotaRequest | str) -> Explanation:
        """Why an owner would have to wait, and what would admit it; nothing changes.

        Refusals are those of all parts of the path, from the top down. Changes are tried on copies:
        who would be reclaimed or preempted ("preempt"), whose end would do ("release", cost: their
        members), and which limits would have to be raised ("limits", see `LimitChange`), with the
        total, or with minimums.

        :raises KeyError: there is no such owner or quota.
        :raises ValueError: as of ``schedule``.
        :raises TypeError: an argument is of a wrong type.
        """
        if not isinstance(request, str):
            _check_request(request)
        with self._lock:
            return explain(self, request)

    def runtime_trace(self, name: str, dimension: str) -> tuple[RuntimeLevel, ...]:
        """How a quota came to its runtime, level by level from the top.

        :raises KeyError: there is no such quota, or it has no maximum of the dimension.
        :raises ValueError: it is outside of what is shared out.
        """
        dimension = as_text(dimension, "dimension")
        with self._lock:
            self._names.number(name)
            quota = self._names.quotas[name]
            if dimension not in dict(quota.max):
                raise KeyError(f"quota {name!r} has no dimension {dimension!r}")
            if quota.outside:
                raise ValueError(f"quota {name!r} may use its max in any case")
            return runtime_trace(self, name, dimension)

    def borrowers(self, name: str) -> dict[str, dict[str, Amount]]:
        """Which quotas beside this one use more than their minimums, and how much more.

        :returns: by name those with the same parent, by dimension; what is not above is left out.
        :raises KeyError: there is no such quota.
        """
        with self._lock:
            self._names.number(name)
            quota = self._names.quotas[name]
            found = {}
            for other in self._names.children(quota.parent, quota.tree):
                status = self.status(other)
                above = {
                    d: exact(n - status.min[d]) for d, n in status.used.items() if n > status.min[d]
                }
                if above and other != name and not self._names.quotas[other].outside:
                    found[other] = above
            return found

    def _plain(self, request: _Asked) -> int | None:
        """The number of one owner who was submitted as meant; ``None``: it is not as simple."""
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
            for name in reversed(new):
                self._withdraw(name)

    def _submitted(self, given: Iterable[Any]) -> list[str]:
        """The names of those that were not yet and have been now; all of them or none."""
        new: list[str] = []
        try:
            for one in given:
                if not isinstance(one, str):
                    _check_request(one)
                    if one.name not in self._owners:
                        self._submit(one)
                        new.append(one.name)
                    elif self._request(one.name) != one:
                        raise ValueError(f"request: {one.name!r} has asked for something else")
        except Exception:
            for name in reversed(new):
                self._withdraw(name)
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
        refusal = refused(self, CODES[code], self._part(part), kept)
        return made_decision(named, kept, "wait", (), False, refusal)

    def _part(self, number: int) -> str:
        """The quota of a number, or "" for a root."""
        if number < 0:
            return ""
        return next(name for name, known in self._names.numbers.items() if known == number)

    # --- owners by number

    def _number(self, name: str) -> int:
        try:
            return self._owners[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no owner {name!r}") from None

    def _known(self, number: int) -> QuotaRequest:
        request = self._requests[number]
        assert request is not None
        return request

    def _request(self, name: str) -> QuotaRequest:
        return self._known(self._number(name))

    def _submit(self, request: QuotaRequest) -> int:
        if request.name in self._owners:
            raise ValueError(f"request: there is an owner {request.name!r}")
        quota, names, marks = self._names.number(request.quota), self._names, self._marks
        if marks and any(name not in names.dimensions for name, _ in request.amounts):
            names = self._shape()
        row = names.row(request.amounts)
        try:
            number = self._core.submit(
                quota,
                row,
                request.count,
                request.min_count,
                request.priority,
                request.preemptible,
            )
        except TypeError:
            raise FirstFraction(request.amounts) from None
        if number is None:
            raise _too_much(request)
        if marks:
            self._changes.append((number, None))
        self._owners[request.name] = number
        if number == len(self._requests):
            self._requests.append(request)
        else:
            self._requests[number] = request
        return number

    def _withdraw(self, name: str) -> None:
        """As if it had not been submitted."""
        number = self._owners[name]
        self._core.withdraw(number)
        if self._marks:
            self._changes.append((number, self._requests[number]))
        del self._owners[name]
        self._requests[number] = None

    # --- all of it

    def check(self) -> None:
        """Audit every invariant.

        :raises InvariantError: one is broken. Cost: O(quotas x depth + owners).
        """
        with self._lock:
            self._core.check()

    def _shape(self) -> Names:
        """The names, for a change of dimensions, trees or quotas; a mark keeps those before it."""
        if self._marks and self._marks[-1][0] is self._core:
            self._core = self._core.copy()
            self._names = self._names.copy(self._core)
        return self._names

    @contextmanager
    def _refined(self, requests: Iterable[Any], *amounts: Amounts) -> Iterator[None]:
        """Count dimensions in thousandths from now on, if there are fractions of them; after an
        exception all is as it was.
        """
        asked = [one.amounts for one in requests if isinstance(one, QuotaRequest)]
        coarse = {name for one in (*asked, *amounts) for name in self._names.coarse(one)}
        if not coarse:
            yield
            return
        with Transaction(self):
            self._shape().refine(coarse)
            yield

    def _mark(self) -> _Mark:
        mark = self._core, self._names, len(self._changes)
        self._core.mark()
        self._marks.append(mark)
        return mark

    def _rewind(self, mark: _Mark) -> None:
        if not self._marks or self._marks[-1] is not mark:
            raise RuntimeError("a trial must end before the one in which it was begun")
        self._core, self._names, start = mark
        self._core.rewind()
        while len(self._changes) > start:
            number, request = self._changes.pop()
            if request is None:
                del self._owners[self._known(number).name]
            else:
                self._owners[request.name] = number
            self._requests[number] = request
        self._marks.pop()

    def _keep(self, mark: _Mark) -> None:
        if not self._marks or self._marks[-1] is not mark:
            raise RuntimeError("a trial must end before the one in which it was begun")
        core, _, _ = self._marks.pop()
        core.keep()
        if not self._marks:
            self._changes.clear()

    def copy(self) -> Self:
        """An independent what-if branch."""
        with self._lock:
            made = object.__new__(type(self))
            made._lock = RLock()
            made._settings = self._settings
            made._core = self._core.copy()
            made._names = self._names.copy(made._core)
            made._owners = self._owners.copy()
            made._requests = self._requests.copy()
            made._unmarked()
            return made

    def to_bytes(self) -> bytes:
        """The state as versioned, checksummed bytes, for ``from_bytes``."""
        with self._lock:
            return seal(b"HCQT", 1, encode(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCQT", 1, data)
        with corrupt_if_it_fails():
            saved = decode(payload)
            tree = object.__new__(cls)
            tree._start(*saved.settings)
            tree._names.refine(saved.fine)
            for name, total, carved in saved.totals:
                tree.set_total(total, tree=name, carved=carved)
            for quota in saved.quotas:
                tree.set_quota(quota)
            for request, members, _ in saved.owners:
                tree.recover(request, members)
            for name, scaled in saved.scaled_mins:
                tree._core.set_scaled_min(tree._names.number(name), tree._names.row(scaled))
            for request, _, may_borrow in saved.owners:
                if not may_borrow:
                    tree._core.forbid_borrowing(tree._number(request.name))
        return tree

    def __sizeof__(self) -> int:
        with self._lock:
            return object.__sizeof__(self) + self._core.__sizeof__()


def _check_request(request: object) -> None:
    if not isinstance(request, QuotaRequest):
        raise TypeError(f"request must be a QuotaRequest, not {type(request).__name__}")


def _too_much(request: QuotaRequest) -> ValueError:
    return ValueError(f"request: {request.name!r}: a sum would be above {MOST}")


def _full(request: QuotaRequest) -> ValueError:
    return ValueError(f"request: {request.name!r} has all its members")


def _stale(request: QuotaRequest) -> StaleDecisionError:
    return StaleDecisionError(f"decision: {request.name!r} would not be admitted so any more")


def _parents_first(quotas: Iterable[Any]) -> list[Quota]:
    """The quotas so that each follows its parent, if that is among them."""
    named = quotas_by_name(quotas)
    found: dict[str, Quota] = {}
    for name in sorted(named):
        path: dict[str, None] = {}
        while name in named and name not in found and name not in path:
            path[name] = None
            name = named[name].parent
        if name in path:
            raise ValueError(f"quotas: {name!r} is its own ancestor")
        found.update((one, named[one]) for one in reversed(path))
    return list(found.values())
