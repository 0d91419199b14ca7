"""When a job would start, by the estimates of those that run."""

from math import inf

from hivecore.scheduler.ledger.ends import end, has_stopped
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import LATEST, State
from hivecore.scheduler.rounds.round import decide

__all__ = ["first_start"]


def first_start(state: State, live: Live) -> float | None:
    """The time when a job would start, in seconds; ``None``: never, as far as is known.

    Running jobs end by their estimates. All of it happens in a transaction that is undone.
    """
    with state.trial():
        _decide(state, state.now)
        while not live.runs:
            if state.jobs.get(live.job.name) is not live:
                return None  # it is rejected
            ends = [
                (max(state.now, one.since + one.job.run_time), name)
                for name, one in state.running.items()
                if one.job.run_time is not None
            ]
            now = min((time for time, _ in ends), default=inf)
            if now > LATEST:
                return None
            for time, name in sorted(ends):
                if time == now:
                    state.happens(now)
                    end(state, state.jobs[name])
            _decide(state, now)
        return live.since


def _decide(state: State, now: float) -> None:
    """Until nothing happens any more; who has to stop does so at once."""
    while True:
        decide(state, now, -1)
        stopping = [one for one in state.jobs.values() if one.for_job and not one.has_stopped]
        if not stopping:
            return
        for one in stopping:
            has_stopped(state, one)
