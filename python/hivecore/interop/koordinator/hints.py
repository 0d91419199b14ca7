"""Reads a pod's annotations on how to choose its devices: hints, joint types, partitions."""

from typing import Literal, NamedTuple

from hivecore.devices import LabelExpression
from hivecore.devices.device_request import Scope
from hivecore.devices.label_expression import Selector, as_selector
from hivecore.interop.koordinator.names import DEVICE_HINT, JOINT_ALLOCATE, PARTITION_SPEC
from hivecore.interop.kubernetes.fields import Field

__all__ = ["NO_HINT", "Hint", "Joint", "PartitionWish", "read_hints", "read_joint", "read_wish"]

_TYPES = ("gpu", "rdma", "fpga")
_STRATEGIES: dict[str, Literal["all", "count"]] = {"ApplyForAll": "all", "RequestsAsCount": "count"}
_EXCLUSIVE: dict[str, Literal["device", "pcie"]] = {"DeviceLevel": "device", "PCIeLevel": "pcie"}
_SCOPES: dict[str, Scope] = {"Device": "device", "PCIe": "pcie", "NUMANode": "numa", "Node": "node"}
_POLICIES: dict[str, Literal["restricted", "best-effort"]] = {
    "Restricted": "restricted",
    "BestEffort": "best-effort",
}
_FASTEST = 2**62


class Hint(NamedTuple):
    """How to choose the devices of one type; the fields are those of `DeviceNeed`."""

    selector: Selector
    vf_selector: Selector | None
    strategy: Literal["all", "count"] | None
    """"all": every device that matches the selector; "count": as many as requested."""
    exclusive: Literal["device", "pcie"] | None
    scope: Scope | None

    @property
    def wishes(self) -> dict[str, object]:
        """Return these as further arguments of `DeviceNeed`."""
        wishes = self._asdict()
        del wishes["strategy"]
        return wishes


NO_HINT = Hint((), None, None, None, None)


class Joint(NamedTuple):
    """The types to choose together; the others are placed near the first."""

    types: tuple[str, ...]
    same_pcie: bool


class PartitionWish(NamedTuple):
    """Which fabric partition to use."""

    policy: Literal["restricted", "best-effort"]
    bandwidth: int | None


def read_hints(pod: Field) -> dict[str, Hint]:
    """Return a pod's hints by device type, without types that are unknown here.

    :raises ValueError: an unknown word, or a selector expression that Kubernetes does not allow.

    >>> pod = {"metadata": {"annotations": {
    ...     "scheduling.koordinator.sh/device-allocate-hint":
    ...         '{"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}}'}}}
    >>> read_hints(Field(pod))["rdma"].strategy
    'count'
    """
    annotation = pod["metadata"]["annotations"][DEVICE_HINT]
    if annotation.absent:
        return {}
    return {
        type_: _hint(hint)
        for type_, hint in annotation.json().items()
        if type_ in _TYPES and hint.value is not None
    }


def _hint(hint: Field) -> Hint:
    functions = hint["vfSelector"]
    return Hint(
        _selector(hint["selector"]),
        None if functions.value is None else _selector(functions),
        hint["allocateStrategy"].choice(_STRATEGIES),
        hint["exclusivePolicy"].choice(_EXCLUSIVE),
        hint["requiredTopologyScope"].choice(_SCOPES),
    )


def _selector(selector: Field) -> Selector:
    """Return the rules of a label selector; an expression that only matches a label becomes one."""
    labels = selector["matchLabels"].texts()
    expressions = []
    for entry in selector["matchExpressions"].entries():
        key, operator = entry["key"].name(), entry["operator"].name()
        values = tuple(value.text() for value in entry["values"].entries())
        with entry.named():
            rule = LabelExpression(key, operator, values)  # type: ignore[arg-type]
        is_label = rule.operator == "In" and len(rule.values) == 1
        if not is_label or labels.setdefault(key, rule.values[0]) != rule.values[0]:
            expressions.append(rule)
    with selector.named():
        return as_selector([*labels.items(), *expressions], "selector")


def read_joint(pod: Field) -> Joint:
    """Return the types that a pod wants chosen together, if any.

    >>> pod = {"metadata": {"annotations": {"scheduling.koordinator.sh/device-joint-allocate":
    ...     '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'}}}
    >>> read_joint(Field(pod))
    Joint(types=('gpu', 'rdma'), same_pcie=True)
    """
    annotation = pod["metadata"]["annotations"][JOINT_ALLOCATE]
    if annotation.absent:
        return Joint((), False)
    joint = annotation.json()
    types = []
    for entry in joint["deviceTypes"].entries():
        if entry.name() in types:
            raise entry.error(f"{entry.name()!r} stands there twice")
        types.append(entry.name())
    scope = joint["requiredScope"].choice({"SamePCIe": True})
    return Joint(tuple(type_ for type_ in types if type_ in _TYPES), scope is not None)


def read_wish(pod: Field) -> PartitionWish | None:
    """Return the partition that a pod wants; ``None`` leaves it to the node's policy.

    >>> pod = {"metadata": {"annotations": {
    ...     "scheduling.koordinator.sh/gpu-partition-spec": '{"ringBusBandwidth": "200Gi"}'}}}
    >>> read_wish(Field(pod))
    PartitionWish(policy='best-effort', bandwidth=214748364800)
    """
    annotation = pod["metadata"]["annotations"][PARTITION_SPEC]
    if annotation.absent:
        return None
    spec = annotation.json()
    bandwidth = spec["ringBusBandwidth"]
    return PartitionWish(
        spec["allocatePolicy"].choice(_POLICIES) or "best-effort",
        None if bandwidth.value is None else bandwidth.quantity(0, _FASTEST),
    )
