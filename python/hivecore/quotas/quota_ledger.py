"""The quotas of a tree, and what its owners ask for and use."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, Self

from hivecore._arguments import as_bool, as_instance, as_int, as_mapping, as_text, as_tuple
from hivecore._quotas import QuotaKernel
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._trial import Transaction, Trials
from hivecore.quotas._amounts import MOST, Amount, Amounts, AmountsLike, as_amounts
from hivecore.quotas._fields import Field
from hivecore.quotas._names import FirstFraction, Names
from hivecore.quotas._saved import decode, encode
from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.quota_status import QuotaStatus

__all__ = ["Limit", "QuotaLedger"]

#: What limits a quota beside the total.
Limit = Literal["runtime", "max"]

_Mark = tuple[QuotaKernel, Names, int]

_MOST_SHOWN = 4  # amounts of the total, in the text of a tree
#: field of a status -> what the kernel knows
_STATUS = {
    "runtime": Field.RUNTIME,
    "limited_request": Field.LIMITED,
    "used": Field.USED,
    "non_preemptible": Field.FIRM,
    "min": Field.SCALED_MIN,
}


class QuotaLedger(Trials, Stateful):
    """The part of a `QuotaTree` that holds quotas, owners, trials and saved states."""

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
        """Within a trial: each owner that changed, by number, and its request before."""

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
        """How much a quota may use, apart from the total: "runtime" or "max", see `QuotaTree`."""
        with self._lock:
            limit: Limit = self._settings[0]
            return limit

    @property
    def check_ancestors(self) -> bool:
        """Whether the quotas above, and the total, limit what is admitted."""
        with self._lock:
            return bool(self._settings[1])

    @property
    def quotas(self) -> tuple[str, ...]:
        """Their names, parents before their children."""
        with self._lock:
            return self._names.in_order()

    def quota(self, name: str) -> Quota:
        """A quota as it was declared."""
        with self._lock:
            self._names.number(name)
            return self._names.quotas[name]

    def tree_of(self, name: str) -> str:
        """The tree that a quota is in."""
        with self._lock:
            self._names.number(name)
            return self._names.tree_of(name)

    def set_quota(self, quota: Quota) -> None:
        """Add a quota, or change the limits or the parent of one; its owners stay.

        :raises KeyError: its parent is missing.
        :raises ValueError: it would be its own ancestor or change its tree, a dimension is missing
            at the parent, or a sum would be above 2**62.
        """
        as_instance(quota, "quota", Quota)
        with self._lock, self._refined((), quota.max, quota.min, quota.weight or ()):
            self._shape().set_quota(quota)

    def move(self, name: str, parent: str) -> None:
        """Move a quota, with all below it, to another parent of its tree.

        :param parent: "": to the top.
        :raises ValueError: as ``set_quota`` does.
        """
        parent = as_text(parent, "parent")
        with self._lock:
            self._names.number(name)
            tree = "" if parent else self._names.tree_of(name)
            self._shape().set_quota(self._names.quotas[name].replace(parent=parent, tree=tree))

    def remove(self, name: str) -> None:
        """Remove a quota.

        :raises ValueError: it has owners, or quotas below it.
        """
        with self._lock:
            self._shape().remove(name)

    def set_total(self, total: AmountsLike, *, tree: str = "", carved: bool = False) -> None:
        """Set what a tree has; dimensions that are not named have 0.

        :param tree: the tree; it is created if it is new.
        :param carved: whether it is subtracted from the total of the default tree.
        :raises ValueError: an amount is out of range, or the default tree would be carved.
        """
        amounts = as_amounts(total, "total")
        tree, carved = as_text(tree, "tree"), as_bool(carved, "carved")
        if carved and not tree:
            raise ValueError("carved: the default tree is what others are carved out of")
        with self._lock, self._refined((), amounts):
            self._shape().set_total(tree, amounts, carved)

    def set_weights(self, weights: Mapping[str, AmountsLike | None]) -> None:
        """Change the weights of quotas, see `Quota`; all of them or none.

        :raises KeyError: a quota is unknown.
        :raises ValueError: as `Quota` does.
        :raises TypeError: an argument is of a wrong type.
        """
        given = as_mapping(weights, "weights")
        with self._lock:
            changed = [self.quota(name).replace(weight=weight) for name, weight in given.items()]
            with self._refined((), *(quota.weight or () for quota in changed)):
                for quota in changed:
                    self._shape().set_quota(quota)

    def runtime(self, name: str) -> dict[str, Amount]:
        """What a quota may use now, by dimension."""
        with self._lock:
            row = self._core.amounts(self._names.number(name), Field.RUNTIME)
            return self._names.named(name, row)

    def status(self, name: str) -> QuotaStatus:
        """The requests and the usage of a quota and the quotas below it."""
        with self._lock:
            number = self._names.number(name)
            rows = {field: self._core.amounts(number, of) for field, of in _STATUS.items()}
            rows["request"] = self._core.request(number)
            return QuotaStatus(name, **{f: self._names.named(name, row) for f, row in rows.items()})

    def total(self, tree: str = "") -> dict[str, Amount]:
        """What the quotas at the top of a tree have in all, by dimension: without outside quotas'
        usage and carved trees.

        :raises KeyError: the tree is unknown.
        """
        tree = as_text(tree, "tree")
        with self._lock:
            if tree and tree not in self._names.totals and not self._names.children("", tree):
                raise KeyError(f"there is no tree {tree!r}")
            row = self._core.net_total(self._names.roots[tree])
            known = self._names.dimensions
            return self._names.amounts(
                row, (dimension for dimension in sorted(known) if row[known[dimension]])
            )

    def declared_total(self, tree: str = "") -> tuple[dict[str, Amount], bool]:
        """The last `set_total` of a tree: (amounts by dimension, carved). Without one: ({},
        False).
        """
        with self._lock:
            amounts, carved = self._names.totals.get(tree, ((), False))
            return dict(amounts), carved

    # --- owners

    @property
    def owners(self) -> tuple[str, ...]:
        """The names of all owners, sorted."""
        with self._lock:
            return tuple(sorted(self._owners))

    def request(self, name: str) -> QuotaRequest:
        """The request of an owner."""
        with self._lock:
            return self._known(self._number(name))

    def members(self, name: str) -> int:
        """How many members of an owner run; 0: it waits."""
        with self._lock:
            return self._core.members(self._number(name))

    def may_borrow(self, name: str) -> bool:
        """Whether an owner may exceed runtimes: not right after it was evicted, see ``evict``."""
        with self._lock:
            *_, may_borrow = self._core.owner(self._number(name))
            return bool(may_borrow)

    def submit(self, request: QuotaRequest) -> None:
        """Add an owner that waits; its request counts from now on.

        :raises ValueError: the name is taken, a sum would be above 2**62, or there would be more
            than 64 dimensions.
        """
        if type(request) is not QuotaRequest:
            as_instance(request, "request", QuotaRequest)
        with self._lock:
            try:
                self._submit(request)
            except FirstFraction:
                with self._refined([request]):
                    self._submit(request)

    def submit_many(self, requests: Iterable[QuotaRequest]) -> None:
        """Submit all of these requests or none; errors are those of ``submit``."""
        given = as_tuple(requests, "requests")
        for request in given:
            as_instance(request, "request", QuotaRequest)
        with self._lock:
            done: list[str] = []
            try:
                for request in given:
                    self._submit(request)
                    done.append(request.name)
            except (KeyError, ValueError) as error:
                self._withdraw(done)
                if not isinstance(error, FirstFraction):
                    raise
                with self._refined(given):
                    self.submit_many(given)

    def evict(self, name: str, *, reclaimed: bool = True) -> None:
        """Stop all members of an owner; it waits again.

        :param reclaimed: whether its quota is reclaimed for other owners: then it may borrow only
            after the next event. If not, such as after a failure, it may borrow at once.

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
        """Remove an owner, whether it runs or waits."""
        with self._lock:
            number = self._number(name)
            self._core.release(number)
            if self._marks:
                self._changes.append((number, self._requests[number]))
            del self._owners[name]
            self._requests[number] = None

    def exchange(self, one: str, other: str) -> None:
        """Swap what two owners have, such as when a job takes over the GPUs of another job.

        :raises ValueError: they differ in more than their names.

        Other owners are not affected: requests and usage of all quotas stay. Cost: O(1).

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
        """Add an owner with the members that it already runs, whatever the limits; for restarts.

        :param members: how many run, 0 to ``request.count``. Owners count as admitted in the order
            in which they are recovered.
        :raises ValueError: as ``submit`` does, or ``members`` is out of range.
        """
        as_instance(request, "request", QuotaRequest)
        running = as_int(members, "members", 0, request.count)
        with self._lock:
            try:
                number = self._submit(request)
            except FirstFraction:
                with self._refined([request]):
                    return self.recover(request, members)
            if running and not self._core.admit(number, running):
                self._withdraw([request.name])
                raise _too_much(request)

    def _number(self, name: str) -> int:
        try:
            return self._owners[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no owner {name!r}") from None

    def _known(self, number: int) -> QuotaRequest:
        request = self._requests[number]
        assert request is not None
        return request

    def _submit(self, request: QuotaRequest) -> int:
        if request.name in self._owners:
            raise ValueError(f"request: there is an owner {request.name!r}")
        quota, names, marks = self._names.number(request.quota), self._names, self._marks
        if marks and any(name not in names.dimensions for name, _ in request.amounts):
            names = self._shape()
        row = names.row(request.amounts)
        try:
            number = self._core.submit(
                quota, row, request.count, request.min_count, request.priority, request.preemptible
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

    def _withdraw(self, names: list[str]) -> None:
        """Undo submissions, the last first."""
        for name in reversed(names):
            number = self._owners.pop(name)
            self._core.withdraw(number)
            if self._marks:
                self._changes.append((number, self._requests[number]))
            self._requests[number] = None

    def _forbid_borrowing(self, name: str) -> None:
        """Treat a waiting owner as one that has just been evicted."""
        self._core.forbid_borrowing(self._number(name))

    # --- all of it

    def check(self) -> None:
        """Audit every invariant. Cost: O(quotas x depth + owners).

        :raises InvariantError: one is broken.
        """
        with self._lock:
            self._core.check()

    def _shape(self) -> Names:
        """The names, for a change of quotas, trees or dimensions; a trial keeps those before it."""
        if self._marks and self._marks[-1][0] is self._core:
            self._core = self._core.copy()
            self._names = self._names.copy(self._core)
        return self._names

    @contextmanager
    def _refined(self, requests: Iterable[Any], *amounts: Amounts) -> Iterator[None]:
        """Count dimensions with fractions in thousandths from now on; an exception undoes it."""
        requested = [request.amounts for request in requests if isinstance(request, QuotaRequest)]
        coarse = {name for amount in (*requested, *amounts) for name in self._names.coarse(amount)}
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

    def _check_last(self, mark: _Mark) -> None:
        if not self._marks or self._marks[-1] is not mark:
            raise RuntimeError("a trial must end before the one in which it was begun")

    def _rewind(self, mark: _Mark) -> None:
        self._check_last(mark)
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
        self._check_last(mark)
        core, _, _ = self._marks.pop()
        core.keep()
        if not self._marks:
            self._changes.clear()

    def copy(self) -> Self:
        """An independent branch for what-if questions."""
        with self._lock:
            branch = object.__new__(type(self))
            branch._lock = RLock()
            branch._settings = self._settings
            branch._core = self._core.copy()
            branch._names = self._names.copy(branch._core)
            branch._owners = self._owners.copy()
            branch._requests = self._requests.copy()
            branch._unmarked()
            return branch

    def to_bytes(self) -> bytes:
        """The state as versioned, checksummed bytes, for ``from_bytes``."""
        with self._lock:
            return seal(b"HCQT", 1, encode(self._settings, self._core, self._names, self._requests))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree that ``to_bytes`` saved.

        :raises CorruptStateError: the bytes are damaged, or describe no possible state.
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
                    tree._forbid_borrowing(request.name)
        return tree

    def __sizeof__(self) -> int:
        with self._lock:
            return object.__sizeof__(self) + self._core.__sizeof__()


def _too_much(request: QuotaRequest) -> ValueError:
    return ValueError(f"request: {request.name!r}: a sum would be above {MOST}")
