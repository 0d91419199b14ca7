"""Searches the first answer in the order of requests, alternatives and devices.

It first determines each alternative's class, selectors and candidates. Then it goes depth first
through the requests of all claims, the alternatives of each, and the candidates of each in the
order of the pools, as far as the rules allow. Mode "first" takes the first answer, the smallest
sequence of such decisions (8); "best" takes the smallest vector of alternatives, whatever the
devices (3.4).

Kubernetes' search stops at its first error. Here, a device on which a selector fails, and an All
request that violates a constraint by itself, are not candidates; they are errors only if there is
no other answer. So no outcome depends on the order of the search.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from hivecore.reference.dra.rules import (
    Grant,
    consumption,
    fits_capacity,
    fits_counters,
    fits_within,
    is_compatible,
    is_free,
    keeps_constraint,
    tolerates,
)

__all__ = ["Allocator", "Decision", "Problem"]

_MOST_DEVICES = 32  # of a claim


class Problem(NamedTuple):
    """Why claims, or some of their alternatives, cannot be served."""

    code: str  # a class of section 6
    claim: str  # "" if about several
    message: str


class Decision(NamedTuple):
    """The answer to all claims of a call: an allocation for each, or none."""

    outcome: Literal["allocated", "unsatisfiable", "error"]
    allocations: tuple[dict[str, Any], ...] = ()
    problems: tuple[Problem, ...] = ()  # the first is the reason of an error


class _Result(NamedTuple):
    request: str
    terms: Any
    device: Any
    consumed: Any
    share_id: str


class _Alternative(NamedTuple):
    claim: int
    request: str
    terms: Any
    wanted: int
    candidates: list[tuple[Any, Any]]  # (device, what a share of it consumes)


class _StopError(Exception):
    pass


class Allocator:
    """Answers for a node.

    :param pools: of the node, in order; from `hivecore.dra.gather_pools`.
    :param classes: device classes by name.
    :param book: the bookings of `hivecore.dra`: ``shares`` by device and id ("" for the whole),
        what they consume, and the ``charges`` of devices in use, by pool.
    :param matches: whether a device satisfies an expression; raises `SyntaxError` if it is not CEL,
        another exception if it fails on the device.
    :param write: writes an allocation, as `hivecore.dra.result.write_allocation`.
    :param share_id: creates the ids of shares.
    """

    def __init__(
        self,
        node: Any,
        pools: Sequence[Any],
        classes: Mapping[str, Any],
        book: Any,
        features: Any,
        matches: Callable[[str, Any], bool],
        write: Callable[..., dict[str, Any]],
        share_id: Callable[[], object] = uuid4,
    ) -> None:
        self.node, self.pools, self.classes, self.book = node, pools, classes, book
        self.features, self.matches = features, matches
        self.write, self.share_id = write, share_id
        self.counter_sets = {(pool.driver, pool.name): pool.counter_sets for pool in pools}

    def allocate(
        self,
        claims: Sequence[Any],
        mode: Literal["first", "best"] = "first",
        within: Mapping[Any, Fraction] | None = None,
    ) -> Decision:
        """Choose devices for all claims together, within the limits, without changing anything."""
        self.within = within or {}
        self.claims, self.grants, self.problems = claims, list[Grant](), list[Problem]()
        try:
            requests = [
                request for i, claim in enumerate(claims) for request in self._requests(i, claim)
            ]
        except _StopError as stop:
            return Decision("error", (), stop.args)
        vectors = ([[alternative] for alternative in vector] for vector in product(*requests))
        for choices in vectors if mode == "best" else [requests]:
            if self._completes(choices):
                return Decision("allocated", tuple(self._written()), tuple(self.problems))
        if within:  # without limits there is an answer or a reason
            free = self.allocate(claims, mode)
            return Decision("unsatisfiable") if free.outcome == "allocated" else free
        if not self.problems and any(pool.state == "invalid" for pool in self.pools):
            self.problems.append(Problem("invalid_pools", "", "no answer, and a pool is invalid"))
        return Decision("error" if self.problems else "unsatisfiable", (), tuple(self.problems))

    def _written(self) -> Iterator[dict[str, Any]]:
        clears = self.features.clears_covering_requests
        for i, claim in enumerate(self.claims):
            own = [self._result(grant) for grant in self.grants if grant.claim == i]
            yield self.write(claim, own, self.classes, self.node.name, clears)

    def _result(self, grant: Grant) -> _Result:
        share = "" if grant.consumed is None else str(self.share_id())
        return _Result(grant.request, grant.terms, grant.device, grant.consumed, share)

    # --- the search

    def _completes(self, requests: Sequence[Sequence[_Alternative]]) -> bool:
        """Whether these requests can be served in addition to the grants so far."""
        if not requests:
            return True
        claim = requests[0][0].claim
        later = [
            min(alternative.wanted for alternative in of)
            for of in requests[1:]
            if of[0].claim == claim
        ]
        room = _MOST_DEVICES - sum(grant.claim == claim for grant in self.grants) - sum(later)
        for chosen in requests[0]:
            if 0 < chosen.wanted <= room and self._takes(chosen, chosen.wanted, 0, requests[1:]):
                return True
        return False

    def _takes(
        self, chosen: _Alternative, wanted: int, start: int, later: Sequence[Sequence[_Alternative]]
    ) -> bool:
        """Whether so many candidates from a position on, and all later requests, can be served.

        As many candidates as wanted must remain, so that All takes every one.
        """
        if not wanted:
            return self._completes(later)
        for place in range(start, len(chosen.candidates) - wanted + 1):
            new = Grant(chosen.claim, chosen.request, chosen.terms, *chosen.candidates[place])
            if self._may_give(new):
                self.grants.append(new)
                if self._takes(chosen, wanted - 1, place + 1, later):
                    return True
                self.grants.pop()
        return False

    def _may_give(self, new: Grant) -> bool:
        has, grants, book, device = self.features.has, self.grants, self.book, new.device
        if device.device.consumes_counters and not has("DRAPartitionableDevices"):
            return False
        of_claim = [*(grant for grant in grants if grant.claim == new.claim), new]
        return (
            is_free(grants, new, book)
            and (not has("DRADeviceTaints") or tolerates(new.terms, device.taints))
            and fits_capacity(grants, new, book)
            and fits_counters(grants, new, book, self.counter_sets[device.id[:2]])
            and fits_within(grants, new, self.within)
            and (not has("DRADeviceCompatibilityGroups") or is_compatible(grants, new, book))
            and all(
                self._keeps(of_claim, constraint)
                for constraint in self.claims[new.claim].constraints
            )
        )

    def _keeps(self, grants: Sequence[Grant], constraint: Any) -> bool:
        return keeps_constraint(grants, constraint, self.features.has("DRAListTypeAttributes"))

    # --- before the search: errors are those of section 6

    def _stop(self, code: str, claim: Any, message: str) -> _StopError:
        return _StopError(Problem(code, claim.name, message))

    def _need(self, gate: str, claim: Any, name: str) -> None:
        if not self.features.has(gate):
            raise self._stop("feature_disabled", claim, f"request {name}: {gate} is off")

    def _requests(self, number: int, claim: Any) -> list[list[_Alternative]]:
        """Return the alternatives of each request of a claim."""
        requests = [
            [
                self._alternative(number, claim, name, terms)
                for name, terms in self._terms(claim, of)
            ]
            for of in claim.requests
        ]
        least = sum(min(alternative.wanted for alternative in request) for request in requests)
        if least > _MOST_DEVICES:
            raise self._stop("too_many_devices", claim, f"{least} devices, {_MOST_DEVICES} at most")
        for constraint in claim.constraints:
            is_distinct = constraint.distinct_attribute and self.features.has(
                "DRAConsumableCapacity"
            )
            if not constraint.match_attribute and not is_distinct:
                raise self._stop("unsupported_constraint", claim, "of unknown type, or it is off")
        return requests

    def _terms(self, claim: Any, request: Any) -> Iterator[tuple[str, Any]]:
        if request.exactly:
            yield request.name, request.exactly
        for sub in request.first_available:
            self._need("DRAPrioritizedList", claim, request.name)
            yield f"{request.name}/{sub.name}", sub

    def _alternative(self, number: int, claim: Any, name: str, terms: Any) -> _Alternative:
        if terms.capacity is not None:
            self._need("DRAConsumableCapacity", claim, name)
        if terms.admin_access is not None:
            self._need("DRAAdminAccess", claim, name)
        class_name, mode = terms.device_class_name, terms.allocation_mode
        if class_name not in self.classes:
            code = "class_not_found" if class_name else "missing_class"
            raise self._stop(code, claim, f"request {name}: no device class {class_name!r}")
        selectors = (*self.classes[class_name].selectors, *terms.selectors)
        if any(selector.cel is None for selector in selectors):
            raise self._stop("unsupported_selector", claim, f"request {name}: not of CEL")
        if mode not in ("ExactCount", "All"):
            raise self._stop("unsupported_mode", claim, f"request {name}: {mode!r}")
        for pool in self.pools if mode == "All" else ():
            if pool.state != "complete":
                message = f"request {name}: {pool.driver}/{pool.name} is {pool.state}"
                raise self._stop(f"pool_{pool.state}", claim, message)
        expressions = [selector.cel.expression for selector in selectors]
        candidates = [
            (device, consumed)
            for pool in self.pools
            for device in pool.devices
            for consumed in self._consumed(claim, name, terms, expressions, device)
        ]
        if mode != "All":
            return _Alternative(number, name, terms, terms.count or 1, candidates)
        every = [Grant(number, name, terms, *each) for each in candidates]
        if not all(self._keeps(every, constraint) for constraint in claim.constraints):
            message = f"request {name}: all devices together break a constraint"
            self.problems.append(Problem("all_mode_constraint", claim.name, message))
        return _Alternative(number, name, terms, len(candidates), candidates)

    def _consumed(
        self, claim: Any, name: str, terms: Any, expressions: list[str], device: Any
    ) -> Iterator[Any]:
        """Yield what a request consumes of a candidate; ``None`` for a whole device (2.6)."""
        own, has, every = device.device, self.features.has, terms.allocation_mode == "All"
        gates = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if own.binding_conditions and not all(map(has, gates)):
            return
        if "" in self.book.shares.get(device.id, ()) and not every and not terms.admin_access:
            return  # its selectors are not evaluated
        try:
            if not all(self._satisfies(device, expression) for expression in expressions):
                return
        except Exception as error:
            code = "cel_compile" if isinstance(error, SyntaxError) else "cel_runtime"
            message = f"request {name}, device {'/'.join(device.id)}: {error}"
            if every:
                raise self._stop(code, claim, message) from None
            self.problems.append(Problem(code, claim.name, message))
            return
        consumed = consumption(terms, own) if has("DRAConsumableCapacity") else {}
        if consumed is None:
            return
        is_share = own.allow_multiple_allocations and has("DRAConsumableCapacity")
        if not is_share or terms.admin_access:
            yield None
        elif fits_capacity([], Grant(0, name, terms, device, consumed), self.book):
            yield consumed

    def _satisfies(self, device: Any, expression: str) -> bool:
        unknown = [
            name for name, attribute in device.device.attributes.items() if not attribute.kind
        ]
        if unknown:
            raise ValueError(f"attribute {unknown[0]} is of an unknown type")
        lists = [name for name, of in device.device.attributes.items() if of.is_list]
        if lists and not self.features.reads_lists:
            raise ValueError(f"attribute {lists[0]} is a list; DRAListTypeAttributes is off")
        return self.matches(expression, device)
