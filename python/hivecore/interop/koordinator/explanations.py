"""Writes why a job waits as Koordinator's ScheduleExplanation."""

from collections.abc import Callable, Iterable
from typing import Any

from hivecore.interop.kubernetes.job_names import object_name
from hivecore.scheduler import JobExplanation, PlacedPod, Scheduler

__all__ = ["schedule_explanation"]

#: Our stages by the names of Koordinator's plug-ins.
_PLUGINS = {"quotas": "ElasticQuota", "devices": "DeviceShare"}


def _key(job: str) -> str:
    """Drop the prefix before "namespace/name", which only names the user that submitted the job."""
    return "/".join(object_name(job).rpartition(":")[2].split("/")[-2:])


def _usual_name(job: str, pod: PlacedPod) -> str:
    return f"{_key(job)}-{pod.role}-{pod.index}"


def schedule_explanation(
    explanation: JobExplanation,
    scheduler: Scheduler,
    *,
    pod_name: Callable[[str, PlacedPod], str] = _usual_name,
    now: str = "",
) -> dict[str, Any]:
    """Return an explanation as a ScheduleExplanation object without metadata.

    :param explanation: a current answer of `Scheduler.explain`.
    :param scheduler: the scheduler that gave it.
    :param pod_name: gives "namespace/name" of a job's pod; by default from the job, role and index.
    :param now: the time of writing in RFC 3339 format; "" leaves out ``lastUpdateTime``.
    :raises KeyError: the scheduler no longer has the job.
    :raises TypeError: ``explanation`` has a wrong type.

    ``questionObjectKey`` is the job's "namespace/name". The job is ``schedulable`` if it runs (the
    object then has its nodes) or would start at the next `Scheduler.decide`. Otherwise the message
    says which stages refuse it and which change would admit it, and each refusal is in
    ``nodeFailedDetails`` under the name of Koordinator's plug-in. The whole cluster is one domain
    without a name; nodes are not listed.

    ``schedulableAfterPreemption`` holds while the job's victims stop, or if it would start after
    preemptible jobs end. Their pods are the ``possibleVictims``.

    Cost: O(pods of the job and of its victims). Source: Koordinator,
    ``apis/scheduling/v1alpha1/schedule_explanation.go``.

    >>> from hivecore.interop.koordinator import schedule_explanation
    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler
    >>> quotas = QuotaTree([Quota("lab", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=quotas)
    >>> for name in ("lab/train", "lab/tune"):
    ...     scheduler.submit(Job(name, "lab", 6), now=0.0)
    >>> started = scheduler.decide(now=0.0)
    >>> why = schedule_explanation(scheduler.explain("lab/tune"), scheduler)
    >>> why["spec"], why["status"]["schedulableAfterPreemption"]
    ({'questionObjectKey': 'lab/tune'}, True)
    >>> print(why["status"]["failedMessage"])
    quotas: runtime of 'lab' is exceeded (gpu: 6 used + 6 asked > 8)
    it would start if max of lab were gpu: 12, the total were gpu: 12
    it would start if lab/train ended
    """
    if not isinstance(explanation, JobExplanation):
        raise TypeError(f"explanation must be a JobExplanation, not {type(explanation).__name__}")
    status = scheduler.status(explanation.job)
    runs = status.since is not None
    fits = runs or (explanation.state == "pending" and not explanation.refusals)
    victims = status.victims or _may_leave(explanation, scheduler)
    places = _results(explanation.job, status.pods, pod_name)
    message = "" if runs else "\n".join(_lines(explanation))
    could = {"schedulable": fits, "schedulableAfterPreemption": bool(victims)}
    domain = {
        **could,
        "failedMessage": message,
        "scheduleExplanation": {
            "schedulable": fits,
            "failedMessage": message,
            "feasibleSchedulingResult": places if runs else [],
            "nodeFailedDetails": [
                {
                    "failedPlugin": _PLUGINS.get(refusal.stage, refusal.stage),
                    "reason": refusal.reason,
                    "preemptMightHelp": bool(victims),
                }
                for refusal in explanation.refusals
            ],
        },
        "nodePossibleVictims": _by_node(victims, scheduler, pod_name),
        "preemptExplanation": {
            "schedulable": bool(victims),
            "feasibleSchedulingResult": [] if runs else places,
        },
    }
    written = {"lastUpdateTime": now} if now else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ScheduleExplanation",
        "spec": {"questionObjectKey": _key(explanation.job)},
        "status": {
            **could,
            "failedMessage": message,
            **written,
            "detailedExplanation": [domain],
        },
    }


def _lines(explanation: JobExplanation) -> list[str]:
    if explanation.state == "reserved":
        return ["others have to stop for it"]
    lines = [f"{refusal.stage}: {refusal.reason}" for refusal in explanation.refusals]
    return lines + [f"it would start {change.text}" for change in explanation.changes]


def _may_leave(explanation: JobExplanation, scheduler: Scheduler) -> tuple[str, ...]:
    """Return the jobs that would have to end, if all of them are preemptible."""
    for change in explanation.changes:
        if change.kind == "release" and all(scheduler.job(job).preemptible for job in change.jobs):
            return change.jobs
    return ()


def _results(
    job: str, pods: Iterable[PlacedPod], pod_name: Callable[[str, PlacedPod], str]
) -> list[dict[str, Any]]:
    return [{**_named(pod_name(job, pod)), "nodeName": pod.node} for pod in pods]


def _by_node(
    victims: Iterable[str], scheduler: Scheduler, pod_name: Callable[[str, PlacedPod], str]
) -> list[dict[str, Any]]:
    by_node: dict[str, list[dict[str, Any]]] = {}
    for job in victims:
        for pod in scheduler.status(job).pods:
            by_node.setdefault(pod.node, []).append(_named(pod_name(job, pod)))
    return [{"nodeName": node, "possibleVictims": pods} for node, pods in sorted(by_node.items())]


def _named(name: str) -> dict[str, Any]:
    namespace, slash, own = name.rpartition("/")
    return {"namespace": namespace, "name": own} if slash else {"name": own}
