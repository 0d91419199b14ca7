"""Resource claims and device classes: which devices a pod asks for, and their configuration."""

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

_OF_METADATA = {"namespace": "metadata", "uid": "metadata"}


class CelSelector(KubernetesRecord, frozen=True):
    """A CEL expression of at most 10 KiB."""

    expression: str

    def __post_init__(self) -> None:
        if not 0 < len(self.expression.encode()) <= 10 << 10:
            raise ValueError("expression: must have 1 to 10240 bytes")


class DeviceSelector(KubernetesRecord, frozen=True):
    """A condition on devices; ``cel`` is ``None`` if its type is unknown."""

    cel: CelSelector | None = None


class OpaqueConfiguration(KubernetesRecord, frozen=True):
    """Parameters that only a driver understands."""

    driver: str
    parameters: Any = None


class DeviceConfiguration(KubernetesRecord, frozen=True):
    """A configuration for the driver of devices.

    :param opaque: the parameters.
    :param requests: the claim's requests or sub-requests that it is for; empty for all.
    """

    opaque: OpaqueConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceClass(KubernetesRecord, frozen=True):
    """A class of devices.

    :param name: of the object.
    :param selectors: a device of the class satisfies all of them.
    :param config: copied into the result of each claim that uses the class.
    :param extended_resource_name: the pods' resource that this class stands for.

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
        """Read a ``DeviceClass`` object; `ValueError` if it is invalid."""
        return read(cls, document)

    def __post_init__(self) -> None:
        at_most(32, self.selectors, "selectors")
        at_most(32, self.config, "config")


class CapacityRequirements(KubernetesRecord, frozen=True):
    """What a request needs of each device's capacities, by name."""

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
    :param selectors: further conditions for each device.
    :param allocation_mode: "ExactCount", or "All" for each suitable device of the node.
    :param count: the number for "ExactCount"; ``None`` means 1.
    :param tolerations: of the devices' taints.
    :param capacity: what each device must provide.
    :param admin_access: whether devices may be in use by other claims; ``None`` (unset) means no.
    """

    name: ClassVar[str] = ""
    admin_access: bool | None = None


class DeviceSubRequest(_Terms, frozen=True, kw_only=True):
    """An alternative of a request; as `ExactDeviceRequest`, without admin access."""

    admin_access: ClassVar[bool | None] = None
    name: str


class DeviceRequest(KubernetesRecord, frozen=True):
    """A request of a claim.

    :param name: unique in the claim.
    :param exactly: the devices.
    :param first_available: alternatives, the best first; at most 8. One is chosen.
    :raises ValueError: neither or both of the last two are set.
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
        distinct_names([request.name for request in self.first_available], "firstAvailable")


class DeviceConstraint(KubernetesRecord, frozen=True):
    """A condition on the devices of a claim together.

    :param requests: the requests or sub-requests whose devices it is for; empty for all.
    :param match_attribute: full name of an attribute that must share a value on all devices.
    :param distinct_attribute: full name of an attribute that must differ on all devices.
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
    """A claim for devices.

    :param name: of the object.
    :param namespace: of the object.
    :param uid: of the object.
    :param requests: at most 32.
    :param constraints: at most 32.
    :param config: at most 32.
    :param allocation: ``status.allocation``, if the claim has its devices.

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

    def __hash__(self) -> int:  # some fields are unhashable
        return hash((self.namespace, self.name, len(self.requests)))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a ``ResourceClaim`` object; unknown fields are ignored.

        :raises ValueError: it breaks a rule of Kubernetes. The message names the claim and the
            field's path. Cost: O(size of the object).
        """
        return read(cls, document, "spec.devices", {**_OF_METADATA, "allocation": "status"})

    @classmethod
    def of_template(cls, document: Mapping[str, Any]) -> Self:
        """Read the claim in a ``ResourceClaimTemplate`` object, which has its name; see `of`."""
        named = "ResourceClaimTemplate"
        return read(cls, document, "spec.spec.devices", _OF_METADATA, named=named)

    @property
    def full_name(self) -> str:
        """The namespace and the name, as in "team/train"; the name if it has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __post_init__(self) -> None:
        for name in ("requests", "constraints", "config"):
            at_most(32, getattr(self, name), name)
        distinct_names([request.name for request in self.requests], "requests")
        known = {request.name for request in self.requests}
        known |= {
            f"{request.name}/{sub.name}"
            for request in self.requests
            for sub in request.first_available
        }
        for path, users in (("constraints", self.constraints), ("config", self.config)):
            for i, user in enumerate(users):
                distinct_names(user.requests, f"{path}[{i}].requests", "")  # type: ignore[attr-defined]
                for j, name in enumerate(user.requests):  # type: ignore[attr-defined]
                    if name not in known:
                        raise ValueError(f"{path}[{i}].requests[{j}]: no request {show(name)}")
