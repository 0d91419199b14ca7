"""Kinds of claims that a cluster has seen, in the kernel's form, with their cached answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import lcm
from typing import Any, TypeAlias, TypeVar

from hivecore import _dra
from hivecore.dra._fewest import BLOCKS, Parts, blocks_of, parts_by_value
from hivecore.dra._node_class import SHARED, USED, Change, NodeClass
from hivecore.dra._numbering import Numbering, UnitOverflowError
from hivecore.dra._question import MOST_DEVICES, UNFIT, Offers, Question, Taking, values_of
from hivecore.dra.decision import Answer, ClaimFits, ClaimOutcome, Grant, vector_of
from hivecore.dra.pools import PoolDevice

__all__ = ["FEWEST", "LEAST_WASTE", "MODES", "ClaimKind", "Ranking", "Within"]

MODES = ("first", "best", "any")
#: Prefix, before `BLOCKS` or an attribute, of the mode that touches the fewest.
FEWEST = "fewest "
#: Prefix, before a capacity, of the mode that takes the least beyond the request.
LEAST_WASTE = "least waste of "
_OUTCOMES: tuple[ClaimOutcome, ...] = ("allocated", "unsatisfiable", "unknown")
_CLAIM_IS_TOO_LARGE = 2
_FEW = 512  # steps of the simple search before the exact one
Within: TypeAlias = Mapping[Taking, Fraction]
_Budgets: TypeAlias = tuple[list[int], list[int]]
_N = TypeVar("_N", int, Fraction)


class Ranking:
    """The node classes that can serve a question, by score; smaller is better.

    :param epoch: of the log of classes.
    """

    def __init__(self, epoch: int) -> None:
        self.scores: list[Any] = []  # a heap
        self.classes: dict[Any, dict[int, NodeClass]] = {}
        self.epoch, self.seen = epoch, 0  # how many entries of the log are in it

    def add(self, score: Any, node_class: NodeClass) -> None:
        """Add a class."""
        if score not in self.classes:
            self.classes[score] = {}
            heappush(self.scores, score)
        self.classes[score][id(node_class)] = node_class

    def first(self) -> str | None:
        """Return the lowest name among the nodes with the best score, or ``None``.

        Cost: O(classes with this score).
        """
        while self.scores:
            score = self.scores[0]
            classes = self.classes[score]
            used = [node_class for node_class in classes.values() if node_class.nodes]
            if len(used) < len(classes):
                self.classes[score] = {id(node_class): node_class for node_class in used}
            if used:
                return min([node_class.first() for node_class in used])
            del self.classes[heappop(self.scores)]
        return None


class ClaimKind:
    """A question, what each device profile offers for it, and its answer for each node class.

    :param matches: whether a device satisfies an expression.
    """

    def __init__(
        self,
        question: Question,
        numbering: Numbering,
        matches: Callable[[str, PoolDevice], bool],
    ) -> None:
        self.question, self._numbering, self._matches = question, numbering, matches
        self._offers: list[Offers] = []
        self._problem_profiles: set[int] = set()
        self._kernel: object = None
        self.fits: dict[str, tuple[int, ClaimFits]] = {}  # by mode, with the version of the state
        self.rankings: dict[tuple[str, str], Ranking] = {}  # by mode and preference

    def forget_profiles(self) -> None:
        """Drop cached offers, as profiles and units have new numbers."""
        self._offers.clear()
        self._problem_profiles.clear()
        self._kernel = None
        self.rankings.clear()
        self.fits.clear()

    def prepare(self) -> None:
        """Compute what all profiles offer.

        :raises FinerUnitError: an amount needs a smaller unit.
        :raises UnitOverflowError: no unit represents an amount and those of the cluster.
        """
        if self.question.problem is None:
            self._claims()

    def answer(
        self, node_class: NodeClass, mode: str, limit: int, within: Within | None = None
    ) -> Answer:
        """Return the answer for a node class; without limits, answers are cached.

        :param within: the most that all devices together may take of something.
        """
        key = self, mode, limit
        answer: Answer | None = node_class.answers.get(key)
        if answer is None:
            answer = node_class.answers[key] = self._decided(node_class, mode, limit, {})
        if not within or answer.outcome != "allocated":
            return answer
        taken = self.taken(node_class, answer)
        if all(taken.get(key, 0) <= most for key, most in within.items()):
            return answer
        return self._decided(node_class, mode, limit, within)

    def taken(self, node_class: NodeClass, answer: Answer) -> dict[Taking, Fraction]:
        """Return what the devices of an answer take."""
        profiles, devices = self._numbering.profiles, node_class.key.devices
        return answer.taken(self.question, lambda i: profiles[devices[i][0]].device)

    def _decided(self, node_class: NodeClass, mode: str, limit: int, within: Within) -> Answer:
        if mode.startswith(FEWEST):
            return self._fewest(node_class, mode.removeprefix(FEWEST), limit, within)
        if mode.startswith(LEAST_WASTE):
            return self._least_waste(node_class, mode.removeprefix(LEAST_WASTE), limit, within)
        return self._answer(node_class, mode, limit, within)

    def _least_waste(self, node_class: NodeClass, name: str, limit: int, within: Within) -> Answer:
        """Return the answer that wastes the least of a capacity, among those that take the most
        preferred alternatives of all requests.

        A binary search for the least waste, in at most `limit` steps; then the best so far.

        :param name: the capacity.
        :param limit: of steps.
        :param within: what the devices may take at most.
        """
        best = self.answer(node_class, "best", limit, within)
        if best.outcome != "allocated":
            return best
        limits, costs = self._budgets(node_class, within)
        amounts = self._costs(node_class, lambda *of: self._wasted(name, *of))
        parts = lcm(*(of.denominator for of in amounts))
        if max(amounts, default=Fraction()) * parts >= 2**62:
            what = f"what is wasted exceeds 62 bits in parts of 1/{parts}"
            raise UnitOverflowError(f"{name}: {what}")
        wasted = [int(of * parts) for of in amounts]
        devices, order, work = len(node_class.key.devices), vector_of(best), best.work

        def waste(answer: Answer) -> int:
            return sum(wasted[of.alternative * devices + of.position] for of in answer.grants)

        low, high = 0, waste(best)
        while low < high and work < limit:
            budget = (low + high) // 2
            budgets = [*limits, budget], costs + wasted
            candidate, _ = self._searched(
                node_class, node_class.kernel, "best", limit - work, budgets
            )
            work += candidate.work + 1
            if candidate.outcome == "unknown":
                break
            if candidate.outcome == "allocated" and vector_of(candidate) == order:
                best, high = candidate, waste(candidate)
            else:
                low = budget + 1
        return best._replace(work=work, fewest=(Fraction(high, parts), Fraction(low, parts)))

    def _wasted(self, name: str, number: int, profile: int) -> Fraction:
        """Return how much more of a capacity a device takes than an alternative requests."""
        terms = self.question.alternatives[number].terms
        taken = self._takes(number, profile).get((terms.device_class_name, "capacity", name))
        requested = terms.capacity.requests.get(name, 0) if terms.capacity else 0
        return Fraction() if taken is None else taken - requested

    # --- limits

    def _takes(self, number: int, profile: int) -> dict[Taking, Fraction]:
        """Return what a device of a profile takes for an alternative."""
        offers, alternative = self._offers[profile], self.question.alternatives[number]
        code = offers.codes[number]
        if code == UNFIT:
            return {}
        shares = dict(zip(offers.capacities, offers.amounts[code:], strict=False))
        device = self._numbering.profiles[profile].device
        return alternative.takes(device, None if code < 0 else shares)

    def _costs(self, node_class: NodeClass, cost: Callable[[int, int], _N]) -> list[_N]:
        """Return the cost of each alternative on each device."""
        profiles = [device[0] for device in node_class.key.devices]
        costs: list[_N] = []
        for number in range(len(self.question.alternatives)):
            of_profile = {profile: cost(number, profile) for profile in set(profiles)}
            costs += [of_profile[profile] for profile in profiles]
        return costs

    def _budgets(self, node_class: NodeClass, within: Within) -> tuple[list[int], list[int]]:
        """Return limits and costs in the kernel's form."""
        limits, costs = [], list[int]()
        for key, most in within.items():
            name = key[2]
            limits.append(self._numbering.whole_units(name, most))

            def cost(number: int, profile: int, key: Taking = key) -> int:
                amount = self._takes(number, profile).get(key, Fraction())
                return self._numbering.units(key[2], amount)

            costs += self._costs(node_class, cost)
        return limits, costs

    def _searched(
        self, node_class: NodeClass, node: object, mode: str, limit: int, budgets: _Budgets
    ) -> tuple[Answer, list[Any]]:
        """Return the kernel's answer, and why there is none."""
        outcome, pairs, is_first, work, *why = _dra.search(
            node, self._claims(), MODES.index(mode), limit, _FEW, *budgets
        )
        grants, changes = self._grants(node_class, pairs)
        problems = tuple(self._problems(node_class))
        return Answer(_OUTCOMES[outcome], grants, is_first, work, "", problems, changes), why

    # --- the fewest

    def _fewest(self, node_class: NodeClass, of: str, limit: int, within: Within) -> Answer:
        """Return the answer that, with the best alternatives, touches the fewest
        blocks or values.
        """
        base = self.answer(node_class, "best", limit, within)
        if base.outcome != "allocated":
            return base
        budgets = self._budgets(node_class, within)
        own = [grant for grant in base.grants if not self._is_admin(grant)]
        parts = self._parts(node_class, of)
        touched = parts.touched(grant.position for grant in own)
        order, work, proved = vector_of(base), base.work, touched
        for size in range(bool(own) and not parts.needs_all, touched):
            for selection in parts.selections(size):
                if work >= limit:
                    return base._replace(work=work, fewest=(touched, min(proved, size)))
                key = parts.restricted(node_class.key, selection)
                node = _dra.node(key.devices, key.left, key.common)
                candidate, _ = self._searched(node_class, node, "best", limit - work, budgets)
                work += candidate.work + 1
                if candidate.outcome == "unknown":
                    proved = min(proved, size)
                elif candidate.outcome == "allocated" and vector_of(candidate) == order:
                    return candidate._replace(work=work, fewest=(size, min(proved, size)))
        return base._replace(work=work, fewest=(touched, proved))

    def _is_admin(self, grant: Grant) -> bool:
        return self.question.alternatives[grant.alternative].is_admin

    def _parts(self, node_class: NodeClass, of: str) -> Parts:
        devices = node_class.key.devices
        if of == BLOCKS:
            return blocks_of(node_class.key)
        lists = self.question.features.has("DRAListTypeAttributes")
        values = {
            position: frozenset(values_of(self._numbering.profiles[profile], of, lists))
            for position, (profile, use, *_) in enumerate(devices)
            if use != USED and any(code != UNFIT for code in self._offers[profile].codes)
        }
        return parts_by_value(values, len(devices))

    # --- the other modes

    def _answer(self, node_class: NodeClass, mode: str, limit: int, within: Within) -> Answer:
        question = self.question
        if question.problem is not None:
            return Answer("error", problems=((*question.problem, -1),))
        self._claims()
        problems = tuple(self._problems_of_all(node_class))
        if problems:
            return Answer("error", problems=problems)
        budgets = self._budgets(node_class, within)
        answer, why = self._searched(node_class, node_class.kernel, mode, limit, budgets)
        if answer.outcome != "unsatisfiable":
            return answer
        if within:  # without limits, devices suffice
            return Answer("unsatisfiable", work=answer.work, reason=_BEYOND)
        (reason, requests, wanted, present), problems = why, answer.problems
        names = self._names(requests)
        if reason == _CLAIM_IS_TOO_LARGE:
            claim = next(
                alternative
                for alternative in question.alternatives
                if alternative.request == requests[0]
            ).claim
            message = f"{wanted} devices, {MOST_DEVICES} at most"
            return Answer("error", problems=(("too_many_devices", claim, message, -1),))
        text = _REASONS[reason].format(
            requests=_requests(names),
            wanted=wanted,
            present=present,
            attributes=self._attributes(requests),
            all=_requests(self._names(range(question.alternatives[-1].request + 1))),
        )
        problems += tuple(self._problems_of_constraints(node_class))
        if not problems and any(state == "invalid" for state, _ in node_class.key.flaws):
            problems = (("invalid_pools", -1, "no answer, and a pool is invalid", -1),)
        outcome: ClaimOutcome = "error" if problems else "unsatisfiable"
        return Answer(outcome, (), True, answer.work, text, problems)

    def _attributes(self, requests: Sequence[int]) -> str:
        """Return the attributes of which all of these requests must share a value."""
        alternatives = self.question.alternatives
        names = dict.fromkeys(
            attribute
            for is_match, attribute, of in self.question.constraints
            if is_match and set(requests) <= {alternatives[number].request for number in of}
        )
        return " or ".join(names) or "an attribute"

    def _names(self, requests: Sequence[int]) -> list[str]:
        names = dict.fromkeys(
            alternative.name.partition("/")[0]
            for request in requests
            for alternative in self.question.alternatives
            if alternative.request == request
        )
        return list(names)

    def _claims(self) -> object:
        profiles, question = self._numbering.profiles, self.question
        if self._kernel is not None and len(self._offers) == len(profiles):
            return self._kernel
        for number in range(len(self._offers), len(profiles)):
            offers = question.offers(profiles[number], self._matches)
            self._offers.append(offers)
            if offers.problems:
                self._problem_profiles.add(number)
        lists = question.features.has("DRAListTypeAttributes")
        units, value = self._numbering.units, self._numbering.value
        self._kernel = _dra.claims(
            [
                (alternative.request, alternative.claim, alternative.wanted, alternative.is_admin)
                for alternative in question.alternatives
            ],
            [(is_match, of) for is_match, _, of in question.constraints],
            [
                (
                    offers.codes,
                    offers.barred,
                    [
                        units(offers.capacities[i % len(offers.capacities)], amount)
                        for i, amount in enumerate(offers.amounts)
                    ],
                    [
                        sorted(set(map(value, values_of(device, attribute, lists))))
                        for _, attribute, _ in question.constraints
                    ],
                )
                for device, offers in zip(profiles, self._offers, strict=True)
            ],
        )
        return self._kernel

    def _grants(
        self, node_class: NodeClass, pairs: Sequence[tuple[int, int]]
    ) -> tuple[tuple[Grant, ...], tuple[Change, ...]]:
        grants, changes = [], []
        devices = node_class.key.devices
        for number, position in pairs:
            offers = self._offers[devices[position][0]]
            code, names = offers.codes[number], offers.capacities
            if code < 0:
                grants.append(Grant(number, position, None))
                if not self.question.alternatives[number].is_admin:
                    changes.append(Change(position, None, True, USED))
                continue
            consumed = dict(zip(names, offers.amounts[code:], strict=False))
            grants.append(Grant(number, position, consumed))
            units = tuple(self._numbering.units(name, of) for name, of in consumed.items())
            changes.append(Change(position, units, True, SHARED))
        return tuple(grants), tuple(changes)

    # --- problems

    def _problems_of_all(self, node_class: NodeClass) -> Iterator[tuple[str, int, str, int]]:
        """Yield problems of requests for all devices: incomplete pools, failing selectors."""
        for number, alternative in enumerate(self.question.alternatives):
            if not alternative.is_all:
                continue
            for state, pool in node_class.key.flaws:
                yield (
                    f"pool_{state}",
                    alternative.claim,
                    f"request {alternative.name}: {pool} is {state}",
                    -1,
                )
            for position, device in enumerate(node_class.key.devices):
                problem = self._offers[device[0]].problems.get(number)
                if problem is not None:
                    yield problem[0], alternative.claim, problem[1], position

    def _problems(self, node_class: NodeClass) -> Iterator[tuple[str, int, str, int]]:
        """Yield selectors that fail on the devices that were considered."""
        if not self._problem_profiles:
            return
        for number, alternative in enumerate(self.question.alternatives):
            for position, (profile, use, *_) in enumerate(node_class.key.devices):
                problem = self._offers[profile].problems.get(number)
                if problem is not None and (use != USED or alternative.is_admin):
                    yield problem[0], alternative.claim, problem[1], position

    def _problems_of_constraints(
        self, node_class: NodeClass
    ) -> Iterator[tuple[str, int, str, int]]:
        """Yield requests for all devices that break a constraint on their own."""
        question = self.question
        lists = question.features.has("DRAListTypeAttributes")
        for number, alternative in enumerate(question.alternatives):
            if not alternative.is_all:
                continue
            suitable = [
                self._numbering.profiles[profile]
                for profile, _, _, room in node_class.key.devices
                if self._suits(number, profile, room)
            ]
            for is_match, attribute, of in question.constraints:
                values = [set(values_of(device, attribute, lists)) for device in suitable]
                if number in of and values and not _keeps(is_match, values):
                    message = f"request {alternative.name}: all devices together break a constraint"
                    yield "all_mode_constraint", alternative.claim, message, -1

    def _suits(self, number: int, profile: int, room: tuple[int, ...]) -> bool:
        offers = self._offers[profile]
        code = offers.codes[number]
        if code < 0:
            return code != UNFIT
        needs = zip(offers.capacities, offers.amounts[code:], room, strict=False)
        return all(self._numbering.units(name, amount) <= of for name, amount, of in needs)


def _keeps(is_match: bool, values: list[set[tuple[str, object]]]) -> bool:
    if is_match:
        return bool(set.intersection(*values))
    return all(values) and sum(map(len, values)) == len(set.union(*values))


_BEYOND = "all devices that suit take more together than may be taken"
_REASONS = {
    1: "{requests} wants {wanted}; devices that suit it and are free: {present}",
    3: "{requests} together want {wanted}; devices that suit one of them: {present}",
    4: "no value of {attributes} has enough devices for {requests}",
    5: "enough devices suit {all}, but they cannot be allocated together",
}


def _requests(names: Sequence[str]) -> str:
    return f"request{'s' * (len(names) > 1)} {', '.join(names)}"
