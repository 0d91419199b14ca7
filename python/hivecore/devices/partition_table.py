"""Which sets of GPUs the switch fabric of a machine can join: one row per partition."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hivecore._arguments import as_choice, as_int, as_text, as_tuple, tuple_of
from hivecore._record import Record, within

__all__ = ["Partition", "PartitionTable"]

_MOST = 2**31 - 1
_SPACES = ("minor", "module")


def _members(value: Any, name: str) -> tuple[int, ...]:
    members = sorted(as_int(i, name, 0, _MOST) for i in as_tuple(value, name))
    if not members or len(set(members)) != len(members):
        raise ValueError(f"{name}={members}: must be distinct, and one at least")
    return tuple(members)


class Partition(Record, frozen=True):
    """A set of GPUs that can be activated together.

    :param members: its GPUs, distinct, in the numbers of its table; kept in ascending order.
    :param score: among partitions of one size those of a higher score are taken first.
    :param bandwidth: of a ring through its GPUs, in bytes per second; ``None``: not known.
    :param link: what joins them, such as "NVLink".
    """

    members: Annotated[tuple[int, ...], _members]
    score: Annotated[int, within(0, 10**6)] = 1
    bandwidth: Annotated[int, within(0, 2**62)] | None = None
    link: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            members: Iterable[int],
            score: int = 1,
            bandwidth: int | None = None,
            link: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()


def _rows(value: Any, name: str) -> tuple[Partition, ...]:
    rows = tuple_of(value, name, Partition)
    if len({row.members for row in rows}) != len(rows):
        raise ValueError(f"{name}: a set of GPUs is there twice")
    return rows


class PartitionTable(Record, frozen=True):
    """The sets of GPUs that the fabric of one machine can join, called partitions.

    `DeviceRequest` and the ``partition_policy`` of `NodeDevices` say whether whole GPUs must be
    exactly one of them.

    :param partitions: the partitions, each set of GPUs once.
    :param numbers: how they number GPUs: "minor", or "module" for physical slots.
    :raises ValueError: two partitions have the same GPUs.

    >>> from hivecore.devices import PartitionTable
    >>> table = PartitionTable.of_model("H100")
    >>> [one.members for one in table.partitions if len(one.members) == 2]
    [(1, 3), (2, 4), (5, 7), (6, 8)]
    """

    partitions: Annotated[tuple[Partition, ...], _rows]
    numbers: Literal["minor", "module"] = "minor"

    if TYPE_CHECKING:

        def __init__(
            self, partitions: Iterable[Partition], numbers: Literal["minor", "module"] = "minor"
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()

    @classmethod
    def of_sets(
        cls, sets: Iterable[Iterable[int]], numbers: Literal["minor", "module"] = "minor"
    ) -> "PartitionTable":
        """The table of these sets of GPUs, all equally good."""
        return cls(tuple(Partition(tuple(members), link="NVLink") for members in sets), numbers)

    @classmethod
    def of_model(
        cls, model: str, numbers: Literal["minor", "module"] = "module"
    ) -> "PartitionTable":
        """The table of a known machine: "H100", "H800", "H20"; "A100" is unverified.

        The tables are in module ids, as the fabric manager has them. ``numbers="minor"`` gives
        Koordinator's own table of H100, H800 and H20 boards, for nodes whose GPUs do not say in
        which slot they are; it holds where minors 0 and 1, 2 and 3, 4 and 5, 6 and 7 are pairs.

        :raises KeyError: no table of this model.

        Source: NVIDIA Fabric Manager's partitions of HGX boards. That of "A100" was not seen on
        a machine.
        """
        name = as_text(model, "model")
        if as_choice(numbers, "numbers", _SPACES) == "minor":
            if name not in _BY_MODULE or name == "A100":
                raise KeyError(f"model={name!r}: known by minors are H100, H800, H20")
            return cls.of_sets(_octet(((0, 1), (2, 3), (4, 5), (6, 7)), 0))
        if name not in _BY_MODULE:
            raise KeyError(f"model={name!r}: known are {', '.join(_BY_MODULE)}")
        return cls.of_sets(_octet(_BY_MODULE[name], 1), "module")


def _octet(pairs: tuple[tuple[int, int], ...], first: int) -> list[tuple[int, ...]]:
    """The rows of a board of eight GPUs: all, two quads, the pairs, each alone."""
    numbers = tuple(range(first, first + 8))
    return [numbers, numbers[:4], numbers[4:], *pairs, *((i,) for i in numbers)]


_HOPPER = ((1, 3), (2, 4), (5, 7), (6, 8))
_BY_MODULE = {
    "H100": _HOPPER,
    "H800": _HOPPER,
    "H20": _HOPPER,
    "A100": ((1, 2), (3, 4), (5, 6), (7, 8)),
}
