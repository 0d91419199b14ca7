"""Pods of gangs over a stage that has nothing but numbered seats."""

from typing import NamedTuple

import pytest

from hivecore.errors import GangError, NoSlotError, StaleDecisionError
from hivecore.gangs import Gangs

ROLES = (("leader", 1), ("worker", 2))


class Asked(NamedTuple):
    gang: str
    role: str
    roles: tuple = ROLES


class Decided(NamedTuple):
    request: str
    outcome: str
    placement: tuple = ()
    victims: tuple = ()
    refusal: object = None
    cancels: tuple = ()


class Seats:
    """So many seats; a gang takes three. Who preempts takes those of "low"."""

    def __init__(self, seats=3):
        self.free, self.held, self.reserved = list(range(seats)), {}, {}

    def schedule(self, name):
        if name in self.reserved:
            outcome = "preempt" if "low" in self.held else "bind"
            return Decided(name, outcome, self.reserved[name], ("low",))
        if len(self.free) >= 3:
            return Decided(name, "bind", tuple(self.free[:3]))
        if name.startswith("high") and "low" in self.held:
            return Decided(name, "preempt", self.held["low"], ("low",))
        return Decided(name, "wait")

    def commit(self, decision):
        if decision.request not in self.reserved and not set(decision.placement) <= {*self.free}:
            raise StaleDecisionError("taken")
        self.reserved.pop(decision.request, None)
        self.held[decision.request] = decision.placement
        self.free = [seat for seat in self.free if seat not in decision.placement]

    def reserve(self, decision):
        self.reserved[decision.request] = decision.placement

    def cancel(self, name):
        del self.reserved[name]

    def release(self, name):
        self.free = sorted((*self.free, *self.held.pop(name)))

    def copy(self):
        other = Seats()
        other.free, other.held = list(self.free), dict(self.held)
        other.reserved = dict(self.reserved)
        return other


def ask(gangs, pod, asked, reserve=False):
    answer = gangs.find(pod, asked)
    if answer is None:
        decision = gangs.stage.schedule(asked.gang)
        answer = gangs.take_up(pod, asked, asked.gang, decision, reserve)
    gangs.check()
    return answer


def bind(gangs, pod, gang, role):
    answer = ask(gangs, pod, Asked(gang, role))
    assert answer.outcome == "bind"
    gangs.allocate(pod)
    gangs.check()
    return answer.role.slots[answer.slot]


def made(seats=3):
    return Gangs(Seats(seats), slot=lambda place: place)


def test_the_first_pod_places_all_and_the_others_get_the_lowest_slots_of_their_roles():
    gangs = made()
    assert bind(gangs, "w0", "g", "worker") == 1
    assert gangs.stage.held == {"g": (0, 1, 2)}
    assert bind(gangs, "l", "g", "leader") == 0
    assert bind(gangs, "w1", "g", "worker") == 2
    assert bind(gangs, "w0", "g", "worker") == 1  # its own again
    with pytest.raises(NoSlotError) as error:
        ask(gangs, "w2", Asked("g", "worker"))
    assert (error.value.gang, error.value.role, error.value.slots) == ("g", "worker", 2)
    with pytest.raises(GangError, match="pod 'l' is bound in gang 'g', not 'h'"):
        ask(gangs, "l", Asked("h", "leader"))


def test_an_empty_slot_is_filled_again_and_the_last_pod_releases_the_gang():
    gangs = made()
    for pod, role in (("l", "leader"), ("w0", "worker"), ("w1", "worker")):
        bind(gangs, pod, "g", role)
    gangs.delete("w0")
    assert bind(gangs, "w2", "g", "worker") == 1
    for pod in ("l", "w1", "w2", "nobody"):
        gangs.delete(pod)
        gangs.check()
    assert gangs.live == gangs.stage.held == {}


def test_offers_that_no_longer_hold_are_stale_and_change_nothing():
    gangs = made()
    assert ask(gangs, "a", Asked("g", "leader")).outcome == "bind"
    assert ask(gangs, "b", Asked("h", "leader")).outcome == "bind"
    gangs.allocate("a")
    with pytest.raises(StaleDecisionError):
        gangs.allocate("b")
    gangs.check()
    assert list(gangs.live) == ["g"]
    assert ask(gangs, "b", Asked("h", "leader")).outcome == "wait"
    with pytest.raises(GangError, match="'b' has no decision to bind"):
        gangs.allocate("b")


def test_a_reservation_lasts_while_somebody_asks():
    gangs = made()
    bind(gangs, "low/0", "low", "leader")
    for pod, role in (("x", "leader"), ("y", "worker")):
        assert ask(gangs, pod, Asked("high", role), reserve=True).outcome == "preempt"
    assert gangs.bound_pods(["low"]) == ((0, "low/0"),)
    assert gangs.stage.reserved == {"high": (0, 1, 2)}
    branch = gangs.copy()
    gangs.delete("x")
    assert "high" in gangs.live
    gangs.delete("y")
    assert list(gangs.live) == ["low"]
    assert gangs.stage.reserved == {}

    branch.delete("low/0")
    assert bind(branch, "x", "high", "leader") == 0
    assert branch.stage.held == {"high": (0, 1, 2)}
    assert branch.live["high"].pods() == ["x"]


@pytest.mark.parametrize("slot", [None, 3, "place", ["place"]])
def test_a_slot_that_is_no_function_is_named(slot):
    with pytest.raises(TypeError, match="slot must be callable, not"):
        Gangs(Seats(), slot=slot)


@pytest.mark.parametrize(
    ("suits", "says"),
    [
        (3, "suits must be callable, not int"),
        ("even", "suits must be callable, not str"),
        (lambda slot: "yes", r"suits\(\.\.\.\) must be a bool, not str"),
        (lambda slot: None, r"suits\(\.\.\.\) must be a bool, not NoneType"),
    ],
)
def test_what_tells_suitable_slots_is_named_where_it_does_not(suits, says):
    gangs = made()
    asked = Asked("g", "worker")
    with pytest.raises(TypeError, match=says):
        gangs.take_up("w0", asked, "g", gangs.stage.schedule("g"), True, suits)
    assert gangs.live == {} and gangs.pods() == []
    with pytest.raises(GangError, match="'w0' has no decision to bind"):
        gangs.allocate("w0")
    bind(gangs, "w1", "g", "worker")
    with pytest.raises(TypeError, match=says):
        gangs.find("w0", asked, suits)
    gangs.check()
    assert gangs.find("w0", asked, lambda slot: slot == 2).slot == 1
