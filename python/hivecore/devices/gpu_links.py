"""The links between the GPUs of a machine, and what sets of GPUs they make."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hivecore._arguments import as_int, as_tuple
from hivecore._record import Record
from hivecore.devices.partition_table import Partition

__all__ = ["LINKS", "MOST_LINKED", "GpuLinks", "LinksWish", "is_linked"]

LinksWish = Literal["island", "all"]
#: From the weakest wish to the strongest; ``None``: GPUs need not be linked.
LINKS: tuple[LinksWish | None, ...] = (None, "island", "all")
MOST_LINKED = 16  # GPUs: all sets of them are partitions
_MOST_COUNT = 1000
_NAMES = ("", "NVLink island", "NVLink")


def _counts(value: Any, name: str) -> tuple[tuple[int, ...], ...]:
    rows = [as_tuple(row, f"{name}[{i}]") for i, row in enumerate(as_tuple(value, name))]
    if len(rows) > MOST_LINKED or any(len(row) != len(rows) for row in rows):
        sizes = [*map(len, rows)]
        raise ValueError(f"{name}: rows of {sizes} numbers are no square of {MOST_LINKED} at most")
    for i, j in product(range(len(rows)), repeat=2):
        count = as_int(rows[i][j], f"{name}[{i}][{j}]", 0, _MOST_COUNT if i != j else 0)
        if count != rows[j][i]:
            raise ValueError(f"{name}[{i}][{j}]={count}: must be as {name}[{j}][{i}]={rows[j][i]}")
    return tuple(rows)


class GpuLinks(Record, frozen=True):
    """How many NVLinks, or links of XGMI, there are between each two GPUs of a machine.

    :param counts: a square, symmetric, with zeros on its diagonal, by the GPUs' minors. GPUs of
        higher minors have no links. 16 GPUs at most.
    :raises ValueError: it is not such a square.

    >>> from hivecore.devices import GpuLinks
    >>> bridges = GpuLinks([[0, 12, 0, 0], [12, 0, 0, 0], [0, 0, 0, 12], [0, 0, 12, 0]])
    >>> bridges.between([0, 1]), bridges.joins([0, 1]), bridges.joins([1, 2])
    (12, 'all', None)
    """

    counts: Annotated[tuple[tuple[int, ...], ...], _counts]

    if TYPE_CHECKING:

        def __init__(self, counts: Iterable[Iterable[int]]) -> None: ...

    def __post_init__(self) -> None:
        self._check()

    def count(self, gpu: int, other: int) -> int:
        """The links between two GPUs, by their minors."""
        known = range(len(self.counts))
        return self.counts[gpu][other] if gpu in known and other in known else 0

    def between(self, minors: Iterable[int]) -> int:
        """All links between some GPUs."""
        return sum(self.count(*pair) for pair in combinations(minors, 2))

    def joins(self, minors: Iterable[int]) -> LinksWish | None:
        """How links join these GPUs: "all": each two have one of their own; "island": they reach
        each other over links among themselves; ``None``: not all of them do.
        """
        gpus = list(minors)
        if all(self.count(*pair) for pair in combinations(gpus, 2)):
            return "all"
        reached = {gpus[0]}
        for _ in gpus:
            reached |= {gpu for gpu in gpus if any(self.count(gpu, other) for other in reached)}
        return "island" if len(reached) == len(gpus) else None

    def partitions(self, minors: Iterable[int], size: int) -> tuple[Partition, ...]:
        """All sets of so many of these GPUs; the score is how many links they have."""
        return _partitions(self, tuple(minors), size)


@lru_cache(64)
def _partitions(links: GpuLinks, minors: tuple[int, ...], size: int) -> tuple[Partition, ...]:
    return tuple(
        Partition(some, links.between(some), link=_NAMES[LINKS.index(links.joins(some))])
        for some in combinations(minors, size)
    )


def is_linked(row: Partition, wish: LinksWish | None) -> bool:
    """Whether the GPUs of a partition are linked as is wished."""
    has = _NAMES.index(row.link) if row.link in _NAMES else 0
    return has >= LINKS.index(wish)
