"""The inventory of one node: its devices, and what holds for all of them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hivecore._arguments import as_int, tuple_of
from hivecore._quantities import as_units
from hivecore._record import Record
from hivecore.devices._pairs import MOST
from hivecore.devices.device import (
    MOST_DEVICES,
    TYPES,
    Device,
    VirtualFunctionGroup,
    as_type,
    share_of_memory,
)
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.gpu_links import MOST_LINKED, GpuLinks, LinksWish, is_linked
from hivecore.devices.partition_table import Partition, PartitionTable
from hivecore.devices.share_templates import ShareTemplates

__all__ = ["NodeDevices"]

_KNOWN_MODELS = ("H100", "H800", "H20")  # Koordinator's list


def _as_devices(value: Any, name: str) -> tuple[Device, ...]:
    given = tuple_of(value, name, Device)
    devices = tuple(sorted(given, key=lambda device: (TYPES.index(device.type), device.minor)))
    _check_numbers(devices)
    _check_places(devices)
    return devices


class NodeDevices(Record, frozen=True):
    """All devices of a node.

    :param devices: the devices, in any order; kept by type and minor. At most 256 of each type, and
        one host.
    :param partitions: which sets of GPUs the fabric can join. A partition of which a GPU is missing
        here cannot be used. ``None``: the table of the model if it is H100, H800 or H20 (in module
        ids if all GPUs say theirs, else in minors), otherwise there is none.
    :param partition_policy: "honor": whole GPUs are always one partition; "prefer": if there is a
        free one.
    :param secondary_well_planned: what Koordinator's record of the node says; no choice depends on
        it.
    :param vendor: of the GPUs; "": not known.
    :param model: of the GPUs; "": not known.
    :param isolation_provider: what keeps pods apart that share a GPU; "": nothing.
    :param templates: the shares that its GPUs can be cut into; ``None``: any.
    :param shareable: whether its GPUs give shares at all; if not, they are given whole.
    :param links: between its GPUs, of which there are 16 at most then, instead of ``partitions``:
        each set of them that links join is a partition, and the better the more links it has.
    :raises ValueError: two devices of a type have the same minor, two GPUs the same module id, two
        virtual functions the same bus address, one PCIe switch is in two NUMA nodes or sockets, one
        NUMA node is in two sockets, there are too many devices, or both partitions and links.
    :raises TypeError: an argument is of a wrong type.
    """

    devices: Annotated[tuple[Device, ...], _as_devices]
    partitions: PartitionTable | None = None
    partition_policy: Literal["honor", "prefer"] = "prefer"
    secondary_well_planned: bool = False
    vendor: str = ""
    model: str = ""
    isolation_provider: str = ""
    templates: ShareTemplates | None = None
    shareable: bool = True
    links: GpuLinks | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            devices: Iterable[Device],
            partitions: PartitionTable | None = None,
            partition_policy: Literal["honor", "prefer"] = "prefer",
            secondary_well_planned: bool = False,
            vendor: str = "",
            model: str = "",
            isolation_provider: str = "",
            templates: ShareTemplates | None = None,
            shareable: bool = True,
            links: GpuLinks | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.links is not None:
            if self.partitions is not None:
                raise ValueError("partitions, links: a node has either")
            as_int(len(self.of_type("gpu")), "links: number of GPUs", 0, MOST_LINKED)

    def of_type(self, type: str) -> tuple[Device, ...]:
        """The devices of one type, by minor."""
        type = as_type(type, "type")
        return tuple(device for device in self.devices if device.type == type)

    @classmethod
    def uniform(
        cls,
        gpus: int = 0,
        *,
        gpu_memory: int | str = 80 << 30,
        gpu_reserved: int | str = 0,
        nics: int = 0,
        functions: int = 0,
        sockets: int = 1,
        switches: int = 1,
        model: str = "",
    ) -> "NodeDevices":
        """A machine whose devices are spread evenly over its sockets and PCIe switches.

        :param gpus: number of GPUs, 0 to 256.
        :param gpu_memory: bytes of each, also as "80Gi".
        :param gpu_reserved: bytes of each that its driver keeps, less than ``gpu_memory``: no pod
            gets them, and percentages are of the rest.
        :param nics: number of NICs, 0 to 256.
        :param functions: number of virtual functions of each NIC, 0 to 256.
        :param sockets: number of sockets, each of which is one NUMA node.
        :param switches: number of PCIe switches, a multiple of ``sockets``. If there are fewer
            than ``sockets``, each socket gets one.
        :param model: of the GPUs.
        :raises ValueError: a number is out of range, or ``switches`` is above ``sockets`` and no
            multiple of it.
        """
        gpus = as_int(gpus, "gpus", 0, MOST_DEVICES)
        nics = as_int(nics, "nics", 0, MOST_DEVICES)
        functions = as_int(functions, "functions", 0, MOST_DEVICES)
        sockets = as_int(sockets, "sockets", 1, MOST_DEVICES)
        switches = as_int(switches, "switches", 1, MOST_DEVICES)
        switches = max(switches, sockets)
        if switches % sockets:
            raise ValueError(f"switches={switches}: must be a multiple of sockets={sockets}")

        def place(i: int, of: int) -> dict[str, Any]:
            switch = i * switches // of
            socket = switch * sockets // switches
            return {"pcie": str(switch), "numa": socket, "socket": socket}

        most = as_units(gpu_memory, "gpu_memory", 0, MOST)
        kept = as_units(gpu_reserved, "gpu_reserved", 0, max(0, most - 1))
        amounts = {"core": 100, "memory": most - kept, "memory_ratio": 100}
        devices = [Device("gpu", i, amounts, **place(i, gpus)) for i in range(gpus)]
        for i in range(nics):
            names = [f"{i:03}:{function:03}" for function in range(functions)]
            groups = [VirtualFunctionGroup(names)] if names else []
            devices.append(Device("rdma", i, {"share": 100}, vf_groups=groups, **place(i, nics)))
        return cls(tuple(devices), model=model)

    def with_health(self, meant: Iterable[Device], healthy: bool) -> "NodeDevices":
        """The same inventory with some of its devices healthy, or unhealthy.

        :param meant: the devices, found by type and minor; others than those here are ignored.
        :param healthy: their new state.
        """
        changed = {(device.type, device.minor) for device in meant}
        devices = tuple(
            device.replace(healthy=healthy) if (device.type, device.minor) in changed else device
            for device in self.devices
        )
        return self.replace(devices=devices)

    def in_bytes(self, allocations: Iterable[DeviceAllocation]) -> tuple[DeviceAllocation, ...]:
        """The allocations with GPU memory in bytes, rounded down, instead of a percentage.

        A GPU keeps the percentage if its memory is not known here.
        """
        memory = {
            gpu.minor: dict(gpu.amounts)["memory"]
            for gpu in self.of_type("gpu")
            if "memory" in dict(gpu.amounts)
        }
        converted = []
        for allocation in allocations:
            amounts = dict(allocation.amounts)
            if (
                allocation.type == "gpu"
                and allocation.minor in memory
                and "memory_ratio" in amounts
            ):
                share = share_of_memory(amounts.pop("memory_ratio"), memory[allocation.minor])
                amounts.setdefault("memory", share)
                allocation = DeviceAllocation(
                    "gpu",
                    allocation.minor,
                    amounts,
                    allocation.function,
                    allocation.exclusive,
                    allocation.template,
                )
            converted.append(allocation)
        return tuple(converted)

    def partitions_of(
        self, count: int, links: LinksWish | None = None, is_asked: bool = False
    ) -> tuple[Partition, ...]:
        """The partitions of so many GPUs that will do, in minors.

        :param links: how their GPUs have to be linked at least.
        :param is_asked: whether it has to be a partition; where links are known, it is then one
            only if they join it.
        """
        if self.links is None:
            rows = tuple(row for row in self.partition_rows() if len(row.members) == count)
        else:
            rows = self.links.partitions([gpu.minor for gpu in self.of_type("gpu")], count)
            links = links or ("island" if is_asked else None)
        return rows if links is None else tuple(row for row in rows if is_linked(row, links))

    def partition_rows(self) -> tuple[Partition, ...]:
        """The partitions whose GPUs are all here, in minors; the order is the table's."""
        gpus = self.of_type("gpu")
        if self.links is not None:
            sizes = range(1, len(gpus) + 1)
            return tuple(row for size in sizes for row in self.partitions_of(size))
        table = self.partitions
        if table is None:
            if self.vendor not in ("", "nvidia") or self.model not in _KNOWN_MODELS:
                return ()
            placed = all(gpu.module_id is not None for gpu in gpus)
            table = PartitionTable.of_model(self.model, "module" if placed else "minor")
        by_module = table.numbers == "module"
        minors = {gpu.module_id if by_module else gpu.minor: gpu.minor for gpu in gpus}
        return tuple(
            Partition(
                tuple(minors[number] for number in row.members), row.score, row.bandwidth, row.link
            )
            for row in table.partitions
            if all(number in minors for number in row.members)
        )


