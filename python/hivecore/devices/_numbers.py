"""Names of a cluster's devices as the kernel's numbers, and back."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from hivecore import _devices
from hivecore.devices._pairs import Labels
from hivecore.devices.device import AMOUNTS, TYPES, Device, VirtualFunction
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import SCOPES, DeviceNeed, DeviceRequest
from hivecore.devices.gpu_links import LINKS, is_linked
from hivecore.devices.label_expression import LabelExpression, Selector
from hivecore.devices.node_devices import NodeDevices

__all__ = ["EXCLUSIVE", "Masks", "Numbers", "healthy_masks"]

EXCLUSIVE: tuple[Literal["device", "pcie"] | None, ...] = (None, "device", "pcie")
_PARTITION = (None, "best-effort", "restricted")
_WIDTH = max(map(len, AMOUNTS.values()))  # the kernel has one width for all types
_TYPE_NUMBERS = {type: i for i, type in enumerate(TYPES)}

#: For each type the set of some devices by their positions, as bits of an int.
Masks = tuple[int, ...]


class Numbers:
    """The numbers of labels, bus addresses, isolation providers and the like, in the order of
    appearance.
    """

    def __init__(self) -> None:
        self.labels: dict[tuple[str, str | None], int] = {}  # a value that is None: the key
        self.providers: dict[str, int] = {"": 0}
        self.models: dict[str, int] = {}
        self.functions: dict[str, int] = {}
        self.function_names: list[str] = []
        self.templates: dict[str, int] = {}
        self.template_names: list[str] = []

    def copy(self) -> "Numbers":
        """An independent equal."""
        other = Numbers()
        for name, known in vars(self).items():
            setattr(other, name, known.copy())
        return other

    def shape(self, inventory: NodeDevices) -> tuple[Any, ...]:
        """The arguments of ``DeviceKernel.add_shape``, equal for nodes that differ in health and in
        names that no decision depends on.
        """
        places: dict[tuple[str, Any], int] = {}
        counts = dict.fromkeys(("pcie", "numa", "socket"), 0)

        def number(kind: str, place: Any) -> int:
            if place is None:
                return -1
            if (kind, place) not in places:
                places[kind, place] = counts[kind]
                counts[kind] += 1
            return places[kind, place]

        devices = tuple(
            self.device(
                device,
                number("socket", device.socket),
                number("numa", device.numa),
                number("pcie", device.pcie),
            )
            for device in inventory.devices
        )
        position = {gpu.minor: i for i, gpu in enumerate(inventory.of_type("gpu"))}
        partitions = tuple(
            (
                sum(1 << position[minor] for minor in row.members),
                row.score,
                -1 if row.bandwidth is None else row.bandwidth,
                sum(is_linked(row, wish) for wish in LINKS[1:]),
            )
            for row in (inventory.partition_rows() if inventory.links is None else ())
        )
        honor = inventory.partition_policy == "honor"
        provider = self.provider(inventory.isolation_provider)
        model = self.model(inventory.model)
        links = inventory.links and tuple(
            [inventory.links.count(gpu, other) for gpu in position for other in position]
        )
        return devices, partitions, honor, provider, model, self.sharing(inventory), links

    def sharing(self, inventory: NodeDevices) -> tuple[Any, ...] | None:
        """How its GPUs may be shared; None: in any way."""
        shares = inventory.templates
        if shares is None:
            return None if inventory.shareable else (False, (), ())
        rows = tuple(
            (self._template(template.name), _in_order(template.amounts, "gpu"))
            for template in shares.templates
        )
        matched = tuple(AMOUNTS["gpu"].index(name) for name in shares.matched)
        return inventory.shareable, matched, rows

    def device(self, device: Device, socket: int, numa: int, pcie: int) -> tuple[Any, ...]:
        """A device in these places."""
        return (
            _TYPE_NUMBERS[device.type],
            device.minor,
            _in_order(device.amounts, device.type),
            socket,
            numa,
            pcie,
            self._labels(device.labels),
            self._functions(device),
            tuple(self._labels(group.labels) for group in device.vf_groups),
        )

    def query(self, request: DeviceRequest) -> Any:
        """The request in numbers, with room for its answers."""
        types = [need.type for need in request.needs]
        return _devices.Query(
            [self._need(need) for need in request.needs],
            [types.index(type) for type in request.joint],
            request.same_pcie,
            _PARTITION.index(request.partition),
            -1 if request.bandwidth is None else request.bandwidth,
            self.provider(request.isolation_provider),
            [self.model(model) for model in request.models],
            LINKS.index(request.links),
        )

    def charges(self, allocations: Iterable[DeviceAllocation]) -> list[tuple[Any, ...]]:
        """What an owner has, in numbers."""
        return [
            (
                _TYPE_NUMBERS[allocation.type],
                allocation.minor,
                _in_order(allocation.amounts, allocation.type),
                -1 if allocation.function is None else self._function(allocation.function.bus_id),
                EXCLUSIVE.index(allocation.exclusive),
                self._template(allocation.template) if allocation.template else -1,
            )
            for allocation in allocations
        ]

    def allocations(
        self, charges: Iterable[tuple[Any, ...]], inventory: NodeDevices | None
    ) -> tuple[DeviceAllocation, ...]:
        """What an owner has, in names; the inventory knows the numbers of virtual functions."""
        allocations = []
        for type, minor, amounts, function, exclusive, template in charges:
            name = TYPES[type]
            vf = None if function < 0 else self._named(function, name, minor, inventory)
            share = "" if template < 0 else self.template_names[template]
            allocations.append(_allocation(name, minor, tuple(amounts), vf, exclusive, share))
        return tuple(allocations)

    def _named(
        self, function: int, type: str, minor: int, inventory: NodeDevices | None
    ) -> VirtualFunction:
        name = self.function_names[function]
        for device in () if inventory is None else inventory.of_type(type):
            if device.minor == minor:
                for group in device.vf_groups:
                    for member in group.functions:
                        if member.bus_id == name:
                            return member
        return VirtualFunction(name)

    def _need(self, need: DeviceNeed) -> tuple[Any, ...]:
        functions = None if need.vf_selector is None else self._selector(need.vf_selector)
        return (
            _TYPE_NUMBERS[need.type],
            need.count,
            need.every,
            _in_order(need.amounts, need.type),
            self._selector(need.selector),
            functions,
            EXCLUSIVE.index(need.exclusive),
            SCOPES.index(need.scope or "node"),
            -1 if need.preferred_scope is None else SCOPES.index(need.preferred_scope),
            need.repeat,
        )

    def _labels(self, labels: Labels) -> tuple[int, ...]:
        """What has these labels: numbers of the labels and of their keys, ascending."""
        keys = [(key, None) for key, _ in labels]
        return tuple(sorted(self._label(*label) for label in (*labels, *keys)))

    def _label(self, key: str, value: str | None) -> int:
        return self.labels.setdefault((key, value), len(self.labels))

    def _selector(self, selector: Selector) -> tuple[tuple[tuple[int, ...], bool], ...]:
        """For each rule numbers of which a device must have one, or none if it is negative."""
        return tuple(self._rule(rule) for rule in selector)

    def _rule(self, rule: tuple[str, str] | LabelExpression) -> tuple[tuple[int, ...], bool]:
        if not isinstance(rule, LabelExpression):
            return (self._label(*rule),), False
        values = rule.values or (None,)  # without any it is about the key
        numbers = tuple(self._label(rule.key, value) for value in values)
        return numbers, rule.operator in ("NotIn", "DoesNotExist")

    def provider(self, name: str) -> int:
        """The number of an isolation provider."""
        return self.providers.setdefault(name, len(self.providers))

    def model(self, name: str) -> int:
        """The number of a model of GPUs."""
        return self.models.setdefault(name, len(self.models))

    def _function(self, bus_id: str) -> int:
        number = self.functions.get(bus_id)
        if number is None:
            number = self.functions[bus_id] = len(self.function_names)
            self.function_names.append(bus_id)
        return number

    def _template(self, name: str) -> int:
        number = self.templates.get(name)
        if number is None:
            number = self.templates[name] = len(self.template_names)
            self.template_names.append(name)
        return number

    def _functions(self, device: Device) -> tuple[tuple[int, int], ...]:
        functions = sorted(
            (function.bus_id, i)
            for i, group in enumerate(device.vf_groups)
            for function in group.functions
        )
        return tuple((self._function(bus_id), group) for bus_id, group in functions)


def _in_order(amounts: tuple[tuple[str, int], ...], type: str) -> tuple[int, ...]:
    given = dict(amounts)
    numbers = [given.get(name, 0) for name in AMOUNTS[type]]
    return tuple(numbers + [0] * (_WIDTH - len(numbers)))


def healthy_masks(inventory: NodeDevices) -> Masks:
    """Which devices of each type are healthy."""
    masks = []
    for type in TYPES:
        healthy = enumerate(device.healthy for device in inventory.of_type(type))
        masks.append(sum(1 << i for i, is_healthy in healthy if is_healthy))
    return tuple(masks)


@lru_cache(2**14)  # nodes are alike, and so are their GPUs
def _allocation(
    type: str,
    minor: int,
    amounts: tuple[int, ...],
    function: VirtualFunction | None,
    exclusive: int,
    template: str,
) -> DeviceAllocation:
    given = dict(zip(AMOUNTS[type], amounts, strict=False))
    return DeviceAllocation(type, minor, given, function, EXCLUSIVE[exclusive], template)
