"""Resource slices, which drivers publish, and rules that taint their devices."""

from collections.abc import Mapping
from typing import Any, Self

from hivecore.dra._reading import KubernetesRecord, at_most, distinct_names, only, read
from hivecore.dra.device import Counter, Device, DeviceId, Taint, is_on, places
from hivecore.dra.node import Node, NodeSelector

__all__ = ["CounterSet", "DeviceTaintRule", "ResourcePool", "ResourceSlice", "TaintedDevices"]


class ResourcePool(KubernetesRecord, frozen=True):
    """The pool of a slice.

    :param name: identifies the pool together with the driver.
    :param generation: slices of a newer generation replace all older ones.
    :param resource_slice_count: the number of slices in this generation.
    """

    name: str
    generation: int
    resource_slice_count: int

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: must not be empty")
        if not 0 <= self.generation < 2**63:
            raise ValueError("generation: allowed are 0 to 2**63 - 1")
        if not 0 < self.resource_slice_count < 2**63:
            raise ValueError("resourceSliceCount: allowed are 1 to 2**63 - 1")


class CounterSet(KubernetesRecord, frozen=True):
    """Counters from which devices of the pool consume.

    :param name: unique in the pool.
    :param counters: amounts by name, 1 to 32.
    """

    name: str
    counters: Mapping[str, Counter]

    def __post_init__(self) -> None:
        if not self.counters:
            raise ValueError("counters: must not be empty")
        at_most(32, self.counters, "counters")


class ResourceSlice(KubernetesRecord, frozen=True):
    """A part of a pool of devices.

    At most one of ``node_name``, ``node_selector``, ``all_nodes`` and ``per_device_node_selection``
    is set. If none is, the slice chooses nodes in a way that this release does not know, and is
    skipped.

    :param name: of the object.
    :param driver: publishes the slice; at most 63 characters.
    :param pool: the pool, with its generation.
    :param devices: at most 128, or 64 if any has taints, lists or consumes counters.
    :param shared_counters: at most 8; then there are no devices.

    >>> from hivecore.dra import ResourceSlice
    >>> pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    >>> spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1"}
    >>> spec["devices"] = [{"name": "gpu-0", "attributes": {"model": {"string": "H100"}}}]
    >>> gpus = ResourceSlice.of({"metadata": {"name": "n1-gpus"}, "spec": spec})
    >>> gpus.devices[0].name, gpus.pool.generation
    ('gpu-0', 1)
    """

    name: str
    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a ``ResourceSlice`` object; unknown fields are ignored.

        :raises ValueError: it breaks a rule of Kubernetes. The message names the slice and the
            field's path. Cost: O(size of the object).
        """
        return read(cls, document)

    def __post_init__(self) -> None:
        if not 0 < len(self.driver) <= 63:
            raise ValueError("driver: must have 1 to 63 characters")
        each = self.per_device_node_selection
        chosen = places(self.node_name, self.node_selector, self.all_nodes)
        only({**chosen, "perDeviceNodeSelection": each})
        only({"devices": bool(self.devices), "sharedCounters": bool(self.shared_counters)})
        is_short = len(self.devices) > 64 and any(map(_is_large, self.devices))
        at_most(64 if is_short else 128, self.devices, "devices")
        distinct_names([device.name for device in self.devices], "devices")
        at_most(8, self.shared_counters, "sharedCounters")
        distinct_names([counter_set.name for counter_set in self.shared_counters], "sharedCounters")
        if not each:
            for i, device in enumerate(self.devices):
                for name, is_set in device.node_selection().items():
                    if is_set:
                        needs = "needs perDeviceNodeSelection of the slice"
                        raise ValueError(f"devices[{i}].{name}: {needs}")

    def selects(self, node: Node) -> bool:
        """Whether the slice, or any of its devices, can be used on the node."""
        if self.per_device_node_selection:
            return any(device.is_on(node) for device in self.devices)
        return is_on(node, self.node_name, self.node_selector, self.all_nodes)


def _is_large(device: Device) -> bool:
    return bool(device.taints or device.consumes_counters) or any(
        attribute.is_list for attribute in device.attributes.values()
    )


class TaintedDevices(KubernetesRecord, frozen=True):
    """The devices that a rule taints: those that match all fields that are set."""

    driver: str = ""
    pool: str = ""
    device: str = ""

    def matches(self, device: DeviceId) -> bool:
        """Whether the rule taints the device."""
        wanted = (self.driver, self.pool, self.device)
        return all(not name or name == own for name, own in zip(wanted, device, strict=True))


class DeviceTaintRule(KubernetesRecord, frozen=True):
    """A taint that an administrator adds to devices.

    :param name: of the object.
    :param taint: the taint to add.
    :param device_selector: the devices; ``None`` for none, an empty selector for all.
    """

    name: str
    taint: Taint
    device_selector: TaintedDevices | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a ``DeviceTaintRule`` object; `ValueError` if it is invalid."""
        api = [f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1alpha3")]
        return read(cls, document, api=api)

    def taints(self, device: DeviceId) -> bool:
        """Whether the selector includes the device."""
        return self.device_selector is not None and self.device_selector.matches(device)
