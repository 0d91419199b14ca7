"""Why a node cannot serve claims: what decides, found by leaving it out on copies.

A *term* is anything that can stand in the way: a constraint, a counter, a taint, a claim that holds
devices, a capacity that is requested, a selector. If the node could serve the claims without any
term, terms are put back one after the other, each only if the node can still do without the rest.
What is left is needed as a whole: with any single term put back, the node cannot serve the claims.
Terms that say least, such as selectors, are put back first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from hivecore._arguments import show, some
from hivecore._quantities import write_exactly
from hivecore._record import Record
from hivecore.dra.claim import DeviceConstraint, ResourceClaim
from hivecore.dra.decision import ClaimDecision, ClaimOutcome
from hivecore.dra.device import Counter, CounterConsumption, DeviceId, Toleration
from hivecore.dra.pools import Pool
from hivecore.dra.proof import ClusterFacts
from hivecore.dra.resource_slice import ResourceSlice

__all__ = ["ClaimExplanation", "World", "deciding_terms", "explanation_of", "world_of"]

_ANY_TAINT = Toleration(operator="Exists")
_MOST_OWNERS = 32  # claims that are tried one by one


class ClaimExplanation(Record, frozen=True):
    """Why a node can or cannot serve claims.

    :param node: its name.
    :param outcome: as of `ClaimDecision`.
    :param reason: as of `ClaimDecision`, with what the texts below say; "" if it can.
    :param deciding: what together stands in the way if the outcome is "unsatisfiable", one text for
        each: without all of it the node would serve the claims, and with any of it it would not.
        Empty if nothing of the kind would help, or the search for it reached its limit of work;
        where a part of that search did, a text that is not needed may stand among them.
    :param pools: one text for each incomplete or invalid pool; empty if the node can serve.
    """

    node: str
    outcome: ClaimOutcome
    reason: str
    deciding: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


class World(NamedTuple):
    """A node, what it can use, and the claims that ask for it.

    :param owners: of devices.
    :param charges: the counters that each device in use was charged.
    """

    slices: tuple[ResourceSlice, ...]
    owners: tuple[str, ...]
    charges: Mapping[DeviceId, tuple[CounterConsumption, ...]]
    claims: tuple[ResourceClaim, ...]


class _Term(NamedTuple):
    text: str
    without: Callable[[World], World]


def explanation_of(
    decision: ClaimDecision,
    pools: Sequence[Pool],
    facts: ClusterFacts,
    fits: Callable[[World], bool],
) -> ClaimExplanation:
    """Return why a decision on a node is what it is.

    :param pools: that the node sees.
    :param fits: as of `deciding_terms`.
    """
    outcome = decision.outcome
    if outcome == "allocated":
        return ClaimExplanation(decision.node, outcome, "")
    unusable = tuple(
        f"pool {pool.driver}/{pool.name} is {pool.state}: {pool.reason}"
        for pool in pools
        if pool.state != "complete"
    )
    reason, terms = decision.reason, tuple[str, ...]()
    if outcome == "unknown":
        reason = f"not known after {decision.work} steps"
    elif outcome == "error":
        reason = decision.problems[0].message
    else:
        terms = deciding_terms(world_of(facts, pools, decision.claims), pools, facts, fits)
    texts = [reason] if reason else []
    if terms:
        texts.append(f"it would fit without {' together with '.join(terms)}")
    return ClaimExplanation(decision.node, outcome, "; ".join([*texts, *unusable]), terms, unusable)


def world_of(facts: ClusterFacts, pools: Iterable[Pool], claims: Sequence[ResourceClaim]) -> World:
    """Return what matters of a cluster for a node that sees these pools."""
    seen = {(pool.driver, pool.name) for pool in pools}
    slices = tuple(of for of in facts.slices if (of.driver, of.pool.name) in seen)
    owners = tuple(
        owner
        for owner, entries in facts.held.items()
        if any(device[:2] in seen for device, _, _ in entries)
    )
    charges = {device: tuple(of) for device, of in facts.charges.items() if device[:2] in seen}
    return World(slices, owners, charges, tuple(claims))


def deciding_terms(
    world: World, pools: Iterable[Pool], facts: ClusterFacts, fits: Callable[[World], bool]
) -> tuple[str, ...]:
    """Return what stands in the way, see `ClaimExplanation`.

    :param fits: whether the claims of a world can be served in it.

    Cost: a search for each term.
    """
    terms = list(_terms(world, list(pools), facts))
    if not fits(_without(world, terms)):
        return ()
    for term in reversed(terms):
        others = [other for other in terms if other is not term]
        if fits(_without(world, others)):
            terms = others
    return tuple(term.text for term in terms)


def _without(world: World, terms: Iterable[_Term]) -> World:
    for term in terms:
        world = term.without(world)
    return world


def _terms(world: World, pools: Sequence[Pool], facts: ClusterFacts) -> Iterator[_Term]:
    """Yield the terms, what says most first."""
    yield from _constraints(world)
    yield from _counters(pools, facts)
    yield from _groups(pools)
    taints = dict.fromkeys(
        f"{taint.key}:{taint.effect}"
        for pool in pools
        for device in pool.devices
        for taint in device.taints
        if taint.effect != "None"
    )
    if taints:
        yield _Term(f"taints that requests do not tolerate: {some(taints)}", _tolerating)
    yield from _owners(world)
    for number, claim in enumerate(world.claims):
        for request in claim.requests:
            path = f"requests[{request.name}]"
            every = [term for term in (request.exactly, *request.first_available) if term]
            if any(term.capacity and term.capacity.requests for term in every):
                names = dict.fromkeys(
                    name for term in every if term.capacity for name in term.capacity.requests
                )
                what = f"the capacity {some(names)} of {path}"
                yield _Term(what, _changing(number, request.name, capacity=None))
            if any(term.selectors for term in every):
                what = f"the selectors of {path}"
                yield _Term(what, _changing(number, request.name, selectors=()))


def _constraints(world: World) -> Iterator[_Term]:
    for number, claim in enumerate(world.claims):
        for i, constraint in enumerate(claim.constraints):
            what = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
            name = constraint.match_attribute or constraint.distinct_attribute
            text = f"constraints[{i}].{what} {name}"
            if len(world.claims) > 1:
                text += f" of claim {show(claim.name)}"

            yield _Term(text, _unconstrained(number, constraint))


def _unconstrained(number: int, constraint: DeviceConstraint) -> Callable[[World], World]:
    def change(claim: ResourceClaim) -> ResourceClaim:
        kept = tuple(of for of in claim.constraints if of is not constraint)
        return claim.replace(constraints=kept)

    return lambda world: _changed(world, number, change)


def _counters(pools: Sequence[Pool], facts: ClusterFacts) -> Iterator[_Term]:
    for pool in pools:
        names = dict.fromkeys(name for of in pool.counter_sets.values() for name in of)
        taken: dict[tuple[str, str], Fraction] = {}
        for device, uses in facts.charges.items():
            for use in uses if device[:2] == (pool.driver, pool.name) else ():
                for name, of in use.counters.items():
                    key = use.counter_set, name
                    taken[key] = taken.get(key, Fraction()) + of.value
        for name in names:
            sets = {
                of: f"{write_exactly(left)} of {write_exactly(counters[name])} in set {of}"
                for of, counters in pool.counter_sets.items()
                if name in counters
                for left in [counters[name] - taken.get((of, name), 0)]
            }
            text = f"the counter {name} of pool {pool.driver}/{pool.name}, which has left "
            yield _Term(text + some(sets.values()), _uncounted(pool, name))


def _uncounted(pool: Pool, name: str) -> Callable[[World], World]:
    """Return a change after which the pool's devices, in use or not, take nothing of a counter."""

    def spared(uses: Iterable[CounterConsumption]) -> tuple[CounterConsumption, ...]:
        nothing = {name: Counter(Fraction())}
        return tuple(
            use.replace(counters={**use.counters, **nothing}) if name in use.counters else use
            for use in uses
        )

    return lambda world: _consuming(world, (pool.driver, pool.name), spared)


