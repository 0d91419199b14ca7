"""Events, and the decisions after them: what every request that changes something comes to."""

import time
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from hivecore.errors import StaleDecisionError
from hivecore.interop.events.bodies import message_of
from hivecore.scheduler import Action, Scheduler, SchedulerEvent

__all__ = ["RefusedEvent", "Round", "take"]


class RefusedEvent(NamedTuple):
    """An event that the scheduler refuses; nothing of it has changed anything.

    :param event: which one of all, from 0.
    :param status: that of HTTP.
    :param message: what is wrong.
    """

    event: int
    status: int
    message: str


class Round(NamedTuple):
    """What came of some events.

    :param actions: what is to be done, with the time since which it holds.
    """

    actions: list[tuple[float, Action]]
    errors: list[RefusedEvent]


def take(
    scheduler: Scheduler,
    events: Iterable[SchedulerEvent],
    now: float,
    decided: Callable[[float], object] = lambda seconds: None,
    latest: Callable[[float], float] = lambda now: inf,
) -> Round:
    """Tell a scheduler some events in this order, and have it decide at the end of each moment.

    :param now: when those happen that do not say it, in seconds; if the scheduler is there already,
        now is when it is.
    :param decided: is called with the seconds that each decision took.
    :param latest: the latest time that an event may have when it is so late; a later event is
        refused.
    :returns: what came of it; if all events are refused, nothing has changed.

    >>> from hivecore.interop.events.rounds import take
    >>> from hivecore.scheduler import Scheduler, event_of_plain
    >>> job = {"name": "train", "tenant": "vision", "roles": [{"name": "pod"}]}
    >>> events = [{"event": "submit", "job": job}, {"event": "finish", "job": "none"}]
    >>> actions, errors = take(Scheduler(), map(event_of_plain, events), now=5.0)
    >>> actions[0][0], actions[0][1].job, errors
    (5.0, 'train', [RefusedEvent(event=1, status=404, message="there is no job 'none'")])
    """
    found = Round([], [])
    is_open = False

    def decide() -> None:
        started = time.perf_counter()
        actions = scheduler.decide(scheduler.now)
        decided(time.perf_counter() - started)
        found.actions.extend((scheduler.now, action) for action in actions)

    for index, event in enumerate(events):
        moment = max(now, scheduler.now) if event.now is None else event.now
        if (last := latest(max(now, scheduler.now))) < moment:
            message = f"now={moment!r}: allowed are {scheduler.now!r} to {last!r}, see --max-step"
            found.errors.append(RefusedEvent(index, 409, message))
            continue
        if is_open and moment > scheduler.now:
            decide()
            is_open = False
        try:
            event.tell(scheduler, moment)
        except KeyError as error:
            found.errors.append(RefusedEvent(index, 404, message_of(error)))
        except (TypeError, ValueError, StaleDecisionError) as error:
            found.errors.append(RefusedEvent(index, 409, message_of(error)))
        else:
            is_open = True
    if is_open:
        decide()
    return found