def _check_numbers(devices: tuple[Device, ...]) -> None:
    for type in TYPES:
        minors = [device.minor for device in devices if device.type == type]
        most = 1 if type == "host" else MOST_DEVICES
        if len(minors) > most:
            raise ValueError(f"devices: {len(minors)} of type {type!r}, allowed are {most}")
        _check_distinct(minors, f"minor of type {type!r}")
    modules = [
        device.module_id
        for device in devices
        if device.type == "gpu" and device.module_id is not None
    ]
    _check_distinct(modules, "module_id")
    functions = [
        function.bus_id
        for device in devices
        for group in device.vf_groups
        for function in group.functions
    ]
    _check_distinct(functions, "bus_id of a virtual function")


def _check_distinct(values: Iterable[object], what: str) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"devices: two have the {what} {value!r}")
        seen.add(value)


def _check_places(devices: tuple[Device, ...]) -> None:
    """Switches are inside of NUMA nodes, and these inside of sockets."""
    for inner, outer in (("pcie", "numa"), ("pcie", "socket"), ("numa", "socket")):
        outer_of: dict[object, object] = {}
        for device in devices:
            place = getattr(device, inner)
            if place is not None:
                around = getattr(device, outer)
                other = outer_of.setdefault(place, around)
                if other != around:
                    raise ValueError(
                        f"devices: {inner} {place!r} is in {outer} {other!r} and {around!r}"
                    )
