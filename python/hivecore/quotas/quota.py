"""One quota of a tree, as it is declared."""

from dataclasses import dataclass
from typing import Any, Self

from hivecore._arguments import as_bool, as_name, as_text
from hivecore.quotas._amounts import Amounts, AmountsLike, as_amounts

__all__ = ["Quota"]


@dataclass(frozen=True, slots=True, init=False)
class Quota:
    """What the owners in a quota, and the quotas below it, may use.

    :param name: unique in all trees.
    :param parent: the quota that it is part of; "": it is at the top of its tree.
    :param max: the most that it may use, by dimension, in units (GPUs, bytes, thousandths of a
        core), each 0 to 2**62, or up to 2**40 in thousandths, such as 0.25. Only these dimensions
        are its business, and each must be its parent's as well.
    :param min: what it is entitled to in any case, at most ``max``; what is not named is 0.
    :param weight: by what it shares in what is spare; what is not named is 0, and a quota of weight
        0 gets its ``min`` at most. ``None``: as ``max``.
    :param lends: whether others may use what of ``min`` is not asked for.
    :param scales: whether ``min`` may be scaled down where it and those beside it add up to more
        than their parent can ever have.
    :param outside: it is at the top, may always use its ``max``, and what it uses is taken off the
        tree's total before the others get any; for the pods of the system.
    :param tree: of one at the top: the tree. Others are in their parent's.
    :raises ValueError: an amount is out of range, or does not go with another one.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.quotas import Quota
    >>> vision = Quota("vision", max={"gpu": 64}, min={"gpu": 16}, parent="research")
    >>> vision.min, vision.weight
    ((('gpu', 16),), None)
    """

    name: str
    parent: str
    max: Amounts
    min: Amounts
    weight: Amounts | None
    lends: bool
    scales: bool
    outside: bool
    tree: str

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
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "name", as_name(name, "name"))
        set_field(self, "parent", as_text(parent, "parent"))
        set_field(self, "max", as_amounts(max, "max"))
        set_field(self, "min", as_amounts(min, "min"))
        by = None if weight is None else as_amounts(weight, "weight")
        set_field(self, "weight", by)
        set_field(self, "lends", as_bool(lends, "lends"))
        set_field(self, "scales", as_bool(scales, "scales"))
        set_field(self, "outside", as_bool(outside, "outside"))
        set_field(self, "tree", as_text(tree, "tree"))
        most = dict(self.max)
        for dimension, amount in self.min:
            if dimension not in most:
                raise ValueError(f"min: {dimension!r} has no max")
            if amount > most[dimension]:
                raise ValueError(f"min[{dimension!r}]={amount}: is above max, {most[dimension]}")
        for dimension, _ in by or ():
            if dimension not in most:
                raise ValueError(f"weight: {dimension!r} has no max")
        if self.parent and (self.outside or self.tree):
            field = "outside" if self.outside else "tree"
            raise ValueError(
                f"{field}: is for quotas at the top, this one is below {self.parent!r}"
            )

    def replace(self, **changes: Any) -> Self:
        """The same quota with other arguments.

        >>> from hivecore.quotas import Quota
        >>> Quota("a", max={"gpu": 8}).replace(min={"gpu": 2}).min
        (('gpu', 2),)
        """
        mine = {name: getattr(self, name) for name in self.__slots__}
        return type(self)(**{**mine, **changes})
