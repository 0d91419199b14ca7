"""What a tree of quotas would do for requests."""

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
    """Members of an owner that may run.

    :param owner: its name.
    :param quota: where they count.
    :param members: how many.
    """

    owner: str
    quota: str
    members: int


class QuotaDecision:
    """What `QuotaTree.schedule` would do; nothing has changed yet. It does not change.

    :ivar request: what was decided on; of several that were asked for together: all of them.
    :ivar outcome: "bind": it can be committed. "preempt": the victims have to be evicted first.
        "wait": neither.
    :ivar victims: the owners that would have to leave, the most important first.
    :ivar borrows: something on the path would be used beyond its runtime.
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
        """By owner how many members are admitted; empty unless it binds."""
        if self.outcome != "bind":
            return ()
        return tuple(QuotaGrant(one.name, one.quota, members) for one, members, _ in self._asks)

    @property
    def reason(self) -> str:
        """Why the owner cannot be admitted now, in one line; empty when it can."""
        if self.outcome == "preempt":
            return f"waits for {', '.join(map(repr, self.victims))} to leave"
        return self.refusal.reason if self.refusal else ""

    def verify(self, tree: QuotaLedger) -> None:
        """Check that nothing on the paths would be used beyond its limit, by adding up all owners
        anew; of one to preempt: when the victims have gone.

        :param tree: as it was when the decision was made.
        :raises CertificateError: a limit would be exceeded, which the message names.
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
        names = ", ".join(repr(one.name) for one, _, _ in self._asks)
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
    """A decision about owners: the request, how many members more, and how many run before."""
    values = request, asks, outcome, victims, borrows, refusal
    return _make(values)  # type: ignore[no-any-return]
