"""Devices: attributes, divisible capacities, counters, taints and tolerations."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from hivecore._arguments import show
from hivecore.dra._reading import KubernetesRecord, at_most, distinct_names, only
from hivecore.dra.attribute import Attribute
from hivecore.dra.node import Node, NodeSelector

__all__ = [
    "Capacity",
    "CapacityPolicy",
    "CapacityRange",
    "Counter",
    "CounterConsumption",
    "Device",
    "DeviceId",
    "Taint",
    "Toleration",
    "is_on",
    "places",
]

_Effect: TypeAlias = Literal["NoSchedule", "NoExecute", "None"]


class DeviceId(NamedTuple):
    """A device of the cluster; pools of different drivers may have the same name."""

    driver: str
    pool: str
    device: str


class Counter(KubernetesRecord, frozen=True):
    """An amount of something that devices share.

    :param value: exact; not negative.
    """

    value: Fraction


class CounterConsumption(KubernetesRecord, frozen=True):
    """What a device takes from a counter set of its pool while it is in use.

    :param counter_set: the name of the set.
    :param counters: counter -> amount, 1 to 32.
    :param compatibility_groups: devices on a counter set must have a group in common; those without
        groups only fit with each other.
    """

    counter_set: str
    counters: Mapping[str, Counter]
    compatibility_groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.counter_set:
            raise ValueError("counterSet: must not be empty")
        if not self.counters:
            raise ValueError("counters: must not be empty")
        at_most(32, self.counters, "counters")


class CapacityRange(KubernetesRecord, frozen=True):
    """The amounts that a request may consume: ``min``, ``min + step``, ..., at most ``max``."""

    min: Fraction
    max: Fraction | None = None
    step: Fraction | None = None

    def __post_init__(self) -> None:
        if self.step == 0:
            raise ValueError("step: must be positive")
        if self.max is not None:
            self.check(self.max, "max")

    def check(self, amount: Fraction, path: str) -> None:
        """Raise `ValueError` unless the amount is a step in the range."""
        if amount < self.min or (self.max is not None and amount > self.max):
            raise ValueError(f"{path}: not between min and max")
        if self.step is not None and (amount - self.min) % self.step:
            raise ValueError(f"{path}: not a whole number of steps from min")


class CapacityPolicy(KubernetesRecord, frozen=True):
    """How a shareable device's capacity is divided.

    :param default: what a request consumes that does not name the capacity.
    :param valid_values: amounts that requests may consume, ascending; at most 10.
    :param valid_range: the same as a range.
    """

    default: Fraction | None = None
    valid_values: tuple[Fraction, ...] = ()
    valid_range: CapacityRange | None = None

    def __post_init__(self) -> None:
        only({"validValues": bool(self.valid_values), "validRange": self.valid_range is not None})
        at_most(10, self.valid_values, "validValues")
        for i in range(1, len(self.valid_values)):
            if self.valid_values[i - 1] >= self.valid_values[i]:
                raise ValueError(f"validValues[{i}]: not above the value before it")
        if self.default is None:
            if self.valid_values or self.valid_range:
                raise ValueError("default: must be set beside validValues or validRange")
        elif self.valid_values and self.default not in self.valid_values:
            raise ValueError("default: not among validValues")
        elif self.valid_range is not None:
            self.valid_range.check(self.default, "default")


class Capacity(KubernetesRecord, frozen=True):
    """A capacity of a device.

    :param value: exact; not negative.
    :param request_policy: how it is divided; only for shareable devices.
    """

    value: Fraction
    request_policy: CapacityPolicy | None = None

    def __post_init__(self) -> None:
        policy = self.request_policy
        if policy is None:
            return
        amounts = {
            "default": policy.default or 0,
            "validValues": max(policy.valid_values, default=0),
        }
        if (of := policy.valid_range) is not None:
            amounts["validRange.min"], amounts["validRange.max"] = of.min, of.max or 0
            amounts["validRange.step"] = of.min + (of.step or 0)
        for name, amount in amounts.items():
            if amount > self.value:
                raise ValueError(f"requestPolicy.{name}: exceeds the capacity")


class Taint(KubernetesRecord, frozen=True):
    """A reason not to use a device, unless a request tolerates it.

    :param key: its name.
    :param effect: "NoSchedule" and "NoExecute" keep requests away, "None" does not.
    :param value: details.
    """

    key: str
    effect: _Effect
    value: str = ""


class Toleration(KubernetesRecord, frozen=True):
    """The taints that a request tolerates: those that match all fields.

    :param key: of the taint; "" for any, with operator "Exists".
    :param operator: "Equal" or "" compares the value, "Exists" does not.
    :param value: of the taint; "" with operator "Exists".
    :param effect: of the taint; "" for any.
    :param toleration_seconds: how long a device with "NoExecute" is kept; only copied.
    :raises ValueError: the operator does not suit the key or the value.
    """

    key: str = ""
    operator: Literal["Equal", "Exists", ""] = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def __post_init__(self) -> None:
        if not self.key and self.operator != "Exists":
            raise ValueError("operator: must be Exists if there is no key")
        if self.operator == "Exists" and self.value:
            raise ValueError("value: must be empty if the operator is Exists")


class Device(KubernetesRecord, frozen=True):
    """A device as its driver publishes it.

    :param name: unique in the pool.
    :param attributes: by name, with or without a domain.
    :param capacity: by name.
    :param consumes_counters: at most 2, of different counter sets.
    :param node_name: its node, if the slice leaves that to each device; alternatively
        ``node_selector`` or ``all_nodes``.
    :param taints: at most 16.
    :param binds_to_node: whether an allocation ties the claim to the node.
    :param binding_conditions: must become true before a pod is bound; at most 4.
    :param binding_failure_conditions: end the wait for those; at most 4.
    :param allow_multiple_allocations: whether claims may share its capacities.
    :raises ValueError: a field exceeds its limit, or fields contradict each other.
    """

    name: str
    attributes: Mapping[str, Attribute] = {}
    capacity: Mapping[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: must not be empty")
        if len(self.attributes) + len(self.capacity) > 32:
            raise ValueError("attributes: with the capacities more than 32 entries")
        lists = any(attribute.is_list for attribute in self.attributes.values())
        if lists and sum(len(attribute.values) for attribute in self.attributes.values()) > 48:
            raise ValueError("attributes: more than 48 values")
        if not self.allow_multiple_allocations:
            for name, capacity in self.capacity.items():
                if capacity.request_policy is not None:
                    path = f"capacity[{show(name)}].requestPolicy"
                    raise ValueError(f"{path}: the device does not allow multiple allocations")
        if self.consumes_counters:
            at_most(2, self.consumes_counters, "consumesCounters")
            sets = [consumption.counter_set for consumption in self.consumes_counters]
            distinct_names(sets, "consumesCounters", ".counterSet")
        at_most(16, self.taints, "taints")
        only(self.node_selection())
        if self.binding_conditions or self.binding_failure_conditions:
            self._check_conditions()

    def _check_conditions(self) -> None:
        both = ("bindingConditions", "bindingFailureConditions")
        given = (self.binding_conditions, self.binding_failure_conditions)
        for name, conditions in zip(both, given, strict=True):
            if not conditions:
                raise ValueError(f"{name}: must be set if the other conditions are")
            at_most(4, conditions, name)
            distinct_names(conditions, name, "")
        for i, condition in enumerate(self.binding_failure_conditions):
            if condition in self.binding_conditions:
                raise ValueError(f"bindingFailureConditions[{i}]: is among bindingConditions, too")

    def node_selection(self) -> dict[str, bool]:
        """Return which of the fields that choose nodes are set."""
        return places(self.node_name, self.node_selector, self.all_nodes)

    def is_on(self, node: Node) -> bool:
        """Whether the device itself names this node."""
        return is_on(node, self.node_name, self.node_selector, self.all_nodes)

    def attribute(self, name: str, driver: str) -> Attribute | None:
        """Return the attribute with a full name, such as ``gpu.example.com/model``, or ``None``.

        :param driver: the domain of attributes that are named without one. An attribute that
            has the full name takes precedence.

        >>> from hivecore.dra import Attribute, Device
        >>> device = Device("gpu-0", {"model": Attribute(string="H100")})
        >>> device.attribute("gpu.example.com/model", "gpu.example.com").value
        'H100'
        """
        domain, _, short = name.partition("/")
        attribute = self.attributes.get(name)
        return self.attributes.get(short) if attribute is None and domain == driver else attribute


def places(name: str, selector: NodeSelector | None, every: bool) -> dict[str, bool]:
    """Return which node-choosing fields of a slice or a device are set."""
    return {"nodeName": bool(name), "nodeSelector": selector is not None, "allNodes": every}


def is_on(node: Node, name: str, selector: NodeSelector | None, every: bool) -> bool:
    """Whether the fields of a slice or a device choose a node."""
    if name:
        return name == node.name
    return every or (selector is not None and selector.selects(node))
