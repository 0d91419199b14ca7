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
from hivecore.quotas.explanation import explain
from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_admission import QuotaAdmission
from hivecore.quotas.quota_ledger import Limit
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import CODES
from hivecore.quotas.runtime_trace import RuntimeLevel, runtime_trace

__all__ = ["Limit", "QuotaTree"]


class QuotaTree(QuotaAdmission):
    """Quotas, one below the other, with the owners in them.

    :param quotas: in any order.
    :param total: what the default tree has, by dimension; it has nothing of a dimension that is not
        named. Without a total no owner is admitted until ``set_total``, and refusals say so.
    :param limit: what a quota may use: its "runtime", or "max": then it may borrow what is unused
        beyond its runtime, until another quota reclaims it, also from quotas that do not lend.
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
    :raises KeyError: a parent is missing, or a method is given a name that is not known.
    :raises ValueError: quotas do not go together, or there is no such limit.
    :raises TypeError: an argument is of a wrong type, here and in all methods.

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
    dimensions); a read works out stale parents above it, O(children) for each dimension. Of a
    parent with 128 children or more it works out the one that is read, in about
    O(sqrt(children) + weights that differ), while limits and totals stay as they are, and no
    minimum is scaled. In a ``trial``, the first change of quotas, totals or dimensions costs a
    ``copy``. Source: Koordinator's elastic quotas, with their defects mended.

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
        """Whether quotas could use so much more by one of the limits, for callers with many
        waiting.

        :param limit: "runtime" and "max": a quota's own; "total": what its tree has left.
        :param quotas: int64[n], by their places in ``quotas``; more than once for several demands.
        :param amounts: int64 or float64[n, dimensions]: of each how much more, below 0 how much
            less. What is 0, or has no maximum in a quota, does not count.
        :param dimensions: which.
        :returns: bool[n].
        :raises KeyError: there is no such dimension.
        :raises ValueError: there is no such limit or quota, an amount is out of range, or an array
            is not of that shape.

        Cost: O(n), and that of the runtimes that have moved.

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

    def used_below(self, name: str, priority: int) -> dict[str, Amount]:
        """What owners of a quota itself use that may be preempted and are of lower priority, by
        dimension; what is 0 is left out. O(running owners of it).
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
        """The owners of a quota that have to go so that it uses no more than its runtime.

        Those of lower priority leave first, then those admitted last; an owner that need not go
        stays. The most important first. If the quota is over even without all that can go,
        all of them.
        """
        with self._lock:
            numbers = self._core.revocable(self._names.number(name))
            return tuple(self._known(number).name for number in numbers)

    def overused(self) -> tuple[str, ...]:
        """The quotas that use more than their runtime in some dimension, in the order of
        ``quotas``.
        """
        with self._lock:
            overused = self._core.overused()
            if not overused:
                return ()
            names, numbers = self._names.in_order(), self._names.numbers_in_order()
            return tuple([names[at] for at in np.flatnonzero(np.isin(numbers, overused))])

    def explain(self, request: QuotaRequest | str) -> Explanation:
        """Why an owner would have to wait, and what would admit it; nothing changes.

        Refusals are those of all parts of the path, from the top down. Changes are tried on copies:
        the owners to reclaim or preempt ("preempt"), or to end ("release", cost: their members),
        and which limits would have to be raised ("limits", see `LimitChange`), with the
        total, or with minimums.

        :raises ValueError: as of ``schedule``.
        """
        if not isinstance(request, str):
            as_instance(request, "request", QuotaRequest)
        with self._lock:
            tree = self.copy()
            if not isinstance(request, str) and request.name not in self._owners:
                tree.submit(request)
            decision = tree.schedule(request)
            if decision.outcome == "bind":
                return Explanation("bind", "", (), ())
            branch = tree.copy()
            return explain(tree, tree._names, decision, branch, branch._forbid_borrowing)

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
            return runtime_trace(self._core, self._names, name, dimension)

    def borrowers(self, name: str) -> dict[str, dict[str, Amount]]:
        """Which quotas beside this one use more than their minimums, and how much more.

        :returns: by name those with the same parent, by dimension; what is not above is left out.
        """
        with self._lock:
            self._names.number(name)
            quota = self._names.quotas[name]
            above_min = {}
            for other in self._names.children(quota.parent, quota.tree):
                status = self.status(other)
                above = {
                    d: exact(n - status.min[d]) for d, n in status.used.items() if n > status.min[d]
                }
                if above and other != name and not self._names.quotas[other].outside:
                    above_min[other] = above
            return above_min


def _parents_first(quotas: Iterable[Any]) -> list[Quota]:
    """The quotas so that each follows its parent, if that is among them."""
    named = by_name(quotas, "quotas", Quota)
    ordered: dict[str, Quota] = {}
    for name in sorted(named):
        path: dict[str, None] = {}
        while name in named and name not in ordered and name not in path:
            path[name] = None
            name = named[name].parent
        if name in path:
            raise ValueError(f"quotas: {name!r} is its own ancestor")
        ordered.update((one, named[one]) for one in reversed(path))
    return list(ordered.values())
