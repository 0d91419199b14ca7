"""Applies events to a scheduler and lets it decide."""

import time
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from hivecore.errors import StaleDecisionError
from hivecore.interop.events.bodies import message_of
from hivecore.scheduler import Action, Scheduler, SchedulerEvent

__all__ = ["RefusedEvent", "Round", "take"]


class RefusedEvent(NamedTuple):
    """An event that the scheduler refused; it has changed nothing.

    :param event: its index among all events.
    :param status: the HTTP status.
    :param message: the error.
    """

    event: int
    status: int
    message: str


class Round(NamedTuple):
    """The result of some events.

    :param actions: pairs of (time, action).
    """

    actions: list[tuple[float, Action]]
    errors: list[RefusedEvent]


def take(
    scheduler: Scheduler,
    events: Iterable[SchedulerEvent],
    now: float,
    decided: Callable[[float], object] = lambda seconds: None,
    latest: Callable[[float], float] = lambda now: inf,
    check: Callable[[SchedulerEvent], object] = lambda event: None,
    applied: Callable[[SchedulerEvent], object] = lambda event: None,
    decides: bool = True,
) -> Round:
    """Apply events in order, and decide at the end of each moment.

    :param now: the time of events without one, in seconds, or the scheduler's time if that is
        later.
    :param decided: called with the duration of each decision in seconds.
    :param latest: now -> the latest allowed time; later events are refused.
    :param check: called before each event, which is refused if this raises ValueError.
    :param applied: called after each event that was not refused, before anything is decided.
    :param decides: ``False`` decides nothing.
    :returns: actions and refused events; if all are refused, nothing has changed.

    >>> from hivecore.interop.events.rounds import take
    >>> from hivecore.scheduler import Scheduler, event_of_plain
    >>> job = {"name": "train", "tenant": "vision", "roles": [{"name": "pod"}]}
    >>> events = [{"event": "submit", "job": job}, {"event": "finish", "job": "none"}]
    >>> actions, errors = take(Scheduler(), map(event_of_plain, events), now=5.0)
    >>> actions[0][0], actions[0][1].job, errors
    (5.0, 'train', [RefusedEvent(event=1, status=404, message="there is no job 'none'")])
    """
    round = Round([], [])
    is_open = False

    def decide() -> None:
        if not decides:
            return
        started = time.perf_counter()
        actions = scheduler.decide(scheduler.now)
        decided(time.perf_counter() - started)
        round.actions.extend((scheduler.now, action) for action in actions)

    for index, event in enumerate(events):
        moment = max(now, scheduler.now) if event.now is None else event.now
        if (last := latest(max(now, scheduler.now))) < moment:
            message = f"now={moment!r}: allowed are {scheduler.now!r} to {last!r}, see --max-step"
            round.errors.append(RefusedEvent(index, 409, message))
            continue
        if is_open and moment > scheduler.now:
            decide()
            is_open = False
        try:
            check(event)
            event.tell(scheduler, moment)
        except KeyError as error:
            round.errors.append(RefusedEvent(index, 404, message_of(error)))
        except (TypeError, ValueError, StaleDecisionError) as error:
            round.errors.append(RefusedEvent(index, 409, message_of(error)))
        else:
            is_open = True
            applied(event)
    if is_open:
        decide()
    return round
