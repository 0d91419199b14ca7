"""What a tree of quotas would do for requests."""

from dataclasses import dataclass

from hivecore.decisions import Outcome, Refusal
from hivecore.quotas.quota_request import QuotaRequest

__all__ = ["QuotaDecision", "QuotaGrant"]


@dataclass(frozen=True, slots=True)
class QuotaGrant:
    """Members of an owner that may run.

    :param owner: its name.
    :param quota: where they count.
    :param members: how many.
    """

    owner: str
    quota: str
    members: int


@dataclass(frozen=True, slots=True)
class QuotaDecision:
    """What `QuotaTree.schedule` would do; nothing has changed yet.

    :param request: what was decided on; of several that were asked for together: all of them.
    :param outcome: "bind": it can be committed. "preempt": the victims have to be evicted first.
        "wait": neither.
    :param placement: who gets how many members admitted; empty unless it binds.
    :param victims: who would have to go, the most important first.
    :param borrows: something on the path would be used beyond its runtime.
    :param refusal: why it waits; codes: "runtime", "max", "min", "total", "evicted".
    """

    request: QuotaRequest | tuple[QuotaRequest, ...]
    outcome: Outcome
    placement: tuple[QuotaGrant, ...] = ()
    victims: tuple[str, ...] = ()
    borrows: bool = False
    refusal: Refusal | None = None
    _asks: tuple[tuple[QuotaRequest, int, int], ...] = ()
