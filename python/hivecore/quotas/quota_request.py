"""What an owner asks of a quota."""

from dataclasses import dataclass
from typing import Any, Self

from hivecore._arguments import as_bool, as_int, as_name
from hivecore.quotas._amounts import MOST, Amounts, AmountsLike, as_amounts

__all__ = ["QuotaRequest"]


@dataclass(frozen=True, slots=True, init=False)
class QuotaRequest:
    """A job, a gang or a pod that asks for a part of a quota.

    :param name: the owner, unique in the tree.
    :param quota: the quota that it belongs to.
    :param amounts: what each member takes, by dimension, in the units of the quota, or thousandths
        of them, such as 0.25; dimensions that the quota has no maximum of are none of its business.
    :param count: how many members there are, 1 to 2**31 - 1; all of them count as asked for.
    :param min_count: with how many it can start; ``None``: with all.
    :param priority: owners of higher priority stay longer, -2**31 to 2**31 - 1.
    :param preemptible: whether it may have to leave at all. If not, it has to fit into the minimum
        of its quota, together with all in and below it that cannot be preempted.
    :raises ValueError: something is out of range, or it is more than 2**62 in all.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.quotas import QuotaRequest
    >>> QuotaRequest("train", "vision", {"gpu": 8}, count=4).min_count
    4
    """

    name: str
    quota: str
    amounts: Amounts
    count: int
    min_count: int
    priority: int
    preemptible: bool

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
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "name", as_name(name, "name"))
        set_field(self, "quota", as_name(quota, "quota"))
        number = as_int(count, "count", 1, 2**31 - 1)
        taken = as_amounts(amounts, "amounts", MOST // number)
        set_field(self, "amounts", tuple(pair for pair in taken if pair[1]))
        set_field(self, "count", number)
        least = number if min_count is None else as_int(min_count, "min_count", 1, number)
        set_field(self, "min_count", least)
        set_field(self, "priority", as_int(priority, "priority", -(2**31), 2**31 - 1))
        set_field(self, "preemptible", as_bool(preemptible, "preemptible"))

    def replace(self, **changes: Any) -> Self:
        """The same request with other arguments.

        >>> from hivecore.quotas import QuotaRequest
        >>> QuotaRequest("a", "vision", {"gpu": 1}).replace(name="b").name
        'b'
        """
        if changes.keys() == {"name"}:
            return self._renamed(as_name(changes["name"], "name"))
        mine = {name: getattr(self, name) for name in self.__slots__}
        return type(self)(**{**mine, **changes})

    def _renamed(self, name: str) -> Self:
        """The same for another owner; all else has been checked."""
        made = object.__new__(type(self))
        put = object.__setattr__
        put(made, "name", name)
        put(made, "quota", self.quota)
        put(made, "amounts", self.amounts)
        put(made, "count", self.count)
        put(made, "min_count", self.min_count)
        put(made, "priority", self.priority)
        put(made, "preemptible", self.preemptible)
        return made
