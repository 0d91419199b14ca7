"""One device of a node: what it is, what it has, where it sits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from hivecore._arguments import as_choice, as_tuple
from hivecore._record import Record, any_value, force_setattr, within
from hivecore.devices._pairs import (
    Amounts,
    AmountsLike,
    Labels,
    LabelsLike,
    as_amounts,
    as_labels,
)

__all__ = [
    "AMOUNTS",
    "MOST_DEVICES",
    "TYPES",
    "Device",
    "Numbered",
    "OfType",
    "VirtualFunction",
    "VirtualFunctionGroup",
    "as_type",
    "share_of_memory",
]

#: What the devices of each type have, and are asked for.
AMOUNTS = {
    "gpu": ("core", "memory", "memory_ratio", "npu_core", "npu_cpu", "npu_dvpp"),
    "rdma": ("share",),
    "fpga": ("share",),
    "host": ("cpu", "memory"),
}
TYPES = tuple(AMOUNTS)
MOST_DEVICES = 256  # of one type on one node
_MOST_ID = 2**31 - 1


def share_of_memory(percent: int, memory: int) -> int:
    """The bytes that so many percent of a card's memory are, rounded down: shares that sum to 100
    percent never exceed the card.
    """
    return percent * memory // 100


class VirtualFunction(Record, frozen=True):
    """A virtual function of a NIC.

    :param bus_id: its bus address, unique on the node.
    :param minor: its number, where the node agent gives one.
    """

    bus_id: str
    minor: Annotated[int, within(-_MOST_ID, _MOST_ID)] = 0

    def __post_init__(self) -> None:
        self._check()


def _functions(value: Any, name: str) -> tuple[VirtualFunction, ...]:
    return tuple(
        [
            group if isinstance(group, VirtualFunction) else VirtualFunction(group)
            for group in as_tuple(value, name)
        ]
    )


class VirtualFunctionGroup(Record, frozen=True):
    """Virtual functions with the same labels.

    :param functions: the virtual functions, or their bus addresses.
    :param labels: the labels that the ``vf_selector`` of a request has to match.
    """

    functions: Annotated[tuple[VirtualFunction, ...], _functions]
    labels: Annotated[Labels, as_labels] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            functions: Iterable[VirtualFunction | str],
            labels: LabelsLike = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()


def as_type(value: Any, name: str, types: tuple[str, ...] = TYPES) -> str:
    """A type of devices: a "nic" is what Koordinator's objects, and so records, call "rdma"."""
    return "rdma" if isinstance(value, str) and value == "nic" else as_choice(value, name, types)


class OfType(Record, frozen=True):
    """A record of a type of device, of which the names of the amounts depend."""

    type: Annotated[str, as_type]

    if TYPE_CHECKING:
        amounts: Amounts

    def _check(self) -> None:
        Record._check(self)
        force_setattr(self, "amounts", as_amounts(self.amounts, "amounts", AMOUNTS[self.type]))


class Numbered(OfType, frozen=True):
    """A record of a device, of which a node has one of each number."""

    minor: Annotated[int, within(0, _MOST_ID)]
    amounts: Annotated[Amounts, any_value]


class Device(Numbered, frozen=True, kw_only=True):
    """A GPU, NIC, FPGA, or the host itself, as one record of a node's inventory.

    :param type: "gpu", "nic" (read as "rdma"), "fpga" or "host" (the node's processors and memory,
        as a device of which there is one).
    :param minor: its number, 0 to 2**31 - 1, unique for the type on the node.
    :param amounts: its amounts, by name. gpu: "core" in percent (100: all of it), "memory" in
        bytes, "memory_ratio" in percent, "npu_core", "npu_cpu", "npu_dvpp"; rdma and fpga: "share"
        in percent; host: "cpu" in thousandths, "memory" in bytes. Each 0 to 2**48,
        memory also as "80Gi".
    :param healthy: an unhealthy device keeps its owners, and gets no new ones.
    :param socket: its processor socket; ``None``: not known.
    :param numa: the NUMA node, unique on the machine; ``None``: not known.
    :param pcie: the PCIe switch (or root), unique on the machine; ``None``: not known.
    :param bus_id: its own bus address.
    :param uuid: its name by the vendor.
    :param module_id: its physical slot, by which tables of partitions may name it.
    :param labels: the labels that the ``selector`` of a request has to match.
    :param vf_groups: the virtual functions of a NIC.
    :raises ValueError: an amount has a wrong name, or something is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import Device
    >>> Device("gpu", 3, {"core": 100, "memory": 80 << 30}, numa=0, pcie="1").pcie
    '1'
    """

    healthy: bool = True
    socket: Annotated[int, within(0, _MOST_ID)] | None = None
    numa: Annotated[int, within(0, _MOST_ID)] | None = None
    pcie: str | None = None
    bus_id: str = ""
    uuid: str = ""
    module_id: Annotated[int, within(0, _MOST_ID)] | None = None
    labels: Annotated[Labels, as_labels] = ()
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            type: str,
            minor: int,
            amounts: AmountsLike,
            *,
            healthy: bool = True,
            socket: int | None = None,
            numa: int | None = None,
            pcie: str | None = None,
            bus_id: str = "",
            uuid: str = "",
            module_id: int | None = None,
            labels: LabelsLike = (),
            vf_groups: Iterable[VirtualFunctionGroup] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
