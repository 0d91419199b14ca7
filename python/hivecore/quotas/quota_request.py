"""The request of an owner to a quota."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from hivecore._arguments import as_int
from hivecore._record import FOLLOWS, Name, Named, force_setattr, within
from hivecore.quotas._amounts import MOST, Amounts, AmountsLike, as_amounts

__all__ = ["QuotaRequest"]

_MOST_COUNT = 2**31 - 1


class _InQuota(Named, frozen=True):
    quota: Name
    amounts: Annotated[Amounts, as_amounts]


class QuotaRequest(_InQuota, frozen=True, kw_only=True):
    """A job, a gang or a pod that requests a part of a quota.

    :param name: the owner, unique in the tree.
    :param quota: its quota.
    :param amounts: what each member takes, by dimension, in the units of the quota or multiples of
        0.001. Dimensions that the quota has no maximum of are ignored.
    :param count: the number of members, 1 to 2**31 - 1; all of them count as requested.
    :param min_count: how many members it starts with; ``None``: all.
    :param priority: -2**31 to 2**31 - 1; owners of lower priority are evicted first.
    :param preemptible: whether it may be evicted. All owners in and below a quota that are not have
        to fit into the minimum of the quota.
    :raises ValueError: a value is out of range, or all members take more than 2**62.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.quotas import QuotaRequest
    >>> request = QuotaRequest("train", "vision", {"gpu": 8}, count=4)
    >>> request.min_count, request.replace(name="tune").name
    (4, 'tune')
    """

    _follows: ClassVar[dict[str, str]] = {"min_count": "count"}

    count: Annotated[int, within(1, _MOST_COUNT)] = 1
    min_count: Annotated[int, within(1, _MOST_COUNT)] = FOLLOWS
    priority: Annotated[int, within(-(2**31), 2**31 - 1)] = 0
    preemptible: bool = True

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            quota: str,
            amounts: AmountsLike,
            *,
            count: int = 1,
            min_count: int | None = None,
            priority: int = 0,
            preemptible: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        most = MOST // self.count
        for dimension, amount in self.amounts:
            if amount > most:
                raise ValueError(f"amounts[{dimension!r}]={amount}: allowed are 0 to {most}")
        if not all(amount for _, amount in self.amounts):
            force_setattr(self, "amounts", tuple([pair for pair in self.amounts if pair[1]]))
        if self.min_count is FOLLOWS:
            force_setattr(self, "min_count", self.count)
        elif self.min_count > self.count:
            as_int(self.min_count, "min_count", 1, self.count)
