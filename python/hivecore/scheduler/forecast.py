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
    branch.decide(branch.now)
    while not jobs[job].runs:
        ends = [
            (max(branch.now, live.since + live.job.run_time), name)
            for name, live in jobs.items()
            if live.runs and not live.has_stopped and live.job.run_time is not None
        ]
        now = min((end for end, _ in ends), default=inf)
        if now > LATEST:
            return None
        for end, name in sorted(ends):
            if end == now:
                # Who has to stop for others has stopped by now.
                (branch.stopped if jobs[name].for_job else branch.finish)(name, now)
        branch.decide(now)
    return jobs[job].since
