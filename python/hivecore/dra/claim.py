"""Resource claims and device classes: which devices a pod asks for, and how they are configured."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self

from msgspec import field

from hivecore._arguments import show
from hivecore.dra._reading import KubernetesRecord, at_most, distinct_names, only, read
from hivecore.dra.device import Toleration

__all__ = [
    "CapacityRequirements",
    "CelSelector",
    "DeviceClass",
    "DeviceConfiguration",
    "DeviceConstraint",
    "DeviceRequest",
    "DeviceSelector",
    "DeviceSubRequest",
    "ExactDeviceRequest",
    "OpaqueConfiguration",
    "ResourceClaim",
]


class CelSelector(KubernetesRecord, frozen=True):
    """An expression in CEL, at most 10 KiB."""

    expression: str

    def __post_init__(self) -> None:
        if not 0 < len(self.expression.encode()) <= 10 << 10:
            raise ValueError("expression: must have 1 to 10240 bytes")


class DeviceSelector(KubernetesRecord, frozen=True):
    """A condition for devices; ``cel`` is ``None`` if it is of a type that is not known."""

    cel: CelSelector | None = None


class OpaqueConfiguration(KubernetesRecord, frozen=True):
    """Parameters that only a driver understands."""

    driver: str
    parameters: Any = None


class DeviceConfiguration(KubernetesRecord, frozen=True):
    """A configuration for the driver of devices.

    :param opaque: the parameters.
    :param requests: the requests of the claim, or sub-requests, that it is for; empty: all.
    """

    opaque: OpaqueConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceClass(KubernetesRecord, frozen=True):
    """A class of devices.

    :param name: of the object.
    :param selectors: the conditions, all of which a device of the class satisfies.
    :param config: goes into the result of each claim that uses the class.
    :param extended_resource_name: the resource of pods that this class stands for.

    >>> from hivecore.dra import DeviceClass
    >>> selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    >>> DeviceClass.of({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}).name
    'gpu'
    """

    name: str
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The class that a ``DeviceClass`` object describes; `ValueError`: it breaks a rule."""
        return read(cls, document, lambda given: given.get("spec") or {})

    def __post_init__(self) -> None:
        at_most(32, self.selectors, "selectors")
        at_most(32, self.config, "config")


class CapacityRequirements(KubernetesRecord, frozen=True):
    """What a request needs of the capacities of each of its devices, by name."""

    requests: Mapping[str, Fraction] = {}


class _Terms(KubernetesRecord, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None

    def __post_init__(self) -> None:
        if self.allocation_mode == "All" and self.count is not None:
            raise ValueError("count: must not be set if allocationMode is All")
        if self.count is not None and not 0 < self.count < 2**63:
            raise ValueError(f"count: {show(self.count)} is not within 1 and 2**63 - 1")
        at_most(32, self.selectors, "selectors")
        at_most(16, self.tolerations, "tolerations")


class ExactDeviceRequest(_Terms, frozen=True):
    """Devices of one kind.

    :param device_class_name: the class of the devices.
    :param selectors: further conditions that each of them satisfies.
    :param allocation_mode: "ExactCount", or "All": each device of the node that can serve it.
    :param count: how many, for "ExactCount"; ``None``: 1.
    :param tolerations: the taints that devices may have.
    :param capacity: what is needed of each.
    :param admin_access: whether devices may be in use by others; ``None``: no, and it is not said.
    """

    name: ClassVar[str] = ""
    admin_access: bool | None = None


class DeviceSubRequest(_Terms, frozen=True, kw_only=True):
    """An alternative of a request; else as `ExactDeviceRequest`, without admin access."""

    admin_access: ClassVar[bool | None] = None
    name: str


class DeviceRequest(KubernetesRecord, frozen=True):
    """A request of a claim.

    :param name: unique in the claim.
    :param exactly: the devices.
    :param first_available: alternatives to choose one from, the best first; at most 8.
    :raises ValueError: neither of both is set, or both are.
    """

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()

    def __post_init__(self) -> None:
        choices = {
            "exactly": self.exactly is not None,
            "firstAvailable": bool(self.first_available),
        }
        only(choices, least=1)
        at_most(8, self.first_available, "firstAvailable")
        distinct_names([one.name for one in self.first_available], "firstAvailable")


class DeviceConstraint(KubernetesRecord, frozen=True):
    """A condition that devices of a claim satisfy together.

    :param requests: the requests, or sub-requests, whose devices it is for; empty: all.
    :param match_attribute: the full name of an attribute with a value that all have in common.
    :param distinct_attribute: the full name of an attribute of which no two share a value.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None

    def __post_init__(self) -> None:
        names = {
            "matchAttribute": self.match_attribute,
            "distinctAttribute": self.distinct_attribute,
        }
        only({name: attribute is not None for name, attribute in names.items()})
        for name, attribute in names.items():
            domain, slash, rest = (attribute or "d/a").partition("/")
            if not domain or not rest or "/" in rest or not slash:
                raise ValueError(f"{name}: {show(attribute)} is not of the form 'domain/name'")


class ResourceClaim(KubernetesRecord, frozen=True):
    """What a pod asks for.

    :param name: of the object.
    :param namespace: of the object.
    :param uid: of the object.
    :param requests: at most 32.
    :param constraints: at most 32.
    :param config: at most 32.
    :param allocation: the ``status.allocation`` of a claim that has its devices.

    >>> from hivecore.dra import ResourceClaim
    >>> request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    >>> spec = {"devices": {"requests": [request]}}
    >>> ResourceClaim.of({"metadata": {"name": "c"}, "spec": spec}).requests[0].exactly.count
    2
    """

    name: str
    namespace: str = ""
    uid: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    allocation: Mapping[str, Any] | None = field(default=None)

    def __hash__(self) -> int:  # not all fields have a hash
        return hash((self.namespace, self.name, len(self.requests)))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The claim that a ``ResourceClaim`` object describes; unknown fields are ignored.

        :raises ValueError: the object breaks a rule of Kubernetes; the message names the claim and
            the path of the field below ``spec.devices``. O(size of the object).
        """
        return read(cls, document, _claim_fields)

    def __post_init__(self) -> None:
        for name in ("requests", "constraints", "config"):
            at_most(32, getattr(self, name), name)
        distinct_names([one.name for one in self.requests], "requests")
        known = {one.name for one in self.requests}
        known |= {f"{one.name}/{sub.name}" for one in self.requests for sub in one.first_available}
        for path, users in (("constraints", self.constraints), ("config", self.config)):
            for i, user in enumerate(users):
                distinct_names(user.requests, f"{path}[{i}].requests", "")  # type: ignore[attr-defined]
                for j, name in enumerate(user.requests):  # type: ignore[attr-defined]
                    if name not in known:
                        raise ValueError(f"{path}[{i}].requests[{j}]: no request {show(name)}")


def _claim_fields(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata, devices = document["metadata"], (document.get("spec") or {}).get("devices") or {}
    status = document.get("status") or {}
    own = {key: metadata[key] for key in ("namespace", "uid") if key in metadata}
    return {**devices, **own, "allocation": status.get("allocation")}
