"""The decision of a tree of quotas on a request."""

from hivecore._record import Record
from hivecore.decisions import Outcome, Refusal
from hivecore.quotas.proof import check_decision
from hivecore.quotas.quota_ledger import QuotaLedger
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.refusals import Asks

__all__ = ["QuotaDecision", "QuotaGrant"]


class QuotaGrant(Record, frozen=True):
    """Members of an owner that are admitted.

    :param owner: the owner's name.
    :param quota: the quota that they count in.
    :param members: how many.
    """

    owner: str
    quota: str
    members: int


class QuotaDecision(Record, frozen=True):
    """What `QuotaTree.schedule` decided; nothing has changed yet.

    :ivar request: the request, or all requests that were decided together.
    :ivar outcome: "bind": it can be committed. "preempt": the victims have to be evicted first.
        "wait": neither.
    :ivar victims: the owners to evict, the most important first.
    :ivar borrows: whether the owner's quota, or one above it, would exceed its runtime.
    :ivar refusal: why it waits, or ``None``; codes: "runtime", "max", "min", "total", "evicted".
    """

    request: QuotaRequest | tuple[QuotaRequest, ...]
    _asks: Asks
    outcome: Outcome
    victims: tuple[str, ...] = ()
    borrows: bool = False
    refusal: Refusal | None = None

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

    def __repr__(self) -> str:
        names = ", ".join(repr(request.name) for request, _, _ in self._asks)
        return f"QuotaDecision({self.outcome!r}, {names})"
