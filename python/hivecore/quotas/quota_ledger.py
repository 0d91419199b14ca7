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

#: What admission goes by beside the total.
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
    """The part of a `QuotaTree` that admits nothing: quotas, owners, trials and saved states."""

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
        """Add a quota, or give one other limits or another parent; what is in it stays.

        :raises KeyError: its parent is missing.
        :raises ValueError: it is its own ancestor, it or a quota below it has a dimension that the
            parent has not, it would change its tree, or a sum would be above 2**62.
        """
        as_instance(quota, "quota", Quota)
        with self._lock, self._refined((), quota.max, quota.min, quota.weight or ()):
            self._shape().set_quota(quota)

    def move(self, name: str, parent: str) -> None:
        """Put a quota with all that is below it under another one of its tree.

        :param parent: "": it comes to the top.
        :raises ValueError: as of ``set_quota``.
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
        """Say what a tree has; what is not named is 0.

        :param tree: which; a new one if need be.
        :param carved: it is taken off what the default tree has.
        :raises ValueError: an amount is out of range, or the default tree would be carved.
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

    def runtime(self, name: str) -> dict[str, Amount]:
        """What a quota may use now, by dimension."""
        with self._lock:
            row = self._core.amounts(self._names.number(name), Field.RUNTIME)
            return self._names.named(name, row)

    def status(self, name: str) -> QuotaStatus:
        """What is asked for and used in a quota and below it."""
        with self._lock:
            number = self._names.number(name)
            rows = {field: self._core.amounts(number, of) for field, of in _STATUS.items()}
            rows["request"] = self._core.request(number)
            return QuotaStatus(name, **{f: self._names.named(name, row) for f, row in rows.items()})

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

    def declared_total(self, tree: str = "") -> tuple[dict[str, Amount], bool]:
        """What `set_total` said of a tree, by dimension, and whether it is carved; of a tree of
        which it said nothing, nothing.
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
        """What an owner has asked for."""
        with self._lock:
            return self._known(self._number(name))

    def members(self, name: str) -> int:
        """How many members of an owner run; 0: it is pending."""
        with self._lock:
            return self._core.members(self._number(name))

    def may_borrow(self, name: str) -> bool:
        """Whether an owner may exceed runtimes: it was not just evicted, see ``evict``."""
        with self._lock:
            *_, may_borrow = self._core.owner(self._number(name))
            return bool(may_borrow)

    def submit(self, request: QuotaRequest) -> None:
        """An owner asks for a part of a quota from now on.

        :raises ValueError: there is an owner of this name, a sum would be above 2**62, or there
            would be more than 64 dimensions.
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
        """Submit all of these, or none; errors are those of ``submit``."""
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
        """Stop all members of an owner, which is pending then.

        :param reclaimed: others take back what it had, so that it may borrow only after something
            else has happened; if not, such as after a failure, it may at once.

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
        """The end of an owner, running or not."""
        with self._lock:
            number = self._number(name)
            self._core.release(number)
            if self._marks:
                self._changes.append((number, self._requests[number]))
            del self._owners[name]
            self._requests[number] = None

    def exchange(self, one: str, other: str) -> None:
        """Each of two owners has what the other one had, such as when one hands on what it runs on.

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
        :raises ValueError: as of ``submit``, or ``members`` is out of range.
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
        """As if they had not been submitted, one after the other."""
        for name in reversed(names):
            number = self._owners.pop(name)
            self._core.withdraw(number)
            if self._marks:
                self._changes.append((number, self._requests[number]))
            self._requests[number] = None

    def _forbid_borrowing(self, name: str) -> None:
        """As if an owner that is pending had just been evicted."""
        self._core.forbid_borrowing(self._number(name))

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
            return seal(b"HCQT", 1, encode(self._settings, self._core, self._names, self._requests))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The tree whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
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
