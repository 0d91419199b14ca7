"""Checks in plain Python that allocations obey every rule of Kubernetes.

It shares only records, node selectors, parsing of quantities and the evaluator with the solver.
Claims that are served together are checked as a whole: first each result, then requests and
constraints of each claim, then devices, capacities and counters over all claims. Whether the
devices are the first or best is not checked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from typing import Any, NamedTuple

from msgspec import to_builtins

from hivecore._quantities import read_exactly
from hivecore._stateful import counted
from hivecore.dra.cel import Evaluator
from hivecore.dra.claim import DeviceClass, DeviceConstraint, ResourceClaim
from hivecore.dra.device import Capacity, CounterConsumption, Device, DeviceId
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.node import Node
from hivecore.dra.pools import PoolDevice
from hivecore.dra.resource_slice import DeviceTaintRule, ResourceSlice
from hivecore.errors import CertificateError

__all__ = ["ClusterFacts", "verify_allocations"]

_Held = tuple[DeviceId, str, Mapping[str, Fraction]]
_Rules = set[tuple[str, str, tuple[str, ...]]]


class ClusterFacts(NamedTuple):
    """The content of a cluster.

    :param matches: evaluates selectors.
    :param held: owner -> (device, share id or "" for the whole device, consumed capacities).
    :param charges: device -> the counters charged when it came into use.
    """

    features: KubernetesFeatures
    matches: Evaluator
    nodes: Mapping[str, Node]
    slices: Iterable[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    rules: Iterable[DeviceTaintRule]
    held: Mapping[str, Sequence[_Held]]
    charges: Mapping[DeviceId, Sequence[CounterConsumption]]


class _Use(NamedTuple):
    """A result of an allocation."""

    request: str
    terms: Any
    of: PoolDevice
    share: str
    consumed: Mapping[str, Fraction]


def verify_allocations(
    facts: ClusterFacts,
    node: str,
    claims: Sequence[ResourceClaim],
    allocations: Sequence[Mapping[str, Any]],
) -> ClusterFacts:
    """Check the allocations of claims that are served together on a node.

    :param allocations: ``status.allocation`` of each.
    :returns: the cluster in which these claims hold their devices.
    :raises CertificateError: a rule is broken; the message says which.

    Cost: O(size of the cluster), and for each request of all devices, an evaluation of its
    selectors for each device of the node.
    """
    _hold(
        len(claims) == len(allocations),
        f"{counted(len(allocations), 'allocation')}, {counted(len(claims), 'claim')}",
    )
    proof = _Proof(facts, node)
    uses = [proof.uses_of(*each) for each in zip(claims, allocations, strict=True)]
    own = [[use for use in of if not use.terms.admin_access] for of in uses]
    owners = [claim.uid or f"{claim.namespace}/{claim.name}" for claim in claims]
    known = len({*owners} | facts.held.keys()) == len(owners) + len(facts.held)
    _hold(known, f"claims {owners}: one has devices already")
    new = {
        owner: [(use.of.id, use.share, use.consumed) for use in of]
        for owner, of in zip(owners, own, strict=True)
    }
    chosen = {use.of.id: use.of.device for of in own for use in of}
    _check_devices(chosen, [*chain(*facts.held.values(), *new.values())])
    proof.check_counters({id: device for id, device in chosen.items() if id not in facts.charges})
    charges = {id: device.consumes_counters for id, device in chosen.items()}
    return facts._replace(held={**facts.held, **new}, charges={**charges, **facts.charges})


def _hold(holds: object, what: str) -> None:
    if not holds:
        raise CertificateError(what)


def _check_devices(chosen: Mapping[DeviceId, Device], every: Sequence[_Held]) -> None:
    """Each device has a single owner, or shares that fit together (3.2, 5.3)."""
    for id, device in chosen.items():
        shares = [(share, consumed) for own, share, consumed in every if own == id]
        names, where = [share for share, _ in shares], "/".join(id)
        _hold(len({*names}) == len(names), f"{where}: two owners of {names}")
        _hold("" not in names or len(names) == 1, f"{where}: in use as a whole and in shares")
        for name, capacity in device.capacity.items() if "" not in names else ():
            taken = sum(consumed.get(name, 0) for _, consumed in shares)
            what = f"{where}: {taken} of {name} in use, it has {capacity.value}"
            _hold(taken <= capacity.value, what)


class _Proof:
    def __init__(self, facts: ClusterFacts, node: str) -> None:
        self.facts, self.has = facts, facts.features.has
        self.node = facts.nodes.get(node) or Node(node)
        self.devices: dict[DeviceId, PoolDevice] = {}
        self.counters: dict[
            tuple[str, str, str, str], Fraction
        ] = {}  # by driver, pool, set and name
        self.flaws: list[tuple[str, str]] = []  # incomplete pools
        pools = defaultdict(list)
        for part in facts.slices:
            pools[part.driver, part.pool.name].append(part)
        for name, slices in pools.items():
            self._read_pool(name, slices)

    # --- pools (2)

    def _is_here(self, of: ResourceSlice | Device) -> bool:
        """Whether a slice, or a device that chooses nodes itself, is for the node."""
        if isinstance(of, ResourceSlice) and of.per_device_node_selection:
            return any(map(self._is_here, of.devices))
        selects = of.node_selector is not None and of.node_selector.selects(self.node)
        return of.all_nodes or of.node_name == self.node.name or selects

    def _read_pool(self, pool: tuple[str, str], slices: list[ResourceSlice]) -> None:
        parts = self.has("DRAPartitionableDevices")
        seen = [
            part
            for part in slices
            if parts or not (part.per_device_node_selection or part.shared_counters)
        ]
        here = sorted(filter(self._is_here, seen), key=lambda part: part.name)
        newest = max((part.pool.generation for part in here), default=0)
        here = [part for part in here if part.pool.generation == newest]
        if not here:
            return
        whole, wanted = here, here[0].pool.resource_slice_count
        if len(here) != wanted:
            if any(part.pool.generation > newest for part in slices):
                return
            whole = [part for part in slices if part.pool.generation == newest]
        sets = [counter_set for each in whole for counter_set in each.shared_counters]
        sizes = {(*pool, of.name, name): n.value for of in sets for name, n in of.counters.items()}
        names = [device.name for each in here for device in each.devices]
        charged = {
            (*pool, use.counter_set, name)
            for each in whole
            for device in each.devices
            for use in device.consumes_counters
            for name in use.counters
        }
        sound = len({of.name for of in sets}) == len(sets) and charged <= sizes.keys()
        if len(whole) != wanted or len({*names}) < len(names) or (parts and not sound):
            self.flaws.append(pool)
            return
        self.counters.update(sizes)
        for each in here:
            for device in each.devices:
                place = device if each.per_device_node_selection else each
                if self._is_here(place):
                    self._add(DeviceId(*pool, device.name), device, place)

    def _add(self, id: DeviceId, device: Device, place: ResourceSlice | Device) -> None:
        taints = device.taints
        rules = self.facts.rules if self.has("DRADeviceTaintRules") else ()
        for rule in sorted(rules, key=lambda rule: rule.name):
            of = rule.device_selector
            if of is not None and all(
                name in ("", own)
                for name, own in zip((of.driver, of.pool, of.device), id, strict=True)
            ):
                taints = (*taints, rule.taint)
        where = place.node_name, place.node_selector
        self.devices[id] = PoolDevice(id, device, taints, *where)

    def check_counters(self, new: Mapping[DeviceId, Device]) -> None:
        """Counters suffice, and devices on a counter set have a group in common (5.1, 5.2)."""
        every = {id: device.consumes_counters for id, device in new.items()}
        for id, device in new.items():
            beside = [
                consumption
                for own, of in chain(self.facts.charges.items(), every.items())
                for consumption in of
                if own[:2] == id[:2]
            ]
            for use in device.consumes_counters:
                on = [
                    consumption
                    for consumption in beside
                    if consumption.counter_set == use.counter_set
                ]
                where = f"{'/'.join(id)}: counter set {use.counter_set!r}"
                for name, wanted in use.counters.items():
                    taken = sum(
                        consumption.counters[name].value
                        for consumption in on
                        if name in consumption.counters
                    )
                    most = self.counters[(*id[:2], use.counter_set, name)]
                    what = f"{where}: {taken} of {name} in use, it has {most}"
                    _hold(taken <= most or not wanted.value, what)
                groups = [{*consumption.compatibility_groups} for consumption in on]
                common = set.intersection(*groups) or not any(groups)
                is_on = self.has("DRADeviceCompatibilityGroups")
                _hold(common or not is_on, f"{where}: no group in common")

    # --- a claim

    def uses_of(self, claim: ResourceClaim, allocation: Mapping[str, Any]) -> list[_Use]:
        """Return the results of a claim after checking the rules within the claim."""
        where = f"claim {claim.name!r}"
        known: dict[str, Any] = {of.name: of.exactly for of in claim.requests if of.exactly}
        if self.has("DRAPrioritizedList"):
            for of in claim.requests:
                known |= {f"{of.name}/{sub.name}": sub for sub in of.first_available}
        try:
            results = allocation["devices"].get("results", ())
            uses = [self._use(result, known) for result in results]
            self._check_rest(where, claim, allocation, uses)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CertificateError(f"{where}: {type(error).__name__} {error}") from None
        _hold(len(uses) <= 32, f"{where}: {len(uses)} devices")
        for request in claim.requests:
            own = [use for use in uses if use.request.partition("/")[0] == request.name]
            self._check_request(f"{where}, request {request.name!r}", own)
        for first, other in combinations(uses, 2):
            admin = first.terms.admin_access or other.terms.admin_access
            _hold(first.of.id != other.of.id or not admin, f"{where}: {first.of.id} is given twice")
        for constraint in claim.constraints:
            self._check_constraint(where, constraint, uses)
        return uses

    def _use(self, result: Mapping[str, Any], known: Mapping[str, Any]) -> _Use:
        """Return a result after checking that its device suits the request and its fields are
        right.
        """
        id = DeviceId(result["driver"], result["pool"], result["device"])
        terms, where = known[result["request"]], f"{'/'.join(id)} for {result['request']}"
        _hold(id in self.devices, f"{where}: no complete pool of the node has it")
        of = self.devices[id]
        amounts = self._amounts(terms, of)
        _hold(amounts is not None, f"{where}: it does not suit the request")
        for gate, is_used in (
            ("DRAAdminAccess", terms.admin_access is not None),
            ("DRAConsumableCapacity", terms.capacity is not None),
            ("DRAPartitionableDevices", of.device.consumes_counters),
        ):
            _hold(not is_used or self.has(gate), f"{where}: {gate} is off")
        for taint in of.taints if self.has("DRADeviceTaints") else ():
            tolerated = any(
                toleration.effect in ("", taint.effect)
                and toleration.key in ("", taint.key)
                and (toleration.operator == "Exists" or toleration.value == taint.value)
                for toleration in terms.tolerations
            )
            what = f"{where}: taint {taint.key!r} is not tolerated"
            _hold(tolerated or taint.effect not in ("NoSchedule", "NoExecute"), what)
        written = result.get("consumedCapacity", {})
        consumed = {name: read_exactly(amount, name) for name, amount in written.items()}
        is_share, share = self._is_shared(of) and not terms.admin_access, result.get("shareID", "")
        _hold(consumed == (amounts if is_share else {}), f"{where}: it consumes {written}")
        _hold(bool(share) == is_share, f"{where}: shareID is {share!r}")
        for name, wanted in (
            ("adminAccess", terms.admin_access),
            ("tolerations", [_short(to_builtins(toleration)) for toleration in terms.tolerations]),
            ("bindingConditions", [*of.device.binding_conditions]),
            ("bindingFailureConditions", [*of.device.binding_failure_conditions]),
        ):
            _hold(result.get(name) == (wanted or None), f"{where}: {name} is not {wanted}")
        return _Use(result["request"], terms, of, share, consumed)

    def _is_shared(self, of: PoolDevice) -> bool:
        return of.device.allow_multiple_allocations and self.has("DRAConsumableCapacity")

    def _amounts(self, terms: Any, of: PoolDevice) -> dict[str, Fraction] | None:
        """Return what a request consumes of a device; None if it does not suit (2.6, 5.3)."""
        device, class_ = of.device, self.facts.classes[terms.device_class_name]
        binds = self.has("DRADeviceBindingConditions") and self.has("DRAResourceClaimDeviceStatus")
        if device.binding_conditions and not binds:
            return None
        for selector in (*class_.selectors, *terms.selectors):
            known = all(
                own.kind and (self.facts.features.reads_lists or not own.is_list)
                for own in device.attributes.values()
            )
            _hold(known and selector.cel, f"{of.id}: an attribute or a selector is not known")
            try:
                if not self.facts.matches(selector.cel.expression, of):
                    return None
            except Exception as error:
                raise CertificateError(f"{of.id}: a selector fails: {error}") from None
        if not self.has("DRAConsumableCapacity"):
            return {}
        wanted, amounts = terms.capacity.requests if terms.capacity else {}, {}
        for name, capacity in device.capacity.items():
            amount = _amount(wanted.get(name), capacity)
            if amount is None or amount > capacity.value:
                return None
            amounts[name] = amount
        return amounts if wanted.keys() <= amounts.keys() else None

    def _check_request(self, where: str, uses: list[_Use]) -> None:
        """Exactly one alternative has as many devices as it asks for, each once (3)."""
        names, given = {use.request for use in uses}, {use.of.id for use in uses}
        _hold(len(names) == 1, f"{where}: devices for {sorted(names)}")
        _hold(len(given) == len(uses), f"{where}: a device is given twice")
        terms = uses[0].terms
        if terms.allocation_mode == "ExactCount":
            wanted = terms.count or 1
            _hold(
                len(given) == wanted,
                f"{where}: {counted(len(given), 'device')} instead of {wanted}",
            )
            return
        _hold(terms.allocation_mode == "All", f"{where}: mode {terms.allocation_mode!r}")
        _hold(not self.flaws, f"{where}: pools {self.flaws} are not complete")
        others = [of for id, of in self.devices.items() if id not in given]
        missing = [of.id for of in others if self._could_serve(terms, of)]
        _hold(not missing, f"{where}: of all devices {missing} are missing")

    def _could_serve(self, terms: Any, of: PoolDevice) -> bool:
        """Whether a request of all devices must get this one, in use or not (3.3)."""
        amounts = self._amounts(terms, of)
        if amounts is None or not self._is_shared(of) or terms.admin_access:
            return amounts is not None
        used = [taken for id, _, taken in chain(*self.facts.held.values()) if id == of.id]
        return all(
            amount + sum(taken.get(name, 0) for taken in used) <= of.device.capacity[name].value
            for name, amount in amounts.items()
        )

    def _check_constraint(
        self, where: str, constraint: DeviceConstraint, uses: Iterable[_Use]
    ) -> None:
        """All devices share a value, or no two have the same (4)."""
        match, distinct = constraint.match_attribute, constraint.distinct_attribute
        _hold(match or (distinct and self.has("DRAConsumableCapacity")), f"{where}: constraint")
        values = [
            self._values(use.of, match or str(distinct))
            for use in uses
            if _is_for(constraint.requests, use)
        ]
        holds = all(values) and (
            bool(not values or set.intersection(*values))
            if match
            else not any(first & other for first, other in combinations(values, 2))
        )
        _hold(holds, f"{where}: the values of {match or distinct} are {values}")

    def _values(self, of: PoolDevice, name: str) -> set[tuple[str, Any]]:
        domain, _, short = name.partition("/")
        has = of.device.attributes
        attribute = has.get(name) or (has.get(short) if domain == of.id.driver else None)
        if attribute is None or (attribute.is_list and not self.has("DRAListTypeAttributes")):
            return set()
        return {(attribute.kind, value) for value in attribute.values}

    def _check_rest(
        self, where: str, claim: ResourceClaim, written: Mapping[str, Any], uses: list[_Use]
    ) -> None:
        """Configurations, and the nodes that can use the devices (6)."""
        users: dict[str, dict[str, None]] = defaultdict(dict)
        for use in uses:
            users[use.terms.device_class_name][use.request] = None
        config = [
            ("FromClass", [*names], entry)
            for name, names in users.items()
            for entry in self.facts.classes[name].config
        ]
        for entry in claim.config:
            if not entry.requests or any(_is_for(entry.requests, use) for use in uses):
                config.append(("FromClaim", [*entry.requests], entry))
        clears = self.facts.features.clears_covering_requests
        wanted = []
        for source, names, entry in config:
            named = [] if clears and all(_is_for(names, use) for use in uses) else names
            opaque = to_builtins(entry.opaque)
            wanted.append(_short({"source": source, "requests": named, "opaque": opaque}))
        own = written["devices"].get("config", [])
        _hold(own == wanted, f"{where}: config is {own} instead of {wanted}")
        rules: _Rules = {("metadata.name", "In", (self.node.name,))}
        if not any(use.of.node_name or use.of.device.binds_to_node for use in uses):
            terms = [use.of.node_selector.term for use in uses if use.of.node_selector]
            rules = {
                (rule.key, rule.operator, rule.values)
                for term in terms
                for rule in (*term.match_fields, *term.match_expressions)
            }
        selects = written.get("nodeSelector")
        _hold(_rules(selects) == rules, f"{where}: nodeSelector is {selects}")


def _is_for(names: Sequence[str], use: _Use) -> bool:
    """Whether a device belongs to these requests; no names mean all requests."""
    return not names or use.request in names or use.request.partition("/")[0] in names


def _rules(selector: Mapping[str, Any] | None) -> _Rules:
    if selector is None:
        return set()
    (term,) = selector["nodeSelectorTerms"]
    return {
        (rule["key"], rule["operator"], tuple(rule.get("values", ())))
        for rule in chain(term.get("matchFields", ()), term.get("matchExpressions", ()))
    }


def _short(written: Mapping[str, Any]) -> dict[str, Any]:
    return {name: of for name, of in written.items() if of not in ("", None, [])}


def _amount(request: Fraction | None, capacity: Capacity) -> Fraction | None:
    """Return what a request consumes of a capacity; None if the policy forbids it."""
    policy = capacity.request_policy
    default = capacity.value if policy is None or policy.default is None else policy.default
    if request is None or policy is None:
        return default if request is None else request
    if policy.valid_values:
        return next((valid for valid in policy.valid_values if valid >= request), None)
    of = policy.valid_range
    if of is None:
        return request
    amount = max(request, of.min)
    if of.step:
        amount += -(amount - of.min) % of.step
    return None if of.max is not None and amount > max(of.max, default) else amount
