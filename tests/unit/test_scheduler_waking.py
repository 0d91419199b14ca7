"""A job that waits is tried again as soon as it could start."""

from scheduler_lives import make_scheduler

from hivecore.scheduler import Job, Preempt, Start, Where


def submit(scheduler, *jobs):
    for job in jobs:
        scheduler.submit(job, scheduler.now)
    return decide(scheduler)


def decide(scheduler):
    """What a round starts and evicts; a second one has nothing to do."""
    actions = scheduler.decide(scheduler.now)
    assert scheduler.decide(scheduler.now) == []
    scheduler.check()
    found = [one for one in actions if isinstance(one, Start | Preempt)]
    return [(type(one).__name__, one.job) for one in found]


def test_a_job_starts_once_no_job_between_it_and_a_job_that_stops_is_left():
    scheduler = make_scheduler(("devices",))
    here = Where(nodes=["n0"])
    submit(scheduler, Job("stops", "a", 4, where=here))
    submit(scheduler, Job("urgent", "a", 4, where=here, priority=1))
    names = ["first", "second", "third", "stops"]
    chain = [Job(names[i], "a", 1, together=[names[i + 1]]) for i in range(3)]
    assert submit(scheduler, *chain) == []
    scheduler.cancel("second", 1.0)
    assert decide(scheduler) == [("Start", "first")]
