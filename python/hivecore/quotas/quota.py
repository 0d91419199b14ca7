"""One quota of a tree, as it is declared."""

from typing import TYPE_CHECKING, Annotated

from hivecore._record import Named
from hivecore.quotas._amounts import Amounts, AmountsLike, as_amounts

__all__ = ["Quota"]


class Quota(Named, frozen=True, kw_only=True):
    """How much the owners in a quota, and in the quotas below it, may use.

    :param name: unique in all trees.
    :param max: the limit of each dimension, 0 to 2**62 units (GPUs, bytes, thousandths of a core),
        or up to 2**40 in multiples of 0.001. The quota counts these dimensions only, and its parent
        must have each of them.
    :param min: the guaranteed amount of each dimension, at most ``max``; by default 0.
    :param weight: its share of spare amounts beside its siblings, by dimension; ``None``: as
        ``max``. A dimension that is not named has weight 0: the quota gets its ``min`` at most.
    :param parent: the quota above; "": it is at the top of its tree.
    :param lends: whether other quotas may use the part of ``min`` that its owners do not request.
    :param scales: whether ``min`` may be scaled down where the minimums of siblings add up to more
        than their parent can ever have.
    :param outside: for the pods of the system: a quota at the top that may always use its ``max``.
        Its usage is subtracted from the total before other quotas get a share.
    :param tree: the tree of a quota at the top. Other quotas are in their parent's.
    :raises ValueError: an amount is out of range or contradicts another one.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.quotas import Quota
    >>> vision = Quota("vision", max={"gpu": 64}, min={"gpu": 16}, parent="research")
    >>> vision.min, vision.weight, vision.replace(min={"gpu": 2}).min
    ((('gpu', 16),), None, (('gpu', 2),))
    """

    max: Annotated[Amounts, as_amounts]
    min: Annotated[Amounts, as_amounts] = ()
    weight: Annotated[Amounts, as_amounts] | None = None
    parent: str = ""
    lends: bool = True
    scales: bool = True
    outside: bool = False
    tree: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            max: AmountsLike,
            min: AmountsLike = (),
            weight: AmountsLike | None = None,
            parent: str = "",
            lends: bool = True,
            scales: bool = True,
            outside: bool = False,
            tree: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        most = dict(self.max)
        for dimension, amount in self.min:
            if dimension not in most:
                raise ValueError(f"min: {dimension!r} has no max")
            if amount > most[dimension]:
                raise ValueError(f"min[{dimension!r}]={amount}: is above max, {most[dimension]}")
        for dimension, _ in self.weight or ():
            if dimension not in most:
                raise ValueError(f"weight: {dimension!r} has no max")
        if self.parent and (self.outside or self.tree):
            field = "outside" if self.outside else "tree"
            raise ValueError(
                f"{field}: is for quotas at the top, this one is below {self.parent!r}"
            )
