"""The rules for allocating a device, given bookings and the grants of this call so far.

Each rule is a function of the earlier grants and the next one, without state, so that a grant can
simply be taken back. What a rule refuses, it also refuses after more grants.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from math import ceil
from typing import Any, NamedTuple

__all__ = [
    "Grant",
    "consumption",
    "fits_capacity",
    "fits_counters",
    "fits_within",
    "is_compatible",
    "is_free",
    "keeps_constraint",
    "tolerates",
]


class Grant(NamedTuple):
    """A device for a request; a share of it unless ``consumed`` is ``None``."""

    claim: int  # its number in the call
    request: str  # "request", or "request/subrequest"
    terms: Any  # the request or sub-request
    device: Any  # a device of a pool
    consumed: Mapping[str, Fraction] | None


def is_free(grants: list[Grant], new: Grant, book: Any) -> bool:
    """Whether the device may be allocated once more (3.2, 5.3, 5.5).

    A device serves one request as a whole, or several in shares. Admin access does not count,
    except that the same claim may not have the device otherwise.
    """
    device, admin = new.device.id, new.terms.admin_access
    same = [grant for grant in grants if grant.device.id == device]
    if any(grant.claim == new.claim and (admin or grant.terms.admin_access) for grant in same):
        return False
    shares = book.shares.get(device, {})
    if new.consumed is not None:
        return "" not in shares
    return bool(admin) or (not shares and all(grant.terms.admin_access for grant in same))


def consumption(terms: Any, device: Any) -> dict[str, Fraction] | None:
    """Return what a request consumes of each capacity; ``None`` if it cannot have
    the device (5.3).
    """
    requests = terms.capacity.requests if terms.capacity else {}
    amounts = {name: _amount(requests.get(name), of) for name, of in device.capacity.items()}
    fits = all(
        amounts[name] <= of.value and _is_valid(amounts[name], of.request_policy)
        for name, of in device.capacity.items()
    )
    return amounts if fits and requests.keys() <= amounts.keys() else None


def _amount(request: Fraction | None, capacity: Any) -> Fraction:
    policy, whole = capacity.request_policy, Fraction(capacity.value)
    if request is None:
        return whole if policy is None or policy.default is None else Fraction(policy.default)
    if policy is None:
        return request
    if of := policy.valid_range:
        steps = ceil((request - of.min) / of.step) if of.step else 0
        return Fraction(max(of.min, of.min + of.step * steps if of.step else request))
    return min([valid for valid in policy.valid_values if valid >= request], default=request)


def _is_valid(amount: Fraction, policy: Any) -> bool:
    if policy is None or amount == policy.default:
        return True
    if of := policy.valid_range:
        return (of.max is None or amount <= of.max) and not (
            of.step and (amount - of.min) % of.step
        )
    return not policy.valid_values or amount in policy.valid_values


def fits_capacity(grants: list[Grant], new: Grant, book: Any) -> bool:
    """Whether a share fits beside the others of its device (5.3)."""
    device = new.device.id
    shares = [
        grant.consumed for grant in (*grants, new) if grant.device.id == device and grant.consumed
    ]
    return all(
        sum(share[name] for share in shares) + book.consumed(device, name)
        <= new.device.device.capacity[name].value
        for name in new.consumed or ()
    )


def fits_counters(
    grants: list[Grant], new: Grant, book: Any, sets: Mapping[str, Mapping[str, Fraction]]
) -> bool:
    """Whether the pool's counter sets have what the device takes (5.1).

    A device in use has been charged. An overcharged counter is empty: it blocks only devices that
    consume it.
    """
    own, others = _new_charges(grants, new, book)
    for charge in own:
        beside = [
            charged.counters for charged in others if charged.counter_set == charge.counter_set
        ]
        for name, of in charge.counters.items():
            taken = sum(counters[name].value for counters in beside if name in counters)
            if of.value > max(Fraction(), sets[charge.counter_set][name] - taken):
                return False
    return True


def fits_within(grants: list[Grant], new: Grant, within: Mapping[Any, Fraction]) -> bool:
    """Whether all grants together stay within limits by (device class, kind, name)."""
    taken = [takes for grant in (*grants, new) for takes in _takes(grant)]
    return all(
        sum(amount for key, amount in taken if key == limited) <= most
        for limited, most in within.items()
    )


def _takes(grant: Grant) -> Iterator[tuple[tuple[str, str, str], Fraction]]:
    """Yield what a grant takes; nothing with admin access."""
    device, class_name = grant.device.device, grant.terms.device_class_name
    amounts = grant.consumed
    if amounts is None:
        amounts = {name: of.value for name, of in device.capacity.items()}
    for name, amount in amounts.items() if not grant.terms.admin_access else ():
        yield (class_name, "capacity", name), amount
    for charge in device.consumes_counters if not grant.terms.admin_access else ():
        for name, of in charge.counters.items():
            yield (class_name, "counters", name), of.value


def is_compatible(grants: list[Grant], new: Grant, book: Any) -> bool:
    """Whether all devices on a counter set have a group in common, or none has groups (5.2)."""
    own, others = _new_charges(grants, new, book)
    for charge in own:
        users = [user for user in (charge, *others) if user.counter_set == charge.counter_set]
        groups = [frozenset(user.compatibility_groups) for user in users]
        if any(groups) and not frozenset.intersection(*groups):
            return False
    return True


def _new_charges(grants: list[Grant], new: Grant, book: Any) -> tuple[Iterable[Any], list[Any]]:
    """Return the charges for a device that is not in use, and those of its pool's other devices."""
    pool = new.device.id[:2]
    charges = dict(book.charges.get(pool, {}))
    for grant in grants:
        if grant.device.id[:2] == pool and not grant.terms.admin_access:
            charges.setdefault(grant.device.id, grant.device.device.consumes_counters)
    has_paid = new.terms.admin_access or new.device.id in charges
    own = () if has_paid else new.device.device.consumes_counters
    return own, [charge for of in charges.values() for charge in of]


def tolerates(terms: Any, taints: Iterable[Any]) -> bool:
    """Whether a request tolerates a device's taints that forbid allocation (rule 5.4)."""
    return not any(
        taint.effect in ("NoSchedule", "NoExecute")
        and not any(_matches(toleration, taint) for toleration in terms.tolerations)
        for taint in taints
    )


def _matches(toleration: Any, taint: Any) -> bool:
    return (
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )


def keeps_constraint(grants: Iterable[Grant], constraint: Any, lists: bool) -> bool:
    """Whether a claim's grants satisfy a constraint: a common value, or no value twice (4)."""
    name = constraint.match_attribute or constraint.distinct_attribute
    values = [
        _values(grant.device.attribute(name), lists)
        for grant in grants
        if not constraint.requests
        or {grant.request, grant.request.partition("/")[0]} & set(constraint.requests)
    ]
    if constraint.match_attribute:
        return not values or bool(frozenset.intersection(*values))
    return all(values) and all(first.isdisjoint(other) for first, other in combinations(values, 2))


def _values(attribute: Any, lists: bool) -> frozenset[Any]:
    """Return the values with their type; empty if the attribute is absent or of unknown type."""
    if attribute is None or (attribute.is_list and not lists):
        return frozenset()
    return frozenset((attribute.kind, value) for value in attribute.values)
