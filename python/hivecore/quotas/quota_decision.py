"""The decision of a tree of quotas on a request."""

from typing import Any

from hivecore._quotas import Maker
from hivecore._record import Record
from hivecore.decisions import Outcome, Refusal
from hivecore.quotas.proof import check_decision
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import Asks

__all__ = ["QuotaDecision", "QuotaGrant", "made_decision"]


class QuotaGrant(Record, frozen=True):
    """Members of an owner that are admitted.

    :param owner: the owner's name.
    :param quota: the quota that they count in.
    :param members: how many.
    """

    owner: str
    quota: str
    members: int


class QuotaDecision:
    """What `QuotaTree.schedule` decided; nothing has changed yet. Immutable.

    :ivar request: the request, or all requests that were decided together.
    :ivar outcome: "bind": it can be committed. "preempt": the victims have to be evicted first.
        "wait": neither.
    :ivar victims: the owners to evict, the most important first.
    :ivar borrows: whether a quota of the path would exceed its runtime.
    :ivar refusal: why it waits; codes: "runtime", "max", "min", "total", "evicted".
    """

    __slots__ = ("_asks", "borrows", "outcome", "refusal", "request", "victims")

    request: QuotaRequest | tuple[QuotaRequest, ...]
    outcome: Outcome
    victims: tuple[str, ...]
    borrows: bool
    refusal: Refusal | None
    _asks: Asks

    def __init__(self) -> None:
        raise TypeError("a QuotaDecision is made by QuotaTree.schedule")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name!r} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} cannot be deleted")

    @property
    def placement(self) -> tuple[QuotaGrant, ...]:
        """The members of each owner that are admitted; empty unless the outcome is "bind"."""
        if self.outcome != "bind":
            return ()
        return tuple(
            QuotaGrant(request.name, request.quota, members) for request, members, _ in self._asks
        )

    @property
    def reason(self) -> str:
        """Why the owner cannot be admitted now, in one line; empty if it can."""
        if self.outcome == "preempt":
            return f"waits for {', '.join(map(repr, self.victims))} to leave"
        return self.refusal.reason if self.refusal else ""

    def verify(self, tree: QuotaLedger) -> None:
        """Check that no limit of the paths is exceeded, by a new sum over all owners without the
        victims.

        :param tree: as it was when the decision was made.
        :raises CertificateError: a limit is exceeded; the message names it.
        """
        check_decision(self.outcome, self._asks, self.victims, tree.copy())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuotaDecision):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __reduce__(self) -> tuple[Any, ...]:
        return made_decision, self._values()

    def __repr__(self) -> str:
        names = ", ".join(repr(request.name) for request, _, _ in self._asks)
        return f"QuotaDecision({self.outcome!r}, {names})"

    def _values(self) -> tuple[Any, ...]:
        return (
            self.request,
            self._asks,
            self.outcome,
            self.victims,
            self.borrows,
            self.refusal,
        )


_make = Maker(QuotaDecision, ("request", "_asks", "outcome", "victims", "borrows", "refusal")).make


def made_decision(
    request: QuotaRequest | tuple[QuotaRequest, ...],
    asks: Asks,
    outcome: Outcome,
    victims: tuple[str, ...] = (),
    borrows: bool = False,
    refusal: Refusal | None = None,
) -> QuotaDecision:
    """A decision; each of ``asks`` is (request, more members, members before)."""
    values = request, asks, outcome, victims, borrows, refusal
    return _make(values)  # type: ignore[no-any-return]
