"""The claims of a call in the kernel's form, and what each device profile offers for them.

What depends only on claims and classes is checked once, when a `Question` is built. What a device
offers depends on its *profile*, all that claims can see except its name, and is computed once for
each profile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from hivecore._arguments import show
from hivecore.dra.claim import DeviceClass, DeviceConstraint, DeviceRequest, ResourceClaim
from hivecore.dra.device import Capacity, CapacityPolicy, Device, Taint, Toleration
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.pools import PoolDevice

__all__ = [
    "MOST_DEVICES",
    "UNFIT",
    "WHOLE",
    "Alternative",
    "Offers",
    "Question",
    "Taking",
    "values_of",
]

#: (device class, "capacity" or "counters", name)
Taking = tuple[str, str, str]

MOST_DEVICES = 32  # of a claim
UNFIT, WHOLE = -2, -1


class Alternative(NamedTuple):
    """A way to serve a request."""

    claim: int
    request: int  # of the call
    name: str  # "request", or "request/subrequest"
    terms: Any
    expressions: tuple[str, ...]

    @property
    def is_all(self) -> bool:
        """Whether it asks for every device that suits it."""
        return bool(self.terms.allocation_mode == "All")

    @property
    def is_admin(self) -> bool:
        """Whether it may use devices of other claims."""
        return bool(self.terms.admin_access)

    @property
    def wanted(self) -> int:
        """The number of devices, for the kernel, which counts in 32 bits."""
        return -1 if self.is_all else min(self.terms.count or 1, 2**31 - 1)

    def takes(
        self, device: Device, consumed: Mapping[str, Fraction] | None
    ) -> dict[Taking, Fraction]:
        """Return what a device or a share of it takes; nothing with admin access.

        :param consumed: by the share; ``None`` means the whole device.
        """
        if self.is_admin:
            return {}
        whole = {name: of.value for name, of in device.capacity.items()}
        amounts = [("capacity", *of) for of in (whole if consumed is None else consumed).items()]
        for use in device.consumes_counters:
            amounts += [("counters", name, of.value) for name, of in use.counters.items()]
        taken: dict[Taking, Fraction] = {}
        for what, name, amount in amounts:
            key = self.terms.device_class_name, what, name
            taken[key] = taken.get(key, Fraction()) + amount
        return taken


class Offers(NamedTuple):
    """What devices of a profile offer for each alternative."""

    codes: tuple[int, ...]  # UNFIT, WHOLE, or where the amounts of a share begin
    barred: tuple[bool, ...]
    amounts: tuple[Fraction, ...]
    capacities: tuple[str, ...]  # by name, the order of the amounts
    problems: Mapping[int, tuple[str, str]]  # of alternatives whose selectors fail: code, message


class _UnservableError(Exception):
    pass


class Question:
    """Claims that are served together.

    :param problem: (code, number of the claim, message) if no node can serve them.
    """

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        features: KubernetesFeatures,
    ) -> None:
        self.features = features
        self.alternatives: list[Alternative] = []
        self.constraints: list[tuple[bool, str, tuple[int, ...]]] = []  # match, attribute, of
        self.problem: tuple[str, int, str] | None = None
        self.classes: dict[str, DeviceClass] = {}  # named by the claims
        try:
            for number, claim in enumerate(claims):
                self._add(number, claim, classes)
        except _UnservableError as error:
            self.problem = error.args

    def _add(self, number: int, claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> None:
        first, least = len(self.alternatives), 0
        for request in claim.requests:
            index = self.alternatives[-1].request + 1 if self.alternatives else 0
            own = [
                Alternative(number, index, *self._checked(number, classes, name, terms))
                for name, terms in self._terms(number, request)
            ]
            self.alternatives += own
            least += min(0 if alternative.is_all else alternative.wanted for alternative in own)
        if least > MOST_DEVICES:
            message = f"{least} devices, {MOST_DEVICES} at most"
            raise self._stop("too_many_devices", number, message)
        for constraint in claim.constraints:
            self.constraints.append(self._constraint(number, constraint, first))

    def _stop(self, code: str, claim: int, message: str) -> _UnservableError:
        return _UnservableError(code, claim, message)

    def _need(self, gate: str, claim: int, name: str) -> None:
        if not self.features.has(gate):
            raise self._stop("feature_disabled", claim, f"request {name}: {gate} is off")

    def _terms(self, claim: int, request: DeviceRequest) -> Iterator[tuple[str, Any]]:
        if request.exactly:
            yield request.name, request.exactly
        for sub in request.first_available:
            self._need("DRAPrioritizedList", claim, request.name)
            yield f"{request.name}/{sub.name}", sub

    def _checked(
        self, claim: int, classes: Mapping[str, DeviceClass], name: str, terms: Any
    ) -> tuple[str, Any, tuple[str, ...]]:
        if terms.capacity is not None:
            self._need("DRAConsumableCapacity", claim, name)
        if terms.admin_access is not None:
            self._need("DRAAdminAccess", claim, name)
        class_name, mode = terms.device_class_name, terms.allocation_mode
        if class_name not in classes:
            code = "class_not_found" if class_name else "missing_class"
            raise self._stop(code, claim, f"request {name}: no device class {class_name!r}")
        self.classes[class_name] = classes[class_name]
        selectors = (*classes[class_name].selectors, *terms.selectors)
        expressions = tuple(
            selector.cel.expression for selector in selectors if selector.cel is not None
        )
        if len(expressions) < len(selectors):
            message = f"request {name}: a selector is not in CEL"
            raise self._stop("unsupported_selector", claim, message)
        if mode not in ("ExactCount", "All"):
            message = f"request {name}: no allocation mode {show(mode)}"
            raise self._stop("unsupported_mode", claim, message)
        return name, terms, expressions

    def _constraint(
        self, claim: int, constraint: DeviceConstraint, first: int
    ) -> tuple[bool, str, tuple[int, ...]]:
        match, distinct = constraint.match_attribute, constraint.distinct_attribute
        if not match and not (distinct and self.features.has("DRAConsumableCapacity")):
            what = "distinctAttribute needs DRAConsumableCapacity, which is off"
            if not distinct:
                what = "a constraint has neither matchAttribute nor distinctAttribute"
            raise self._stop("unsupported_constraint", claim, what)
        named = set(constraint.requests)
        of = tuple(
            number
            for number, alternative in enumerate(self.alternatives[first:], first)
            if not named or alternative.name in named or alternative.name.partition("/")[0] in named
        )
        return bool(match), str(match or distinct), of

    def offers(self, device: PoolDevice, matches: Callable[[str, PoolDevice], bool]) -> Offers:
        """Return what a device, and thus its whole profile, offers.

        :param matches: whether a device satisfies an expression; raises `SyntaxError` if it is not
            CEL, another exception if it fails on the device.
        """
        capacities = tuple(sorted(device.device.capacity))
        codes: list[int] = []
        amounts: list[Fraction] = []
        problems: dict[int, tuple[str, str]] = {}
        for number, alternative in enumerate(self.alternatives):
            try:
                share = self._share(alternative, device, matches)
            except Exception as error:
                code = "cel_compile" if isinstance(error, SyntaxError) else "cel_runtime"
                problems[number] = code, f"request {alternative.name}: {error}"
                share = None
            if share is None:
                codes.append(UNFIT)
            elif self.is_shared(device) and not alternative.is_admin:
                codes.append(len(amounts))
                amounts += [share[name] for name in capacities]
            else:
                codes.append(WHOLE)
        barred = tuple(self._is_barred(alternative, device) for alternative in self.alternatives)
        return Offers(tuple(codes), barred, tuple(amounts), capacities, problems)

    def is_shared(self, device: PoolDevice) -> bool:
        """Whether the device is allocated in shares."""
        allows = device.device.allow_multiple_allocations
        return allows and self.features.has("DRAConsumableCapacity")

    def _share(
        self,
        alternative: Alternative,
        device: PoolDevice,
        matches: Callable[[str, PoolDevice], bool],
    ) -> dict[str, Fraction] | None:
        """Return what a request takes of each capacity; ``None`` if the device does not suit it."""
        own, has = device.device, self.features.has
        gates = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if own.binding_conditions and not all(map(has, gates)):
            return None
        if alternative.expressions:
            for name, attribute in own.attributes.items():
                if not attribute.kind:
                    raise ValueError(f"attribute {name} is of an unknown type")
                if attribute.is_list and not self.features.reads_lists:
                    raise ValueError(f"attribute {name} is a list; DRAListTypeAttributes is off")
            if not all(matches(expression, device) for expression in alternative.expressions):
                return None
        if not has("DRAConsumableCapacity"):
            return {}
        wanted = alternative.terms.capacity.requests if alternative.terms.capacity else {}
        if not wanted.keys() <= own.capacity.keys():
            return None
        amounts = {name: _consumed(wanted.get(name), of) for name, of in own.capacity.items()}
        fits = all(
            amounts[name] <= of.value and _is_allowed(amounts[name], of.request_policy)
            for name, of in own.capacity.items()
        )
        return amounts if fits else None

    def _is_barred(self, alternative: Alternative, device: PoolDevice) -> bool:
        """Whether it must not be allocated, although a request for all devices counts it."""
        has = self.features.has
        if device.device.consumes_counters and not has("DRAPartitionableDevices"):
            return True
        return has("DRADeviceTaints") and any(
            taint.effect in ("NoSchedule", "NoExecute")
            and not any(
                _tolerates(toleration, taint) for toleration in alternative.terms.tolerations
            )
            for taint in device.taints
        )


def values_of(device: PoolDevice, attribute: str, lists: bool) -> tuple[tuple[str, Any], ...]:
    """Return an attribute's values with their type; empty if absent or of unknown type."""
    of = device.attribute(attribute)
    if of is None or (of.is_list and not lists):
        return ()
    return tuple((of.kind, value) for value in of.values)


def _consumed(request: Fraction | None, capacity: Capacity) -> Fraction:
    policy = capacity.request_policy
    if request is None:
        default = None if policy is None else policy.default
        return capacity.value if default is None else default
    if policy is None:
        return request
    if (of := policy.valid_range) is not None:
        if of.step:
            return of.min + max(0, ceil((request - of.min) / of.step)) * of.step
        return max(of.min, request)
    return next((valid for valid in policy.valid_values if valid >= request), request)


def _is_allowed(amount: Fraction, policy: CapacityPolicy | None) -> bool:
    if policy is None or amount == policy.default:
        return True
    if (of := policy.valid_range) is not None:
        is_below = of.max is None or amount <= of.max
        return is_below and not (of.step and (amount - of.min) % of.step)
    return not policy.valid_values or amount in policy.valid_values


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )
