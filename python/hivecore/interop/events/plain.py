"""Status, job status and explanations as plain data for JSON."""

from typing import Any

from msgspec import to_builtins

from hivecore.scheduler import JobExplanation, JobStatus, SchedulerSummary, Start, plain_record

__all__ = ["plain_explanation", "plain_job_status", "plain_status"]

_FIELDS = ("state", "since", "victims", "for_job", "has_stopped", "is_ending", "shares", "lost")
_STATES = ("pending", "reserved", "lent", "running")


def plain_status(status: SchedulerSummary) -> dict[str, Any]:
    """Return the status: jobs by state, in total and by tenant, queues, and nodes.

    >>> from hivecore.interop.events.plain import plain_status
    >>> from hivecore.scheduler import Scheduler
    >>> plain_status(Scheduler().summary())["jobs"]
    {'pending': 0, 'reserved': 0, 'lent': 0, 'running': 0}
    """
    tenants = {counts.tenant: to_builtins(counts) for counts in status.tenants}
    for counts in tenants.values():
        del counts["tenant"]
    return {
        "now": status.now,
        "jobs": {state: sum(counts[state] for counts in tenants.values()) for state in _STATES},
        "tenants": tenants,
        "queues": dict(status.queued),
        "unhealthy": list(status.unhealthy),
        "draining": list(status.draining),
    }


def plain_job_status(job: str, status: JobStatus) -> dict[str, Any]:
    """Return a job's state, with pods as in the action that started it.

    >>> from hivecore.interop.events.plain import plain_job_status
    >>> from hivecore.scheduler import Job, Scheduler
    >>> scheduler = Scheduler()
    >>> scheduler.submit(Job("train", "vision", 8), now=0.0)
    >>> _ = scheduler.decide(now=5.0)
    >>> status = plain_job_status("train", scheduler.status("train"))
    >>> status["state"], status["since"], status["pods"]
    ('running', 5.0, [['pod', 0, '', {}]])
    """
    fields = {field: getattr(status, field) for field in _FIELDS}
    return {"job": job, **fields, "pods": plain_record(Start(job, status.pods))["pods"]}


def plain_explanation(explanation: JobExplanation) -> dict[str, Any]:
    """Return why a job waits, and the changes that would let it start, also as text.

    >>> from hivecore.interop.events.plain import plain_explanation
    >>> from hivecore.scheduler import Job, Scheduler
    >>> scheduler = Scheduler()
    >>> scheduler.submit(Job("train", "vision", 8), now=0.0)
    >>> plain_explanation(scheduler.explain("train"))["state"]
    'pending'
    """
    changes = [{**to_builtins(change), "text": change.text} for change in explanation.changes]
    texts = {"reason": explanation.reason, "text": explanation.text}
    return {**to_builtins(explanation), "changes": changes, **texts}
