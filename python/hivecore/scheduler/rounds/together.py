"""Jobs that start together or not at all.

All of them are tried one after the other on a branch, and only if all run there at the end it is
done in earnest. Else they wait, each for what the one that found no place waits for.
"""

from dataclasses import replace

from hivecore.decisions import Refusal
from hivecore.errors import InvariantError
from hivecore.scheduler.lifecycle.lines import queued_job, take_off, wait
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.state import State
from hivecore.scheduler.lifecycle.units import Key, Refused, Unit
from hivecore.scheduler.rounds.offers import offer_alone
from hivecore.scheduler.stages._lacks import HEADROOM

__all__ = ["offer"]


def offer(state: State, unit: Unit) -> None:
    """A unit that has left its queue starts, perhaps with others, or goes back."""
    live = state.jobs[unit.owner]
    others = state.companions(live) if unit is live.units[0] and not live.runs else []
    if not others:
        offer_alone(state, unit)
        return
    lives = _in_turn([live, *others])
    refused = _failure(state, live, lives)
    if refused is not None:
        wait(state, live, unit, _as_told(live, refused))
        for one in others:
            # Who does not name all of them may start sooner; who is reserved is in no queue.
            if one.state == "pending" and len(state.companions(one)) == len(others):
                _take(state, one)
                wait(state, one, one.units[0], _as_told(one, refused))
        return
    for one in others:
        _take(state, one)
    if _start(state, lives) is not None:
        raise InvariantError(f"job {live.job.name!r} does not start with {len(others)} others")


def _as_told(live: Live, refused: Refused) -> Refused:
    """What one of the jobs is told: whose reason it is, where it is another one's."""
    refusal = refused.refusal
    if refusal.part == live.job.name:
        return refused
    reason = f"starts together with {refusal.part!r}: {refusal.reason}"
    return refused._replace(refusal=replace(refusal, reason=reason))


def _in_turn(lives: list[Live]) -> list[Live]:
    """The same, each behind those after which it is to start."""
    found: list[Live] = []
    left = {live.job.name: live for live in lives}
    while left:
        free = [one for one in left.values() if left.keys().isdisjoint(one.job.after)]
        for one in free or [*left.values()]:  # or they wait for one another, for ever
            found.append(left.pop(one.job.name))
    return found


def _failure(state: State, offered: Live, lives: list[Live]) -> Refused | None:
    """Why one of these jobs does not start now with the others; None: they all do.

    :param offered: the one that has left its queue already.
    """
    for one in lives:
        if one.state != "pending":
            name = one.job.name
            reason = "others have to stop for it"
            return Refused(Refusal("scheduler", "together", reason, name), (("started", name),))
    trial = state.branch()
    twins = [trial.jobs[one.job.name] for one in lives]
    for twin in twins:
        if twin.job.name == offered.job.name:
            del trial.queued[twin.units[0].name]
        else:
            _take(trial, twin)
    failed = _start(trial, twins)
    if failed is None:
        return None
    name = failed.job.name
    refused = trial.waiting.refused(failed.units[0].kind)
    if refused is None:
        reason = "it would have to leave for another of them"
        waits_for = [
            key for one in lives for key in state.stages.touched_by_release(one.units[0].kind)
        ]
    else:
        reason = refused.refusal.reason
        waits_for = list(refused.keys)
    # Each waits for something that another one lacks, so that its own needs say nothing.
    keys: list[Key] = [("quotas", "any") if key == HEADROOM else key for key in waits_for]
    gone = [("started", one.job.name) for one in lives]
    once = tuple(dict.fromkeys([*keys, *gone]))
    return Refused(Refusal("scheduler", "together", reason, name), once)


def _start(state: State, lives: list[Live]) -> Live | None:
    """Let jobs that are in no queue start; who does not run then, if anybody."""
    for at, live in enumerate(lives):
        # Where victims take their time those who start together could not.
        offer_alone(state, live.units[0], only_at_once=True)
        for one in reversed(lives[: at + 1]):
            if not one.runs:
                return one
    return None


def _take(state: State, live: Live) -> None:
    """One that waits leaves its queue to be offered, or to wait for what the others wait for."""
    unit = live.units[0]
    take_off(state, unit)
    if not unit.kind.is_alone:
        assert unit.departure is not None
        unit.kind = state.kinds.alone(unit.kind)
        unit.departure = unit.departure._replace(job=queued_job(state, unit))
    state.waiting.add(unit.kind, unit.name)
