"""When a job would start, by the estimates of those that run."""

from math import inf
from typing import TYPE_CHECKING

from hivecore.scheduler.lifecycle.state import LATEST

if TYPE_CHECKING:
    from hivecore.scheduler.scheduler import Scheduler

__all__ = ["first_start"]


def first_start(branch: "Scheduler", job: str) -> float | None:
    """The time when a job would start, in seconds; ``None``: never, as far as is known.

    :param branch: where running jobs end by their estimates.
    """
    jobs = branch._state.jobs
    _decide(branch)
    while not jobs[job].runs:
        ends = [
            (max(branch.now, live.since + live.job.run_time), name)
            for name, live in jobs.items()
            if live.runs and live.job.run_time is not None
        ]
        now = min((end for end, _ in ends), default=inf)
        if now > LATEST:
            return None
        for end, name in sorted(ends):
            if end == now:
                branch.finish(name, now)
        _decide(branch)
    return jobs[job].since


def _decide(branch: "Scheduler") -> None:
    """Until nothing happens any more; who has to stop does so at once."""
    while True:
        branch.decide(branch.now)
        stopping = [
            name
            for name, live in branch._state.jobs.items()
            if live.for_job and not live.has_stopped
        ]
        if not stopping:
            return
        for name in stopping:
            branch.stopped(name, branch.now)
