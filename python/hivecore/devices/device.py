"""One device of a node: what it is, what it has, where it sits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from hivecore._arguments import as_bool, as_choice, as_int, as_text, as_tuple
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
    "VirtualFunction",
    "VirtualFunctionGroup",
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


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function of a NIC.

    :param bus_id: its bus address, unique on the node.
    :param minor: its number, where the node agent gives one.
    """

    bus_id: str
    minor: int = 0

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "bus_id", as_text(self.bus_id, "bus_id"))
        set_field(self, "minor", as_int(self.minor, "minor", -_MOST_ID, _MOST_ID))


@dataclass(frozen=True, slots=True)
class VirtualFunctionGroup:
    """Virtual functions with the same labels.

    :param functions: the virtual functions; bus addresses alone will do.
    :param labels: what a request's ``vf_selector`` is held against.
    """

    functions: tuple[VirtualFunction, ...]
    labels: Labels = ()

    def __init__(
        self,
        functions: Iterable[VirtualFunction | str],
        labels: LabelsLike = (),
    ) -> None:
        made = tuple(
            one if isinstance(one, VirtualFunction) else VirtualFunction(one)
            for one in as_tuple(functions, "functions")
        )
        set_field = object.__setattr__
        set_field(self, "functions", made)
        set_field(self, "labels", as_labels(labels, "labels"))


@dataclass(frozen=True, slots=True, init=False)
class Device:
    """A GPU, NIC, FPGA, or the host itself, as one record of a node's inventory.

    :param type: "gpu", "rdma" (a NIC), "fpga" or "host" (the node's processors and memory, as a
        device of which there is one).
    :param minor: its number, 0 to 2**31 - 1, unique for the type on the node.
    :param amounts: what it has, by name. gpu: "core" in percent (100: all of it), "memory" in
        bytes, "memory_ratio" in percent, "npu_core", "npu_cpu", "npu_dvpp"; rdma and fpga: "share"
        in percent; host: "cpu" in thousandths, "memory" in bytes. Each 0 to 2**48.
    :param healthy: an unhealthy device keeps its place and its users, and takes no new ones.
    :param socket: the processor socket that it is attached to; ``None``: not known.
    :param numa: the NUMA node, unique on the machine; ``None``: not known.
    :param pcie: the PCIe switch (or root), unique on the machine; ``None``: not known.
    :param bus_id: its own bus address.
    :param uuid: the vendor's name of it.
    :param module_id: the physical slot, which fabric partitions are given in.
    :param labels: what a request's ``selector`` is held against.
    :param vf_groups: the virtual functions of a NIC.
    :raises ValueError: an amount has a wrong name, or something is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import Device
    >>> Device("gpu", 3, {"core": 100, "memory": 80 << 30}, numa=0, pcie="1").pcie
    '1'
    """

    type: str
    minor: int
    amounts: Amounts
    healthy: bool
    socket: int | None
    numa: int | None
    pcie: str | None
    bus_id: str
    uuid: str
    module_id: int | None
    labels: Labels
    vf_groups: tuple[VirtualFunctionGroup, ...]

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
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "type", as_choice(type, "type", TYPES))
        set_field(self, "minor", as_int(minor, "minor", 0, _MOST_ID))
        set_field(self, "amounts", as_amounts(amounts, "amounts", AMOUNTS[self.type]))
        set_field(self, "healthy", as_bool(healthy, "healthy"))
        for name, value in (("socket", socket), ("numa", numa), ("module_id", module_id)):
            number = None if value is None else as_int(value, name, 0, _MOST_ID)
            set_field(self, name, number)
        set_field(self, "pcie", None if pcie is None else as_text(pcie, "pcie"))
        set_field(self, "bus_id", as_text(bus_id, "bus_id"))
        set_field(self, "uuid", as_text(uuid, "uuid"))
        set_field(self, "labels", as_labels(labels, "labels"))
        groups = as_tuple(vf_groups, "vf_groups")
        for group in groups:
            if not isinstance(group, VirtualFunctionGroup):
                kind = group.__class__.__name__
                raise TypeError(f"vf_groups must hold VirtualFunctionGroup, not {kind}")
        set_field(self, "vf_groups", groups)

    def replace(self, **changes: object) -> Self:
        """The same device with other values of some fields."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return self.__class__(**(fields | changes))
