"""The search: the first answer in the order of requests, alternatives and devices.

First, what can be said of each alternative of each request alone: its class, its selectors, its
candidates. Then, depth first, the requests of all claims in their order, the alternatives of each,
the candidates of each in the order of the pools, as far as the rules let them pass. Mode "first"
takes the first answer, which is the smallest sequence of such decisions (8); "best" that with the
smallest vector of alternatives, whatever its devices (3.4).

Upstream's search stops at the first error that it meets. Here a device on which a selector fails,
and an All request that breaks a constraint by itself, are no candidates; they are an error only if
there is no other answer. So no outcome depends on the order of the search.
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
    claim: str  # "": of no single claim
    message: str


class Decision(NamedTuple):
    """The answer to all claims of a call: an allocation for each, or none."""

    outcome: Literal["allocated", "unsatisfiable", "error"]
    allocations: tuple[dict[str, Any], ...] = ()
    problems: tuple[Problem, ...] = ()  # of an error the first is the reason


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
    candidates: list[tuple[Any, Any]]  # devices, and what a share of it consumes


class _StopError(Exception):
    pass


class Allocator:
    """Answers for one node.

    :param pools: of the node, in their order; of `hivecore.dra.gather_pools`.
    :param classes: device classes by name.
    :param book: what is allocated: ``shares`` by device and id ("": the whole), what those consume,
        and the ``charges`` of devices in use by pool; as `hivecore.dra` keeps it.
    :param matches: whether a device satisfies an expression; raises `SyntaxError` for one that is
        no CEL, and any other exception where it fails on the device.
    :param write: writes an allocation, as `hivecore.dra.result.write_allocation` does.
    :param share_id: makes the ids of shares.
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
        """Devices for all claims together, which take no more than they may; nothing changes."""
        self.within = within or {}
        self.claims, self.grants, self.problems = claims, list[Grant](), list[Problem]()
        try:
            requests = [one for i, claim in enumerate(claims) for one in self._requests(i, claim)]
        except _StopError as stop:
            return Decision("error", (), stop.args)
        vectors = ([[one] for one in vector] for vector in product(*requests))
        for choices in vectors if mode == "best" else [requests]:
            if self._completes(choices):
                return Decision("allocated", tuple(self._written()), tuple(self.problems))
        if within:  # without limits there may be an answer, or a reason why there is none
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
        """Whether these requests can be served beside the grants so far."""
        if not requests:
            return True
        claim = requests[0][0].claim
        later = [min(one.wanted for one in of) for of in requests[1:] if of[0].claim == claim]
        room = _MOST_DEVICES - sum(one.claim == claim for one in self.grants) - sum(later)
        for chosen in requests[0]:
            if 0 < chosen.wanted <= room and self._takes(chosen, chosen.wanted, 0, requests[1:]):
                return True
        return False

    def _takes(
        self, chosen: _Alternative, wanted: int, start: int, later: Sequence[Sequence[_Alternative]]
    ) -> bool:
        """Whether so many candidates from a place on, and all later requests, can be served.

        As many candidates as are wanted must be left: so All takes each or none.
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
        of_claim = [*(one for one in grants if one.claim == new.claim), new]
        return (
            is_free(grants, new, book)
            and (not has("DRADeviceTaints") or tolerates(new.terms, device.taints))
            and fits_capacity(grants, new, book)
            and fits_counters(grants, new, book, self.counter_sets[device.id[:2]])
            and fits_within(grants, new, self.within)
            and (not has("DRADeviceCompatibilityGroups") or is_compatible(grants, new, book))
            and all(self._keeps(of_claim, one) for one in self.claims[new.claim].constraints)
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
        """The alternatives of each request of a claim."""
        requests = [
            [
                self._alternative(number, claim, name, terms)
                for name, terms in self._terms(claim, of)
            ]
            for of in claim.requests
        ]
        least = sum(min(one.wanted for one in request) for request in requests)
        if least > _MOST_DEVICES:
            raise self._stop("too_many_devices", claim, f"{least} devices, {_MOST_DEVICES} at most")
        for one in claim.constraints:
            is_distinct = one.distinct_attribute and self.features.has("DRAConsumableCapacity")
            if not one.match_attribute and not is_distinct:
                raise self._stop("unsupported_constraint", claim, "of unknown type, or it is off")
        return requests

    def _terms(self, claim: Any, request: Any) -> Iterator[tuple[str, Any]]:
        if request.exactly:
            yield request.name, request.exactly
        for one in request.first_available:
            self._need("DRAPrioritizedList", claim, request.name)
            yield f"{request.name}/{one.name}", one

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
        if not all(self._keeps(every, one) for one in claim.constraints):
            message = f"request {name}: all devices together break a constraint"
            self.problems.append(Problem("all_mode_constraint", claim.name, message))
        return _Alternative(number, name, terms, len(candidates), candidates)

    def _consumed(
        self, claim: Any, name: str, terms: Any, expressions: list[str], device: Any
    ) -> Iterator[Any]:
        """What a request consumes of a candidate, ``None``: it is given as a whole (2.6)."""
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
        unknown = [name for name, one in device.device.attributes.items() if not one.kind]
        if unknown:
            raise ValueError(f"attribute {unknown[0]} is of an unknown type")
        return self.matches(expression, device)
