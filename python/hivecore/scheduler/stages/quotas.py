"""Quotas: admits units, and proposes units that must return what they borrow."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from fractions import Fraction
from math import ceil
from typing import Literal, Self

from hivecore._record import renamed
from hivecore._thousandths import THOUSAND, Amount, as_number, exact, of_thousandths
from hivecore.decisions import Refusal
from hivecore.quotas import QuotaDecision, QuotaRequest, QuotaTree
from hivecore.scheduler.job import Job
from hivecore.scheduler.stages.stage import Audited, Offer, Stage
from hivecore.scheduler.stages.units import (
    BEGUN,
    LEAST_PRIORITY,
    Key,
    Kind,
    Refused,
    Taking,
    Unit,
    owner_of,
    quota_name,
    taking_of,
)

__all__ = ["HEADROOM", "LIMITS", "OVERUSED", "Limit", "QuotaStage"]

Limit = Literal["runtime", "max", "total"]
#: Refusals that end once there is enough headroom.
LIMITS: tuple[Limit, ...] = ("runtime", "max", "total")
#: Limits or usage have changed.
HEADROOM = ("quotas", "headroom")
#: A quota may exceed its runtime now, so that others may reclaim.
OVERUSED = ("quotas", "overused")
#: Units that are refused for another reason than a limit.
_ANY = ("quotas", "any")


#: suffix of the name under which a unit's devices are charged
_DEVICES = "//devices"


def _of_devices(unit: str) -> str:
    return f"{unit}{_DEVICES}"


class QuotaStage(Stage):
    """A `QuotaTree`: units request until they end; a start admits them, a preemption evicts."""

    name = "quotas"
    honours = frozenset(("quota", "resources"))
    part: QuotaTree

    def __init__(self, tree: QuotaTree) -> None:
        self.part = tree
        #: whether starts never exceed a runtime
        self.is_kept = tree.limit == "runtime" and tree.check_ancestors
        #: quotas whose running units changed since the last `settle`
        self.stirred: set[str] = set()
        #: by quota and request, the kinds of units on idle cells and of victims
        self._passing: dict[str, dict[str, Kind]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self.forget()

    def branch(self) -> Self:
        """A copy for a branch."""
        branch = type(self)(self.part.copy())
        branch.stirred = self.stirred.copy()
        branch._passing = {quota: units.copy() for quota, units in self._passing.items()}
        return branch

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of a kind can never be admitted; "" if they can."""
        job = kind.job
        if job.quota not in self.places:
            near = get_close_matches(job.quota, self.part.quotas, n=1, cutoff=0.6)
            meant = f"; is {near[0]!r} meant?" if near else ""
            return f"there is no quota {job.quota!r}{meant}"
        amounts = kind.amounts
        for name in self._path(job.quota):
            quota = self.declared[name]
            limits = [("max", quota.max)]
            if name == job.quota and not job.preemptible:
                least = dict(quota.min)
                limits.append(("min", tuple([(of, least.get(of, 0)) for of, _ in quota.max])))
            for what, most in limits:
                for dimension, limit in most:
                    if amounts.get(dimension, 0) > limit:
                        return (
                            f"asks for {amounts[dimension]} of {dimension!r}, and {what} of "
                            f"{name!r} is {limit}"
                        )
        return "" if growing else self._beyond_total(kind)

    def _beyond_total(self, kind: Kind) -> str:
        """Why a tree never has as much as units of a kind request; "" if it has."""
        tree, quota = self.part, self.declared[kind.job.quota]
        top = self.declared[self._path(quota.name)[-1]]
        if top.outside or not (tree.check_ancestors or tree.limit == "runtime"):
            return ""
        total, limited = tree.total(top.tree), dict(quota.max)
        for dimension, amount in kind.amounts.items():
            in_all = total.get(dimension, 0)
            if dimension in limited and amount > in_all:
                in_all += self._used_outside(top.tree, dimension)
                if amount > in_all:
                    known = (
                        f"there are {in_all} in all" if in_all else "the total has none: set_total"
                    )
                    return f"asks for {amount} of {dimension!r}, and {known}"
        return ""

    def _used_outside(self, of_tree: str, dimension: str) -> Amount:
        """The usage of outside quotas, which a tree's total gets back as owners end. O(quotas)."""
        tops = [quota for quota in self.declared.values() if quota.outside]
        used = [self.part.status(top.name).used for top in tops if top.tree == of_tree]
        return exact(sum((amounts.get(dimension, 0) for amounts in used), start=0))

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the quota of a job, or an ancestor, limits a resource."""
        if job.quota not in self.places:
            return True  # such a job is rejected
        return any(resource in dict(self.declared[name].max) for name in self._path(job.quota))

    def is_outside(self, quota: str) -> bool:
        """Whether the usage of a quota reduces the total of the others."""
        return self.part.quota(quota).outside

    def submit(self, unit: Unit) -> None:
        """Add the unit's request to the tree."""
        self.part.submit(renamed(unit.kind.quota_request, unit.name))

    def withdraw(self, unit: Unit) -> None:
        """Remove the unit's request from the tree."""
        request = unit.request
        if self.part.members(request):
            self.stir(unit)
        self.part.release(request)

    def evict(self, unit: Unit, reclaimed: bool) -> None:
        """Withdraw the admission of a unit; a reclaimed unit must not borrow again at once."""
        self.part.evict(unit.request, reclaimed=reclaimed)
        self.stir(unit)

    def note_passing(self, units: Iterable[Unit]) -> None:
        """Record units that became victims, or, while a state is read, run on idle cells."""
        for unit in units:
            self.stir(unit, is_passing=True)

    def exchange(self, holders: Mapping[str, str]) -> None:
        """Admit each new holder instead of the old one."""
        admitted = {old: old for old in holders}  # by place, named after the old holder
        places = dict(admitted)
        for place, new in holders.items():
            before = admitted[place]
            if before == new:
                continue
            self.part.exchange(before, new)
            other = places.pop(new, None)
            del places[before]
            admitted[place], places[new] = new, place
            if other is not None:
                admitted[other], places[before] = before, other

    def stir(self, unit: Unit, is_passing: bool = False) -> None:
        """Note that a quota's running units changed, or are victims or on idle cells now."""
        quota = unit.kind.job.quota
        if quota not in self.stirred:
            self.log.note(self.stirred.discard, quota)
            self.stirred.add(quota)
        if is_passing or (quota in self._passing and unit.request in self._passing[quota]):
            passing, request = self._passing.setdefault(quota, {}), unit.request
            self.log.keep(passing, request)
            passing[request] = unit.kind
            if not is_passing:
                del passing[request]

    def settle(self) -> None:
        """Forget which quotas have changed."""
        self.log.set(self, "stirred", set())

    def propose(self, offer: Offer) -> Refused | None:
        """Admit a unit, unless its quota is charged already."""
        if offer.unit.has_quota:
            return None
        decision = self.part.schedule(offer.unit.request)
        if decision.outcome == "bind":
            offer.decisions[self.name] = decision
            return None
        return self._refused(offer.unit.kind, decision)

    def admit(self, unit: Unit) -> Refused | QuotaDecision:
        """Charge a unit's quota at once; or return a refusal."""
        decision = self.part.admit(unit.request)
        return decision if decision.outcome == "bind" else self._refused(unit.kind, decision)

    def take_back(self, unit: Unit) -> None:
        """Undo `admit`, as another stage refuses. No other unit was admitted since."""
        self.part.take_back(unit.request)

    # --- capacities and counters of claimed devices, which are known once claims are allocated

    def charge_devices(self, offer: Offer) -> Refused | None:
        """Charge what the devices of an offer's claims take, as far as quotas limit it."""
        request = self._request_for_devices(offer)
        if request is None:
            return None
        try:
            self.part.submit(request)
        except ValueError as error:  # beyond what a tree can count
            return Refused(Refusal(self.name, "max", str(error), request.quota), (HEADROOM,))
        of_unit = [] if offer.unit.has_quota else [offer.unit.request]
        decision = self.part.schedule([*of_unit, request.name])
        if decision.outcome == "bind":
            offer.decisions[self.name] = decision
            return None
        self.part.release(request.name)
        return self._refused(offer.unit.kind, decision)

    def most_for_devices(self, unit: Unit) -> dict[Taking, Fraction]:
        """The most that the devices of a unit may take, in each dimension by itself, so that its
        quota admits it; empty if that does not depend on devices.
        """
        kind, own = unit.kind, [] if unit.has_quota else [unit.request]
        request = kind.quota_request.replace(name=_of_devices(unit.name), amounts={})
        most: dict[Taking, Fraction] = {}
        for name, (taking, limit) in self._limits_for_devices(kind).items():

            def admits(amount: Amount, name: str = name) -> bool:
                with suppress(ValueError):  # beyond what a tree can count
                    return self.part.fits([*own, request.replace(amounts={name: amount})])
                return False

            if not admits(0):
                return {}
            whole, parts = _largest(admits, int(limit)), 0
            if self.part.runtimes([name]).dtype.kind == "f":  # counted in thousandths

                def admits_parts(number: int, whole: int = whole) -> bool:
                    return admits(of_thousandths(whole * THOUSAND + number))

                parts = _largest(admits_parts, THOUSAND - 1)
            before = Fraction(kind.amounts.get(name, 0))
            most[taking] = whole + Fraction(parts, THOUSAND) + before
        return most

    def charged_for_devices(self, unit: Unit) -> dict[Taking, Fraction]:
        """What the devices of a unit may take within its present charge."""
        charged = Counter(unit.kind.amounts)
        with suppress(KeyError):
            charged.update(dict(self.part.request(_of_devices(unit.name)).amounts))
        limits = self._limits_for_devices(unit.kind)
        return {taking: Fraction(charged[name]) for name, (taking, _) in limits.items()}

    def _limits_for_devices(self, kind: Kind) -> dict[str, tuple[Taking, Amount]]:
        """The dimensions that count what devices of a kind take, with their maxima."""
        classes = kind.device_classes
        return {
            name: (taking, most)
            for of in self._path(kind.job.quota)
            for name, most in self.declared[of].max
            if (taking := taking_of(name)) and taking[0] in classes
        }

    def _request_for_devices(self, offer: Offer) -> QuotaRequest | None:
        """What an offer takes beyond its first request; None: nothing."""
        if not offer.granted:
            return None
        kind = offer.unit.kind
        limited = self._limits_for_devices(kind)
        taken: dict[str, Fraction] = {}
        for _, decision, numbers in offer.granted.values():
            for key, amount in (item for i in numbers for item in decision.taken_of(i).items()):
                if (name := quota_name(key)) in limited:
                    taken[name] = taken.get(name, 0) + amount
        rounded = {name: of_thousandths(ceil(of * THOUSAND)) for name, of in taken.items()}
        amounts = {name: exact(of - kind.amounts.get(name, 0)) for name, of in rounded.items()}
        name = _of_devices(offer.unit.name)
        return (
            kind.quota_request.replace(name=name, amounts=amounts)
            if any(amounts.values())
            else None
        )

    def _uncharge_devices(self, unit: Unit) -> None:
        if unit.kind.has_claims:
            with suppress(KeyError):
                self.part.release(_of_devices(unit.name))

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Release the charge for a unit's devices."""
        self._uncharge_devices(unit)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the charge for devices to another job."""
        if unit.kind.has_claims:
            with suppress(KeyError):
                request = self.part.request(_of_devices(old))
                self.part.release(request.name)
                self.part.recover(request.replace(name=_of_devices(new)), 1)

    def first_refused(self, units: Sequence[Unit]) -> tuple[int, Refused] | None:
        """The first unit that is refused if these are admitted in turn; None if none is."""
        for at, decision in enumerate(self.part.schedule_many([unit.request for unit in units])):
            if decision.outcome != "bind":
                return at, self._refused(units[at].kind, decision)
        return None

    def _refused(self, kind: Kind, decision: QuotaDecision) -> Refused:
        if decision.refusal is not None:
            return Refused(decision.refusal, self._retry_on(decision.refusal))
        refusal = Refusal(self.name, "reclaim", decision.reason, kind.job.quota)
        return Refused(refusal, (_ANY,), decision.victims)

    def _retry_on(self, refusal: Refusal) -> tuple[Key, ...]:
        # a job that must not borrow may evict lower jobs of its quota once they start
        return (HEADROOM,) if refusal.code in LIMITS else (_ANY, BEGUN)

    def still_refused(self, kind: Kind, request: str) -> Refused | None:
        """Why a waiting unit is refused now; None if it is worth a try."""
        if self.part.members(request):
            return None  # it is charged already, apart from its devices
        decision = self.part.schedule(request)
        if decision.refusal is not None:
            return Refused(decision.refusal, self._retry_on(decision.refusal))
        return None if decision.outcome == "bind" else self._refused(kind, decision)

    def commit(self, offer: Offer) -> None:
        """Charge the quota."""
        decision = offer.decisions.get(self.name)
        if decision is not None:
            self.part.commit(decision)
        self.stir(offer.unit, offer.unit.kind.is_lent)

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Charge a unit for what its victims free later; the victims are charged as well."""
        if not unit.has_quota:
            self.adopt(unit)
        self.recharge_devices(unit, offer)

    def adopt(self, unit: Unit) -> None:
        """Charge a unit regardless of limits."""
        self.stir(unit)
        request = self.part.request(unit.request)
        self.part.release(request.name)
        self.part.recover(request, request.count)

    def recharge_devices(self, unit: Unit, offer: Offer) -> None:
        """Charge the devices of an offer regardless of limits, as victims leave."""
        self._uncharge_devices(unit)
        request = self._request_for_devices(offer)
        if request is not None:
            self.part.recover(request, 1)

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release the charge for a unit."""
        self._uncharge_devices(unit)
        if not unit.has_quota:
            self.evict(unit, False)

    def less_important(self, unit: Unit) -> tuple[str, ...]:
        """Units of lower priority in its quota whose eviction would admit a unit; empty if that is
        not enough, another quota refuses it, or only its devices are refused.
        """
        return () if unit.has_quota else self.part.preempt_within(unit.request).victims

    def has_less_important(self, unit: Unit) -> bool:
        """Whether units of lower priority run in the same quota."""
        request = unit.kind.quota_request
        return bool(self.part.used_below(request.quota, request.priority))

    def check_holds(self, unit: Unit) -> None:
        """Raise `KeyError` unless the tree knows the unit."""
        self.part.members(unit.request)

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The keys of changed runtimes, as when a unit begins or ceases to wait."""
        return HEADROOM, _ANY, OVERUSED

    def begun(self, kind: Kind) -> tuple[Key, ...]:
        """The key of over-used quotas, unless starts never exceed a runtime."""
        return () if self.is_kept else (OVERUSED,)

    def _path(self, name: str) -> tuple[str, ...]:
        """A quota and its ancestors."""
        known = self._paths.get(name)
        if known is None:
            path = [name]
            while parent := self.declared[path[-1]].parent:
                path.append(parent)
            known = self._paths[name] = tuple(path)
        return known

    def forget(self) -> None:
        """Read the quotas again."""
        self._paths.clear()
        self.declared = {name: self.part.quota(name) for name in self.part.quotas}
        of_all = self.declared.values()
        self.parents = {quota.parent for quota in of_all}
        self.places = {name: place for place, name in enumerate(self.declared)}
        #: whether a quota limits what devices of claims take
        self._counts_devices = any(taking_of(of) for quota in of_all for of, _ in quota.max)
        #: the last result of `lending`, and the over-used quotas that it depends on
        self._lending = frozenset[str](), frozenset[str]()

    def faults(self, audited: Audited) -> Iterator[str]:
        """Units that hold resources and are not admitted, or the reverse."""
        for unit in audited.units:
            members = self.part.members(unit.request)
            if not unit.kind.is_lent and members != (
                unit.name in audited.holders or unit.has_quota
            ):
                yield f"unit {unit.name!r}: {members} members are admitted"
        charged = {name for name in self.part.owners if name.endswith(_DEVICES)}
        for name in charged - {_of_devices(name) for name in audited.holders}:
            yield f"{name!r} is charged for devices"

    def not_admitted(self, unit: Unit) -> str:
        """Why the quotas would not admit a unit now; "" if they would."""
        decision = self.part.schedule(unit.request)
        return "" if decision.outcome == "bind" else decision.reason

    def borrows(self, unit: Unit) -> bool:
        """Whether a unit borrows, would borrow, or is refused."""
        if unit.has_quota:
            return any(unit.request in self.part.overusers(name) for name in self.part.overused())
        decision = self.part.schedule(unit.request)
        return decision.outcome == "wait" or decision.borrows

    def overusers(self, names: Iterable[tuple[str, str]], jobs: Container[str]) -> dict[str, bool]:
        """The jobs whose quota, or an ancestor, is over-used, and whether the quotas would evict
        each first. Jobs are given with their quotas.

        :param jobs: all jobs.
        """
        over = frozenset(self.part.overused())
        if not over:
            return {}
        first = self._evicted_first(over, jobs)
        return {name: name in first for name, quota in names if name in first or quota in over}

    def overuses(self, job: str, quota: str, jobs: Container[str]) -> bool:
        """Whether the quota of a job, or an ancestor, is over-used."""
        over = self.part.overused()
        return quota in over or job in self._evicted_first(over, jobs)

    def _evicted_first(self, over: Iterable[str], jobs: Container[str]) -> set[str]:
        """The jobs and units that over-used quotas would evict."""
        units = {name for quota in over for name in self.part.overusers(quota)}
        return {*units, *(owner_of(unit, jobs) for unit in units)}

    def uncharge(self, requests: Iterable[str]) -> None:
        """Release the charges for units, given by their names in the quotas."""
        for request in requests:
            self.part.evict(request)
            if self._counts_devices:
                with suppress(KeyError):
                    self.part.evict(_of_devices(request))

    def overuse(self) -> dict[str, dict[str, Amount]]:
        """For over-used quotas, the usage above the runtime in each dimension."""
        return self.part.overuse()

    def is_lending(self) -> bool:
        """Whether a quota uses more than its runtime."""
        return bool(self.part.overused())

    def lending(self) -> frozenset[str]:
        """The over-used quotas, and those below them."""
        over = frozenset(self.part.overused())
        if over != self._lending[0]:
            names = self.part.quotas if over else ()
            below = frozenset(name for name in names if not over.isdisjoint(self._path(name)))
            self._lending = over, below
        return self._lending[1]

    def others_below(self, quota: str, refusal: Refusal) -> tuple[str, ...]:
        """The other quotas below the one that refused a unit."""
        part, tree = refusal.part, self.declared[quota].tree
        if refusal.code not in LIMITS or (part == quota and quota not in self.parents):
            return ()
        return tuple(
            name
            for name in self.part.quotas
            if name != quota
            and (part in self._path(name) if part else self.declared[name].tree == tree)
        )

    def evictable(self, quota: str, priority: int = LEAST_PRIORITY) -> Mapping[str, Amount]:
        """The usage of a quota's units that may be evicted for a guaranteed unit of this priority
        in the same quota; by default, for a unit of another quota that reclaims nothing.
        """
        used, passing = self.part.used_below(quota, priority), self._passing.get(quota)
        if not passing:
            return used
        amounts = Counter[str](used)
        for kind in passing.values():
            known = kind.job.priority if kind.is_lent else kind.quota_request.priority
            if known >= priority:  # others are counted already
                amounts.update(kind.amounts)
        return dict(amounts)

    def entitled_to(self, kind: Kind) -> dict[str, Amount]:
        """What its quota must be entitled to above its usage, to get back what a unit lacks."""
        # quotas below it may have borrowed from it
        return {} if kind.job.quota in self.parents else kind.amounts

    def may_be_admitted(self, unit: Unit, refusal: Refusal) -> bool:
        """Whether a unit might be admitted without all units that it may evict. A quick check."""
        kind, own = unit.kind, unit.kind.job.quota
        if refusal.code not in LIMITS:
            return refusal.code == "evicted" and self.has_less_important(unit)
        gone = Counter(self.evictable(own, kind.quota_request.priority))
        if self._has_room(own, "runtime", self.entitled_to(kind), gone) and self.part.overused():
            return True
        for other in self.others_below(own, refusal):
            gone.update(self.evictable(other))
        return bool(gone) and self._has_room(refusal.part or own, refusal.code, kind.amounts, gone)

    def _has_room(
        self, quota: str, limit: Limit, amounts: Mapping[str, Amount], gone: Mapping[str, Amount]
    ) -> bool:
        """Whether a quota could use so much more once other units have left."""
        names = [name for name, _ in self.declared[quota].max if name in amounts]
        needs = [[as_number(amounts[name] - gone.get(name, 0)) for name in names]]
        return bool(self.part.have_room(limit, [self.places[quota]], needs, names)[0])


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to ``most`` for which a monotone condition holds; 0 always does."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if holds(middle) else (low, middle - 1)
    return low
