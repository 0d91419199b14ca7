"""The pools that a node can use: current slices, completeness, and devices in order.

While a driver replaces a pool's slices they may differ in generation, and a node may see only some
of them. A pool is *complete* if all slices of its newest generation exist in the cluster, and
*invalid* if they contradict each other. Only devices of complete pools are allocated.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal

from hivecore._record import Record
from hivecore.dra.attribute import Attribute
from hivecore.dra.device import Device, DeviceId, Taint
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.node import Node, NodeSelector
from hivecore.dra.resource_slice import DeviceTaintRule, ResourceSlice

__all__ = ["Pool", "PoolDevice", "gather_pools", "newest", "published"]


class PoolDevice(Record, frozen=True):
    """A device that a node can use.

    :param id: driver, pool and name.
    :param device: as published by the driver.
    :param taints: its own, then those of rules.
    :param node_name: the node that it is tied to, or "".
    :param node_selector: the nodes that can use it, if a selector says so.
    """

    id: DeviceId
    device: Device
    taints: tuple[Taint, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None

    @property
    def driver(self) -> str:
        """The driver."""
        return self.id.driver

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute with a full name; see `Device.attribute`."""
        return self.device.attribute(name, self.id.driver)


class Pool(Record, frozen=True):
    """A pool, as a node sees it.

    :param driver: of the pool.
    :param name: of the pool.
    :param state: "complete", "incomplete" or "invalid".
    :param reason: why it is not complete.
    :param devices: usable on the node, in the order in which they are tried; empty unless complete.
    :param counter_sets: set -> counter -> amount, from all slices of the pool.
    """

    driver: str
    name: str
    state: Literal["complete", "incomplete", "invalid"]
    reason: str = ""
    devices: tuple[PoolDevice, ...] = ()
    counter_sets: Mapping[str, Mapping[str, Fraction]] = {}

    @property
    def has_binding_conditions(self) -> bool:
        """Whether any device has binding conditions, which puts the pool behind all others."""
        return any(device.device.binding_conditions for device in self.devices)


def gather_pools(
    slices: Iterable[ResourceSlice],
    node: Node,
    features: KubernetesFeatures,
    rules: Iterable[DeviceTaintRule] = (),
) -> tuple[Pool, ...]:
    """Return the pools that a node can use, in the order in which their devices are tried.

    :param slices: all slices of the cluster, in any order.
    :param node: the node.
    :param features: the feature gates.
    :param rules: add taints to devices, in the order of their names.
    :returns: by driver and name, pools with binding conditions last; devices by slice name and
        position. A pool is left out if a newer generation is replacing the one that the node sees.

    Cost: O(devices), once more for each rule.

    Source: Kubernetes, ``structured.GatherPools``. Unlike there, other nodes' devices in a slice
    with ``perDeviceNodeSelection`` are left out, so no selector sees them.
    """
    of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for part in slices:
        of_pool.setdefault((part.driver, part.pool.name), []).append(part)
    given = sorted(rules, key=lambda rule: rule.name) if features.has("DRADeviceTaintRules") else []
    pools = [_pool(every, node, features, given) for _, every in sorted(of_pool.items())]
    return tuple(
        sorted([pool for pool in pools if pool], key=lambda pool: pool.has_binding_conditions)
    )


def published(slices: Iterable[ResourceSlice]) -> dict[DeviceId, Device]:
    """Return the devices of each pool's newest generation, on all nodes."""
    return {
        DeviceId(part.driver, part.pool.name, device.name): device
        for part in newest(slices)
        for device in part.devices
    }


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of each pool's newest generation."""
    generations: dict[tuple[str, str], int] = {}
    given = list(slices)
    for part in given:
        key = part.driver, part.pool.name
        generations[key] = max(generations.get(key, 0), part.pool.generation)
    return [
        part for part in given if part.pool.generation == generations[part.driver, part.pool.name]
    ]


def _pool(
    every: list[ResourceSlice],
    node: Node,
    features: KubernetesFeatures,
    rules: list[DeviceTaintRule],
) -> Pool | None:
    """Return the pool that a node sees in all slices of its name; ``None`` if it sees none."""
    partitions = features.has("DRAPartitionableDevices")
    here = [
        part
        for part in every
        if part.selects(node)
        and (partitions or not (part.per_device_node_selection or part.shared_counters))
    ]
    if not here:
        return None
    generation = max(part.pool.generation for part in here)
    here = sorted(
        [part for part in here if part.pool.generation == generation], key=lambda part: part.name
    )
    driver, pool = here[0].driver, here[0].pool
    whole = here
    if len(here) != pool.resource_slice_count:
        if any(part.pool.generation > generation for part in every):
            return None
        whole = [part for part in every if part.pool.generation == generation]
        if len(whole) != pool.resource_slice_count:
            reason = f"{len(whole)} of {pool.resource_slice_count} slices"
            return Pool(driver, pool.name, "incomplete", reason)
    reason = _contradiction(here, whole, partitions)
    if reason:
        return Pool(driver, pool.name, "invalid", reason)
    devices = [
        _pool_device(part, device, rules)
        for part in here
        for device in part.devices
        if not part.per_device_node_selection or device.is_on(node)
    ]
    return Pool(driver, pool.name, "complete", "", tuple(devices), _counter_sets(whole))


def _pool_device(of: ResourceSlice, device: Device, rules: list[DeviceTaintRule]) -> PoolDevice:
    own = DeviceId(of.driver, of.pool.name, device.name)
    taints = (*device.taints, *(rule.taint for rule in rules if rule.taints(own)))
    place = device if of.per_device_node_selection else of
    return PoolDevice(own, device, taints, place.node_name, place.node_selector)


def _counter_sets(slices: list[ResourceSlice]) -> dict[str, dict[str, Fraction]]:
    return {
        counter_set.name: {name: counter.value for name, counter in counter_set.counters.items()}
        for each in slices
        for counter_set in each.shared_counters
    }


def _contradiction(here: list[ResourceSlice], whole: list[ResourceSlice], partitions: bool) -> str:
    """Return what is contradictory in a pool's slices, or ""."""
    names = Tally(device.name for part in here for device in part.devices)
    for name, times in names.items():
        if times > 1:
            return f"device {name!r} is published {times} times"
    if not partitions:
        return ""
    sets = Tally(of.name for part in whole for of in part.shared_counters)
    for name, times in sets.items():
        if times > 1:
            return f"counter set {name!r} is published {times} times"
    counters = _counter_sets(whole)
    for part in whole:
        for device in part.devices:
            for consumed in device.consumes_counters:
                if consumed.counter_set not in counters:
                    return f"device {device.name!r}: no counter set {consumed.counter_set!r}"
                for name in consumed.counters:
                    if name not in counters[consumed.counter_set]:
                        at = f"counter set {consumed.counter_set!r}"
                        return f"device {device.name!r}: no counter {name!r} in {at}"
    return ""