def _groups(pools: Sequence[Pool]) -> Iterator[_Term]:
    uses = [use for pool in pools for of in pool.devices for use in of.device.consumes_counters]
    names = dict.fromkeys(group for use in uses for group in use.compatibility_groups)
    if names:
        yield _Term(f"the compatibility groups {some(names)} of devices", _ungrouped)


def _ungrouped(world: World) -> World:
    def without(uses: Iterable[CounterConsumption]) -> tuple[CounterConsumption, ...]:
        return tuple(use.replace(compatibility_groups=()) for use in uses)

    return _consuming(world, None, without)


def _consuming(
    world: World,
    pool: tuple[str, str] | None,
    change: Callable[[Iterable[CounterConsumption]], tuple[CounterConsumption, ...]],
) -> World:
    """Return a world in which the devices of a pool, or all, consume other counters."""

    def changed(of: ResourceSlice) -> ResourceSlice:
        if pool not in (None, (of.driver, of.pool.name)):
            return of
        devices = tuple(
            device.replace(consumes_counters=change(device.consumes_counters))
            for device in of.devices
        )
        return of.replace(devices=devices)

    charges = {
        device: change(uses) if pool in (None, device[:2]) else uses
        for device, uses in world.charges.items()
    }
    return world._replace(slices=tuple(map(changed, world.slices)), charges=charges)


def _owners(world: World) -> Iterator[_Term]:
    owners = list(world.owners)
    groups = [[owner] for owner in owners] if len(owners) <= _MOST_OWNERS else [owners]
    for group in groups:
        of_claims = "claim" if len(group) == 1 else "claims"

        def without(world: World, gone: frozenset[str] = frozenset(group)) -> World:
            return world._replace(owners=tuple(of for of in world.owners if of not in gone))

        yield _Term(f"the devices of {of_claims} {some(map(show, group))}", without)


def _tolerating(world: World) -> World:
    for number in range(len(world.claims)):

        def change(claim: ResourceClaim) -> ResourceClaim:
            return _with_terms(claim, None, tolerations=(_ANY_TAINT,))

        world = _changed(world, number, change)
    return world


def _changing(number: int, request: str, **fields: Any) -> Callable[[World], World]:
    return lambda world: _changed(
        world, number, lambda claim: _with_terms(claim, request, **fields)
    )


def _changed(world: World, number: int, change: Callable[[ResourceClaim], ResourceClaim]) -> World:
    claims = [change(claim) if i == number else claim for i, claim in enumerate(world.claims)]
    return world._replace(claims=tuple(claims))


def _with_terms(claim: ResourceClaim, name: str | None, **fields: Any) -> ResourceClaim:
    """Return a claim in which a request, or each, has these fields in all its alternatives."""
    requests = tuple(
        request
        if name not in (None, request.name)
        else request.replace(
            exactly=request.exactly and request.exactly.replace(**fields),
            first_available=tuple(sub.replace(**fields) for sub in request.first_available),
        )
        for request in claim.requests
    )
    return claim.replace(requests=requests)
