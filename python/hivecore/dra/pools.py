"""The pools of a node: which slices count, whether they are all there, and the devices in order.

Slices of one pool can differ in generation while the driver replaces them, and a node may see only
some of them. A pool is *complete* if its newest generation is, judged by all slices of the cluster;
*invalid* if its slices contradict each other. Devices of other pools are not given.
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

__all__ = ["Pool", "PoolDevice", "gather_pools", "published"]


class PoolDevice(Record, frozen=True):
    """A device that a node can use.

    :param id: driver, pool and name.
    :param device: as the driver publishes it.
    :param taints: its own, then those of rules.
    :param node_name: the node that it is tied to; "": none.
    :param node_selector: the nodes that can use it; ``None``: no selector says so.
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
        """The attribute of a full name; see `Device.attribute`."""
        return self.device.attribute(name, self.id.driver)


class Pool(Record, frozen=True):
    """A pool, as a node sees it.

    :param driver: of the pool.
    :param name: of the pool.
    :param state: "complete", "incomplete" or "invalid".
    :param reason: why it is not complete.
    :param devices: those that the node can use, in the order in which they are tried; of a complete
        pool only.
    :param counter_sets: set -> counter -> amount, of all slices of the pool.
    """

    driver: str
    name: str
    state: Literal["complete", "incomplete", "invalid"]
    reason: str = ""
    devices: tuple[PoolDevice, ...] = ()
    counter_sets: Mapping[str, Mapping[str, Fraction]] = {}

    @property
    def has_binding_conditions(self) -> bool:
        """Whether a device of it has: such pools come after all others."""
        return any(one.device.binding_conditions for one in self.devices)


def gather_pools(
    slices: Iterable[ResourceSlice],
    node: Node,
    features: KubernetesFeatures,
    rules: Iterable[DeviceTaintRule] = (),
) -> tuple[Pool, ...]:
    """The pools that a node can use, in the order in which their devices are tried.

    :param slices: all slices of the cluster, in any order.
    :param node: the node.
    :param features: the gates.
    :param rules: taints that are added to devices, by the rules' names.
    :returns: pools without binding conditions by driver and name, then those with; in each the
        devices by the name of the slice and their place in it. A pool whose newer generation is
        about to replace the one that the node sees is left out.

    Cost: O(devices), and for each rule as much again.

    Source: Kubernetes, ``structured.GatherPools``; devices of other nodes in a slice with
    ``perDeviceNodeSelection`` are left out here, so no selector sees them.
    """
    of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        of_pool.setdefault((one.driver, one.pool.name), []).append(one)
    given = sorted(rules, key=lambda rule: rule.name) if features.has("DRADeviceTaintRules") else []
    pools = [_pool(every, node, features, given) for _, every in sorted(of_pool.items())]
    return tuple(
        sorted([pool for pool in pools if pool], key=lambda pool: pool.has_binding_conditions)
    )


def published(slices: Iterable[ResourceSlice]) -> dict[DeviceId, Device]:
    """The devices of the newest generation of each pool, on whichever node they are."""
    newest: dict[tuple[str, str], int] = {}
    given = list(slices)
    for one in given:
        key = one.driver, one.pool.name
        newest[key] = max(newest.get(key, 0), one.pool.generation)
    return {
        DeviceId(one.driver, one.pool.name, device.name): device
        for one in given
        if one.pool.generation == newest[one.driver, one.pool.name]
        for device in one.devices
    }


def _pool(
    every: list[ResourceSlice],
    node: Node,
    features: KubernetesFeatures,
    rules: list[DeviceTaintRule],
) -> Pool | None:
    """The pool that a node sees in all slices of its name; ``None``: nothing of it is there."""
    partitions = features.has("DRAPartitionableDevices")
    here = [
        one
        for one in every
        if one.selects(node)
        and (partitions or not (one.per_device_node_selection or one.shared_counters))
    ]
    if not here:
        return None
    generation = max(one.pool.generation for one in here)
    here = sorted(
        [one for one in here if one.pool.generation == generation], key=lambda one: one.name
    )
    driver, pool = here[0].driver, here[0].pool
    whole = here
    if len(here) != pool.resource_slice_count:
        if any(one.pool.generation > generation for one in every):
            return None
        whole = [one for one in every if one.pool.generation == generation]
        if len(whole) != pool.resource_slice_count:
            reason = f"{len(whole)} of {pool.resource_slice_count} slices"
            return Pool(driver, pool.name, "incomplete", reason)
    reason = _contradiction(here, whole, partitions)
    if reason:
        return Pool(driver, pool.name, "invalid", reason)
    devices = [
        _pool_device(one, device, rules)
        for one in here
        for device in one.devices
        if not one.per_device_node_selection or device.is_on(node)
    ]
    return Pool(driver, pool.name, "complete", "", tuple(devices), _counter_sets(whole))


def _pool_device(of: ResourceSlice, device: Device, rules: list[DeviceTaintRule]) -> PoolDevice:
    own = DeviceId(of.driver, of.pool.name, device.name)
    taints = (*device.taints, *(rule.taint for rule in rules if rule.taints(own)))
    place = device if of.per_device_node_selection else of
    return PoolDevice(own, device, taints, place.node_name, place.node_selector)


def _counter_sets(slices: list[ResourceSlice]) -> dict[str, dict[str, Fraction]]:
    return {
        one.name: {name: counter.value for name, counter in one.counters.items()}
        for each in slices
        for one in each.shared_counters
    }


def _contradiction(here: list[ResourceSlice], whole: list[ResourceSlice], partitions: bool) -> str:
    """What is wrong in the slices of a pool; "": nothing."""
    names = Tally(device.name for one in here for device in one.devices)
    for name, times in names.items():
        if times > 1:
            return f"device {name!r} is published {times} times"
    if not partitions:
        return ""
    sets = Tally(of.name for one in whole for of in one.shared_counters)
    for name, times in sets.items():
        if times > 1:
            return f"counter set {name!r} is published {times} times"
    counters = _counter_sets(whole)
    for one in whole:
        for device in one.devices:
            for consumed in device.consumes_counters:
                if consumed.counter_set not in counters:
                    return f"device {device.name!r}: no counter set {consumed.counter_set!r}"
                for name in consumed.counters:
                    if name not in counters[consumed.counter_set]:
                        at = f"counter set {consumed.counter_set!r}"
                        return f"device {device.name!r}: no counter {name!r} in {at}"
    return ""
