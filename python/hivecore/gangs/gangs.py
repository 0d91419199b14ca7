"""Pods that come and go, over a stage that decides on whole gangs."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from hivecore._stateful import Branching, counted, shown
from hivecore.decisions import Decision, Outcome
from hivecore.errors import GangError, NoSlotError, StaleDecisionError
from hivecore.gangs.gang import Gang, Role
from hivecore.gangs.seats import Offer, Seat, Seats

__all__ = ["Answer", "GangRequest", "Gangs", "ReservingStage"]


class GangRequest(Protocol):
    """What a pod says of its gang. That of the first pod holds."""

    @property
    def gang(self) -> str:
        """The name of the gang, and of the owner in the stage."""

    @property
    def role(self) -> Hashable:
        """Which of the gang's roles the pod has."""

    @property
    def roles(self) -> Sequence[tuple[Hashable, int]]:
        """Per role how many pods it has, in the order of the stage's placements."""


class ReservingStage(Protocol):
    """What is needed of a stage: see `hivecore.decisions.Stage`."""

    def commit(self, decision: Any, /) -> None:
        """Carry out a decision to bind."""

    def reserve(self, decision: Any, /) -> None:
        """Take what a decision to preempt needs from under its victims."""

    def cancel(self, name: str, /) -> None:
        """Give a reservation up."""

    def release(self, name: str, /) -> None:
        """Take back what the owner has."""

    def copy(self) -> Self:
        """An independent what-if branch."""


_S = TypeVar("_S", bound=ReservingStage)


class Answer(NamedTuple):
    """What is decided for one pod."""

    outcome: Outcome
    gang: Gang | None
    """Where all of its pods go; None: it waits."""
    role: Role | None
    slot: int
    """The pod's slot in its role."""


