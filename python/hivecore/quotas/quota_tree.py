"""Elastic quotas: what each may use now, and which owners are admitted."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_bool, as_choice, as_instance, as_int, as_text, as_tuple, by_name
from hivecore._thousandths import THOUSAND, exact
from hivecore.decisions import Explanation
from hivecore.quotas._amounts import Amount, AmountsLike
from hivecore.quotas._fields import Field
from hivecore.quotas.explanation import LimitChange, LimitTrial, explain, limit_changes
from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_admission import QuotaAdmission
from hivecore.quotas.quota_ledger import Limit
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import CODES
from hivecore.quotas.runtime_trace import RuntimeLevel, runtime_trace

__all__ = ["Limit", "QuotaTree"]


class QuotaTree(QuotaAdmission):
    """A tree of elastic quotas, and the owners that run or wait in them.

    :param quotas: in any order.
    :param total: what the default tree has, by dimension. A dimension that is not named has 0. No
        owner is admitted before there is a total.
    :param limit: how much a quota may use. "runtime": its runtime. "max": up to its maximum, if
        that is unused, until another quota reclaims it, also from quotas that do not lend.
    :param check_ancestors: whether the quotas above, and the total, limit what is admitted.
    :param scale_min: whether minimums of siblings are scaled down if their sum is more than their
        parent can ever have: its maximum, or what the minimums of its own siblings leave.
    :param guarantee: whether the usage of a quota raises its minimum, up to its maximum, so that no
        running owner is reclaimed. No quota lends then.
    :param parity: for comparisons: scale minimums as Koordinator does, in floats that are rounded
        down, and only on the path of the quota that is read. So a read changes the next result. A
        dimension without a total counts as 0 here too; Koordinator does not scale it.
    :raises KeyError: a parent is missing, or a method is given an unknown name.
    :raises ValueError: quotas contradict each other, or ``limit`` is unknown.
    :raises TypeError: an argument is of a wrong type, here and in all methods.

    The *runtime* of a quota is how much it may use now: its minimum, as far as it requests it, and
    by weight a share of what other quotas leave, up to its request. Requests count whether owners
    run or wait, up to the maximum of their quota. If a maximum was lowered below the usage, the
    excess counts at the quotas above until it ends (not with ``parity``, nor without
    ``check_ancestors``).

    The life of an owner: ``submit``; ``schedule`` and ``commit``, which admit ``min_count`` members
    together; ``grow``; perhaps ``evict``, after which it waits again; ``release``. If an owner is
    refused though it is within the runtimes of its path, ``schedule`` names victims in quotas that
    use more than their runtime. Reclaiming cannot loop: an owner that was evicted for it may come
    back within the runtimes at any time, but may borrow only after the next event (an owner came or
    left, a limit or a total changed).

    Amounts are exact: integers or multiples of 0.001 (float, Decimal, Fraction), and no sum is
    above 2**62. After the first fraction a dimension is counted in thousandths, up to 2**62 of
    them. Results are integers where an amount is whole, else Decimals. There are at most 64
    dimensions. One object may be used by several threads: calls take turns.

    Cost: a change is O(depth x dimensions). A read brings stale ancestors up to date, in
    O(children) for each dimension; below a parent of 128 children or more, only the child that is
    read, in about O(sqrt(children) + different weights), while limits and totals stay and no
    minimum is scaled. The first change of quotas, totals or dimensions in a ``trial`` costs a
    ``copy``. Source: Koordinator's elastic quotas, with their defects fixed.

    >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
    >>> tree = QuotaTree(
    ...     [
    ...         Quota("vision", max={"gpu": 100}, min={"gpu": 60}),
    ...         Quota("speech", max={"gpu": 100}, min={"gpu": 40}),
    ...     ],
    ...     total={"gpu": 100},
    ... )
    >>> tree.submit(QuotaRequest("train", "speech", {"gpu": 8}, count=10))
    >>> tree.runtime("speech")                      # vision requests nothing and lends
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

    def runtimes(self, dimensions: Iterable[str]) -> npt.NDArray[np.int64 | np.float64]:
        """What each quota may use now.

        :param dimensions: the columns of the result.
        :returns: int64[quotas, dimensions], in the order of ``quotas``; 0 where a quota has no
            maximum of the dimension. float64 if a dimension is counted in thousandths.
        :raises KeyError: a dimension is unknown.
        """
        with self._lock:
            wanted = as_tuple(dimensions, "dimensions")
            columns = self._columns(wanted)
            amounts = self._core.all_amounts(self._names.numbers_in_order(), Field.RUNTIME)
            if self._names.fine.isdisjoint(wanted):
                return amounts[:, columns]
            scale = [THOUSAND if name in self._names.fine else 1 for name in wanted]
            return np.asarray(amounts[:, columns] / np.array(scale))

    def have_room(
        self,
        limit: Literal["runtime", "max", "total"],
        quotas: npt.ArrayLike,
        amounts: npt.ArrayLike,
        dimensions: Iterable[str],
    ) -> npt.NDArray[np.bool_]:
        """Whether quotas could use more without exceeding a limit; for callers with many waiting
        jobs.

        :param limit: "runtime" and "max": the quota's own; "total": that of its tree.
        :param quotas: int64[n], positions in ``quotas``; a quota may occur several times.
        :param amounts: int64 or float64[n, dimensions], how much more (below 0: less). Zeros, and
            dimensions without a maximum in the quota, are ignored.
        :param dimensions: the columns of ``amounts``.
        :returns: bool[n].
        :raises KeyError: a dimension is unknown.
        :raises ValueError: ``limit`` is unknown, a position or an amount is out of range, or an
            array has a wrong shape.

        Cost: O(n), and that of stale runtimes.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> tree.have_room("max", [0, 0], [[8], [9]], ["gpu"])
        array([ True, False])
        """
        code = CODES.index(as_choice(limit, "limit", ("runtime", "max", "total")))
        rows, wanted = np.asarray(amounts), as_tuple(dimensions, "dimensions")
        if rows.ndim != 2 or rows.shape[1] != len(wanted):
            raise ValueError(f"amounts must have {len(wanted)} columns, not the shape {rows.shape}")
        with self._lock:
            columns, known = self._columns(wanted), self._names.numbers_in_order()
            if self._names.fine or rows.dtype.kind == "f":
                rows = self._names.counted_rows(rows, wanted)
            return self._core.have_room(code, known, quotas, columns, rows.reshape(-1))

    @property
    def room_version(self) -> tuple[object, int]:
        """A value that changes whenever a result of `have_room` may change, and never repeats.

        Cost: that of stale runtimes.
        """
        with self._lock:
            return self._core, self._core.moves()

    def _columns(self, dimensions: Iterable[str]) -> list[int]:
        """The columns of dimensions in the arrays of the kernel."""
        wanted = [as_text(name, "dimensions") for name in as_tuple(dimensions, "dimensions")]
        known = self._names.dimensions
        missing = [n for n in wanted if n not in known or not self._core.uses(known[n])]
        if missing:
            raise KeyError(f"there is no dimension {missing[0]!r}")
        return [known[name] for name in wanted]

    def used_below(self, name: str, priority: int) -> dict[str, Amount]:
        """What preemptible owners of lower priority use in the quota itself, by dimension.

        Zeros are left out. Cost: O(running owners of the quota).
        """
        least = as_int(priority, "priority", -(2**31), 2**31 - 1)
        used: dict[str, Amount] = {}
        with self._lock:
            for number in self._weaker(self._names.number(name), least):
                members = self._core.members(number)
                for dimension, amount in self._known(number).amounts:
                    used[dimension] = exact(used.get(dimension, 0) + members * amount)
        return used

    def overusers(self, name: str) -> tuple[str, ...]:
        """The owners to evict so that a quota uses no more than its runtime, the most important
        first.

        Owners of lower priority leave first, then those admitted last. An owner that turns out to
        be unnecessary stays. If evicting all preemptible owners is not enough, all of them.
        """
        with self._lock:
            numbers = self._core.revocable(self._names.number(name))
            return tuple(self._known(number).name for number in numbers)

    def overused(self) -> tuple[str, ...]:
        """The quotas that use more than their runtime of some dimension, in the order of
        ``quotas``.
        """
        with self._lock:
            return tuple(self._names.sorted(self._core.overused()))

    def overuse(self) -> dict[str, dict[str, Amount]]:
        """For each quota of `overused`, the usage above its runtime, by dimension.

        >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
        >>> names = ("vision", "speech")
        >>> tree = QuotaTree([Quota(name, max={"gpu": 8}) for name in names], total={"gpu": 8})
        >>> tree.submit(QuotaRequest("train", "vision", {"gpu": 8}))
        >>> tree.commit(tree.schedule("train"))
        >>> tree.submit(QuotaRequest("tune", "speech", {"gpu": 8}))
        >>> tree.overuse()
        {'vision': {'gpu': 4}}
        """
        with self._lock:
            names, core = self._names.sorted(self._core.overused()), self._core
            numbers = [self._names.numbers[name] for name in names]
            more = core.all_amounts(numbers, Field.USED) - core.all_amounts(numbers, Field.RUNTIME)
            named = zip(names, map(self._names.named, names, more.tolist()), strict=True)
            return {
                name: {dimension: amount for dimension, amount in of.items() if amount > 0}
                for name, of in named
            }

    def explain(self, request: QuotaRequest | str) -> Explanation:
        """Why an owner has to wait, and what would admit it; nothing changes.

        Refusals are those of the whole path, from the top down. Changes are tried on copies: owners
        to evict ("preempt"), owners whose end is enough ("release"; both cost their members), and
        limits to raise ("limits", see `LimitChange`), among them the total, or else minimums.

        :raises ValueError: as ``schedule`` does.
        """
        with self._lock:
            refused = self._refused(request)
            return explain(refused) if refused else Explanation("bind", "", (), ())

    def limit_changes(self, request: QuotaRequest | str) -> tuple[tuple[LimitChange, ...], ...]:
        """The limits that `explain` names, each entry enough by itself, without its search for
        owners; empty if the owner has not to wait.

        :raises ValueError: as ``schedule`` does.

        >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
        >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> for change in tree.limit_changes(QuotaRequest("train", "vision", {"gpu": 16}))[0]:
        ...     print(change.quota or "total", change.limit, change.amount)
        vision max 16
        total total 16
        """
        with self._lock:
            refused = self._refused(request)
            return limit_changes(refused) if refused else ()

    def _refused(self, request: QuotaRequest | str) -> LimitTrial | None:
        """What `explain` needs to know of an owner; ``None`` if it has not to wait."""
        if not isinstance(request, str):
            as_instance(request, "request", QuotaRequest)
        tree = self.copy()
        if not isinstance(request, str) and request.name not in self._owners:
            tree.submit(request)
        decision = tree.schedule(request)
        if decision.outcome == "bind":
            return None
        branch = tree.copy()
        return LimitTrial(tree, tree._names, decision, branch, branch._forbid_borrowing)

    def runtime_trace(self, name: str, dimension: str) -> tuple[RuntimeLevel, ...]:
        """How the runtime of a quota comes about, level by level from the top.

        :raises KeyError: the quota is unknown, or has no maximum of the dimension.
        :raises ValueError: it is an outside quota, which has no runtime.
        """
        dimension = as_text(dimension, "dimension")
        with self._lock:
            self._names.number(name)
            quota = self._names.quotas[name]
            if dimension not in dict(quota.max):
                raise KeyError(f"quota {name!r} has no dimension {dimension!r}")
            if quota.outside:
                raise ValueError(f"quota {name!r} may use its max in any case")
            return runtime_trace(self._core, self._names, name, dimension)


def _parents_first(quotas: Iterable[Any]) -> list[Quota]:
    """The quotas, each behind its parent if that is among them."""
    named = by_name(quotas, "quotas", Quota)
    ordered: dict[str, Quota] = {}
    for name in sorted(named):
        path: dict[str, None] = {}
        while name in named and name not in ordered and name not in path:
            path[name] = None
            name = named[name].parent
        if name in path:
            raise ValueError(f"quotas: {name!r} is its own ancestor")
        ordered.update((ancestor, named[ancestor]) for ancestor in reversed(path))
    return list(ordered.values())
