"""Extra pods: pods of a running job above its least, which come and leave one by one.

An extra pod is kept as an opportunistic job of one pod, named "job/role/number". So the rules for
jobs apply: it waits in its tenant's queue, starts on idle resources, and may be evicted for
guaranteed jobs. It starts only near the other pods of its job, and ends with the job. For each
role, one extra pod waits at a time.
"""

from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.lines import push
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.stages.units import LEAST_PRIORITY, Pod, Unit

__all__ = ["expect_extra", "expect_extras", "job_of"]


def expect_extras(state: State, live: Live) -> None:
    """Queue the next extra pod of each role, unless one waits already."""
    for role in live.job.roles if live.state == "running" and not live.for_job else ():
        if role.max_pods is None:
            continue
        extras = [
            extra for extra in live.extras.values() if extra.units[0].pods[0].role == role.name
        ]
        numbers = {extra.units[0].pods[0].number for extra in extras}
        missing = (number for number in role.extra_numbers if number not in numbers)
        number = next(missing, None)
        if number is not None and all(extra.runs for extra in extras):
            expect_extra(state, live, Pod(role.name, number))


def expect_extra(state: State, live: Live, pod: Pod) -> Live:
    """Queue an extra pod of a running job."""
    extra = _extra_of(state, live, pod)
    state.add(extra)
    state.log.keep(live.extras, extra.job.name)
    live.extras[extra.job.name] = extra
    state.stages.submit(extra.units[0])
    push(state, extra.units[0])
    return extra


def _extra_of(state: State, live: Live, pod: Pod) -> Live:
    job = job_of(live.job, pod)
    kind = state.kinds.part(job, [pod])
    extra = Live(job, [Unit(job.name, job.name, kind, (pod,), live.job.name)])
    extra.extra_of = live.job.name
    return extra


def job_of(job: Job, pod: Pod) -> Job:
    """The record of an extra pod. It has the lowest priority above the wanted number of pods."""
    role = next(role for role in job.roles if role.name == pod.role)
    return Job(
        f"{job.name}/{role.name}/{pod.number}",
        job.tenant,
        [role.replace(pods=1, min_pods=1, max_pods=None, spares=0)],
        priority=job.priority if pod.number < role.pods else LEAST_PRIORITY,
        guaranteed=False,
        quota=job.quota,
        where=job.where,
    )
