"""Why a job waits, as the object in which Koordinator's scheduler answers that question."""

from collections.abc import Callable, Iterable
from typing import Any

from hivecore.interop.kubernetes.job_names import object_name
from hivecore.scheduler import JobExplanation, PlacedPod, Scheduler

__all__ = ["schedule_explanation"]

#: What Koordinator calls the plug-ins that do what our stages do.
_PLUGINS = {"quotas": "ElasticQuota", "devices": "DeviceShare"}


def _key(job: str) -> str:
    """What is in front of namespace and name tells only the user that submitted the job."""
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
    """Return an explanation as an object of kind ScheduleExplanation, without metadata.

    :param explanation: of `Scheduler.explain`, of now.
    :param scheduler: that gave it: it knows where pods are.
    :param pod_name: "namespace/name" of a pod of a job; by default the job's, its role and index.
    :param now: when it is written, as RFC 3339 has it; "": ``lastUpdateTime`` is not told.
    :raises KeyError: the scheduler has no such job any more.
    :raises TypeError: ``explanation`` is of a wrong type.

    ``questionObjectKey`` is the job, "namespace/name". It is ``schedulable`` if it runs, or would
    start with the next `Scheduler.decide`; of one that runs it is told where. Else the message has
    what each stage says that refuses, and what would let it start; so has a ``nodeFailedDetails``
    for each, under the name of Koordinator's plug-in where there is one. Nodes are not told one by
    one, and the whole cluster is one domain, without a name.

    It is ``schedulableAfterPreemption`` while others stop for it, or if it would start once jobs
    have ended that may be preempted at all: their pods are the ``possibleVictims``.

    Cost: O(pods of the job and of these). Source: Koordinator,
    ``apis/scheduling/v1alpha1/schedule_explanation.go``.

    >>> from hivecore.interop.koordinator import schedule_explanation
    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler
    >>> quotas = QuotaTree([Quota("lab", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=quotas)
    >>> for name in ("lab/train", "lab/tune"):
    ...     scheduler.submit(Job(name, "lab", 6), now=0.0)
    >>> started = scheduler.decide(now=0.0)
    >>> found = schedule_explanation(scheduler.explain("lab/tune"), scheduler)
    >>> found["spec"], found["status"]["schedulableAfterPreemption"]
    ({'questionObjectKey': 'lab/tune'}, True)
    >>> print(found["status"]["failedMessage"])
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
                    "failedPlugin": _PLUGINS.get(one.stage, one.stage),
                    "reason": one.reason,
                    "preemptMightHelp": bool(victims),
                }
                for one in explanation.refusals
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
    found = [f"{one.stage}: {one.reason}" for one in explanation.refusals]
    return found + [f"it would start {change.text}" for change in explanation.changes]


def _may_leave(explanation: JobExplanation, scheduler: Scheduler) -> tuple[str, ...]:
    """The jobs that would have to end for it, if all of them may be preempted at all."""
    for change in explanation.changes:
        if change.kind == "release" and all(scheduler.job(one).preemptible for one in change.jobs):
            return change.jobs
    return ()


def _results(
    job: str, pods: Iterable[PlacedPod], pod_name: Callable[[str, PlacedPod], str]
) -> list[dict[str, Any]]:
    return [{**_named(pod_name(job, pod)), "nodeName": pod.node} for pod in pods]


def _by_node(
    victims: Iterable[str], scheduler: Scheduler, pod_name: Callable[[str, PlacedPod], str]
) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for job in victims:
        for pod in scheduler.status(job).pods:
            found.setdefault(pod.node, []).append(_named(pod_name(job, pod)))
    return [{"nodeName": node, "possibleVictims": pods} for node, pods in sorted(found.items())]


def _named(name: str) -> dict[str, Any]:
    namespace, slash, own = name.rpartition("/")
    return {"namespace": namespace, "name": own} if slash else {"name": own}