class Gangs(Branching, Generic[_S]):
    """Which pods are bound, which ask, and what their stage has to do for it.

    :param stage: what decides on gangs; only this object changes what it holds of them.
    :param slot: what a gang keeps of a pod's placement.
    :param gangs: those that there are already.
    :raises TypeError: ``slot`` is not callable.

    Not for several threads at once: the caller takes turns.
    """

    def __init__(
        self,
        stage: _S,
        slot: Callable[[Any], Any],
        gangs: dict[str, Gang] | None = None,
    ) -> None:
        if not callable(slot):
            raise TypeError(f"slot must be callable, not {type(slot).__name__}")
        self.stage = stage
        self._slot = slot
        self._seats = Seats({} if gangs is None else gangs)

    def __repr__(self) -> str:
        return shown(self, counted(len(self._seats.gangs), "gang"))

    @property
    def live(self) -> dict[str, Gang]:
        """The gangs that are allocated or preempting, by name."""
        return self._seats.gangs

    # --- decisions

    def find(
        self, pod: str, asked: GangRequest, suits: Callable[[Any], bool] | None = None
    ) -> Answer | None:
        """What the pod gets without asking the stage: its own slot, or an empty one of its gang.

        ``None``: its gang is not allocated.

        :param suits: tells the slots that are to be preferred.
        :raises GangError: it is bound or asks in another gang, or its gang has no slot for it.
        """
        seats = self._seats
        seat = self._own_seat(pod, asked)
        if seat is not None:
            return Answer("bind", *seat)
        gang = seats.gangs.get(asked.gang)
        if gang is None:
            return None
        role = gang.roles.get(asked.role)
        slot = None if role is None else role.empty(suits)
        if role is None or slot is None:
            raise NoSlotError(gang.name, asked.role, len(role.slots) if role else 0)
        if gang.preempting is not None:
            return None
        seats.offers[pod] = Offer(gang, role, slot, None)
        return Answer("bind", gang, role, slot)

    def take_up(
        self,
        pod: str,
        asked: GangRequest,
        request: Any,
        decision: Decision,
        reserve: bool,
        suits: Callable[[Any], bool] | None = None,
    ) -> Answer:
        """Go on with what the stage has decided for the pod's gang.

        :param request: what it was asked for.
        :param suits: tells the slots that are to be preferred.
        :param reserve: whether a decision to preempt is reserved at once. Then a reservation of the
            gang that is no good any more is given up, even where the gang has to wait.
        """
        seats = self._seats
        gang = seats.gangs.get(asked.gang)
        if decision.outcome == "wait":
            seats.offers.pop(pod, None)
            if gang is not None and reserve:
                self.stage.cancel(gang.name)
                seats.forget(gang.name)
            return Answer("wait", None, None, 0)
        declared = asked if gang is None else gang.declared
        slots = [self._slot(place) for place in decision.placement]
        planned = Gang.place(asked.gang, declared, request, declared.roles, slots)
        role = planned.roles[asked.role]
        slot = role.empty(suits) or 0
        seats.offers.pop(pod, None)
        if gang is not None and gang.placement() == planned.placement():
            seats.ask(pod, gang)
        elif reserve and decision.outcome == "preempt":
            self._reserve(pod, gang, planned, decision)
        if decision.outcome == "bind":
            seats.offers[pod] = Offer(planned, role, slot, decision)
        return Answer(decision.outcome, planned, role, slot)

    def _reserve(self, pod: str, gang: Gang | None, planned: Gang, decision: Any) -> None:
        seats = self._seats
        self.stage.reserve(decision)
        asked = [] if gang is None else list(gang.preempting or ())
        self._forget_given_up(decision, gang)
        planned.preempting = {}
        seats.gangs[planned.name] = planned
        for other in [*asked, pod]:
            seats.ask(other, planned)

    def _forget_given_up(self, decision: Any, before: Gang | None) -> None:
        """Drop whose reservations have ended with a decision, the gang's own before it included."""
        own = () if before is None else (before.name,)
        for name in {*decision.cancels, *own}:
            self._seats.forget(name)

    def withdraw(self, pod: str) -> None:
        """Forget what was offered to a pod."""
        self._seats.offers.pop(pod, None)

    def withdraw_all(self) -> None:
        """Forget what was offered to anybody: the stage is another one now."""
        self._seats.offers.clear()

    def has_seat(self, pod: str, asked: GangRequest) -> bool:
        """Whether ``find`` would find something; nothing is offered.

        :raises GangError: as ``find``.
        """
        if self._own_seat(pod, asked) is not None:
            return True
        gang = self._seats.gangs.get(asked.gang)
        if gang is None or gang.preempting is not None:
            return False
        role = gang.roles.get(asked.role)
        if role is None or role.empty() is None:
            raise NoSlotError(gang.name, asked.role, len(role.slots) if role else 0)
        return True

    # --- what happens to pods

    def allocate(self, pod: str) -> None:
        """Bind a pod as it was offered; for a bound pod nothing happens.

        :raises GangError: nothing was offered.
        :raises StaleDecisionError: the offer no longer fits; nothing has changed.
        """
        seats = self._seats
        if pod in seats.seats:
            return
        offer = seats.offers.get(pod)
        if offer is None:
            raise GangError(f"pod {pod!r} has no decision to bind: schedule it first")
        gang, role, slot, decision = offer
        live = seats.gangs.get(gang.name)
        if live is None or live.preempting is not None:
            if decision is None:
                raise StaleDecisionError(f"gang {gang.name!r} is gone")
            self.stage.commit(decision)
            self._forget_given_up(decision, live)
            seats.gangs[gang.name] = gang
        elif live is not gang:
            if live.placement() != gang.placement():
                raise StaleDecisionError(f"gang {gang.name!r} is placed elsewhere by now")
            gang, role = live, live.roles[role.name]
        if role.pods[slot] is not None:
            raise StaleDecisionError(f"pod {role.pods[slot]!r} has taken this slot")
        del seats.offers[pod]
        seats.sit(pod, gang, role, slot)

    def delete(self, pod: str) -> None:
        """Forget a pod: a bound one empties its slot, one that asks asks no longer.

        The last bound pod of a gang releases it, the last one that asks cancels its preemption. For
        an unknown pod nothing happens.
        """
        seats = self._seats
        seats.offers.pop(pod, None)
        seat = seats.seats.pop(pod, None)
        if seat is not None:
            seat.gang.clear(seat.role, seat.slot)
            if not seat.gang.bound:
                self.stage.release(seat.gang.name)
                del seats.gangs[seat.gang.name]
            return
        wanted = seats.asking.pop(pod, None)
        if wanted is not None and wanted.preempting is not None:
            del wanted.preempting[pod]
            if not wanted.preempting:
                self.stage.cancel(wanted.name)
                del seats.gangs[wanted.name]

    def place_of(self, pod: str) -> tuple[Gang, Any] | None:
        """The gang and the slot where a pod is bound or was offered to be; ``None``: nowhere."""
        place = self._seats.seats.get(pod) or self._seats.offers.get(pod)
        return None if place is None else (place.gang, place.role.slots[place.slot])

    def recovered_at(self, pod: str, asked: GangRequest) -> Any:
        """The slot where a pod is bound already; ``None``: it is not.

        :raises GangError: it is bound, or asks, in another gang.
        """
        seat = self._own_seat(pod, asked)
        return None if seat is None else seat.role.slots[seat.slot]

    def recover(self, pod: str, gang: Gang, role: Role, slot: int) -> None:
        """Take up a pod that runs, in a gang that its stage has."""
        seats = self._seats
        if role.pods[slot] is not None:
            raise GangError(f"pod {role.pods[slot]!r} has this slot")
        seats.offers.pop(pod, None)
        seats.gangs[gang.name] = gang
        seats.sit(pod, gang, role, slot)

    def forget(self, name: str) -> None:
        """Drop a preempting gang that the stage has given up."""
        self._seats.forget(name)

    def pods(self) -> list[str]:
        """The bound pods, then those that ask."""
        return [*self._seats.seats, *self._seats.asking]

    def bound_pods(self, names: Sequence[str]) -> tuple[tuple[Any, str], ...]:
        """(slot, pod) of every bound pod of these gangs."""
        return tuple(
            (slot, pod)
            for name in names
            for slot, pod in self._seats.gangs[name].seats()
            if pod is not None
        )

    def _own_seat(self, pod: str, asked: GangRequest) -> Seat | None:
        """Where the pod is bound; it may be bound and ask only in the gang that it names."""
        seats = self._seats
        seat = seats.seats.get(pod)
        if seat is not None:
            self._same(pod, "bound", seat.gang, asked)
        elif pod in seats.asking:
            self._same(pod, "preempting", seats.asking[pod], asked)
        return seat

    def _same(self, pod: str, state: str, gang: Gang, asked: GangRequest) -> None:
        if gang.name != asked.gang:
            raise GangError(f"pod {pod!r} is {state} in gang {gang.name!r}, not {asked.gang!r}")

    # --- state

    def copy(self) -> "Gangs[_S]":
        """An independent branch over a branch of the stage; offers are left behind."""
        other = Gangs(self.stage.copy(), self._slot)
        other._seats = self._seats.copy()
        return other

    def check(self) -> None:
        """Audit that pods and gangs agree; raises `InvariantError`. O(pods)."""
        self._seats.check()
