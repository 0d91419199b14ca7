"""Koordinator's pods as jobs: a gang is a job, pods that ask for the same are a role."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hivecore._arguments import as_mapping, as_name, as_tuple
from hivecore.devices import DeviceRequest
from hivecore.gangs import GangSpec
from hivecore.interop.koordinator.combinations import RESOURCES
from hivecore.interop.koordinator.gangs.pods import read_gang_pod
from hivecore.interop.koordinator.pods import read_pod
from hivecore.interop.koordinator.quotas.amounts import in_units
from hivecore.interop.koordinator.quotas.elastic_quotas import ElasticQuotas
from hivecore.interop.koordinator.quotas.names import PREEMPTIBLE, QUOTA_NAME
from hivecore.interop.koordinator.quotas.pods import pod_quota
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import owner_name, pod_requests
from hivecore.scheduler import Job, Role

__all__ = ["JobPod", "job_of_job_pods", "job_of_koordinator_pods", "read_job_pod"]

_PRIORITIES = -(2**31), 2**31 - 1
_HIGHEST = 1000
_OF_DEVICES = frozenset(name for names in RESOURCES.values() for name in names)


@dataclass(frozen=True, slots=True)
class JobPod:
    """What a pod says of the job that it is of.

    :param name: "namespace/name".
    :param gang: its gang, "namespace/name"; the pod itself if it has none.
    :param spec: how the pod defines the gang; ``None``: it does not.
    :param tenant: whose it is: the name of its quota, or its namespace.
    :param priority: as of `hivecore.scheduler.Job`.
    :param preemptible: as of `hivecore.scheduler.Job`.
    :param gpus: that it asks for.
    :param devices: ``None``: whole GPUs and nothing else.
    :param resources: what else it asks for.
    """

    name: str
    gang: str
    spec: GangSpec | None
    tenant: str
    priority: int
    preemptible: bool
    gpus: int
    devices: DeviceRequest | None
    resources: tuple[tuple[str, int], ...]

    @property
    def is_alone(self) -> bool:
        """Whether it is of no gang."""
        return self.gang == self.name and self.spec is None


def job_of_koordinator_pods(
    pods: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    gang: GangSpec | None = None,
    quotas: ElasticQuotas | None = None,
    name: str | None = None,
) -> Job:
    """The job of a gang, or of a pod alone.

    :param pods: the object of kind Pod as plain data, or those of one gang that are known.
    :param gang: what the gang's PodGroup says, see `read_pod_group`; ``None``: the pods' own labels
        and annotations count, and without a minimum all given pods are needed.
    :param quotas: in which a pod without a quota's label is looked up by its namespace.
    :param name: of the job; ``None``: that of the gang or the pod, with ":" for "/".
    :raises ValueError: pods differ in what a job has once, are of several gangs, or are fewer than
        the gang's minimum; something cannot be read. The message names the pod.
    :raises TypeError: something is of a wrong type.

    The tenant is the quota that a pod's label names, or its namespace. Pods that ask for the same
    devices and resources are a role. If all do, the job starts with the gang's minimum, and the
    others up to its total join; else it starts with all that are given. CPUs count in thousandths,
    all else in whole units. Priorities count in tens, up to 1000: Koordinator's classes from 3000
    to 9999 become 300 to 999.

    >>> from hivecore.interop.koordinator import job_of_koordinator_pods
    >>> def pod(number):
    ...     gang = "pod-group.scheduling.sigs.k8s.io"
    ...     labels = {f"{gang}/name": "bert", f"{gang}/min-available": "2",
    ...               "quota.scheduling.koordinator.sh/name": "vision"}
    ...     limits = {"nvidia.com/gpu": 8}
    ...     return {"metadata": {"name": f"bert-{number}", "namespace": "me", "labels": labels},
    ...             "spec": {"priority": 9000, "containers": [{"resources": {"limits": limits}}]}}
    >>> job = job_of_koordinator_pods([pod(0), pod(1)])
    >>> job.name, job.tenant, job.priority, [(role.pods, role.gpus) for role in job.roles]
    ('me:bert', 'vision', 900, [(2, 8)])
    """
    given = (pods,) if isinstance(pods, Mapping) else as_tuple(pods, "pods")
    if not given:
        raise ValueError("pods: is empty")
    found = [read_job_pod(as_mapping(pod, "pod"), quotas) for pod in given]
    if gang is not None and not isinstance(gang, GangSpec):
        raise TypeError(f"gang must be a GangSpec, not {type(gang).__name__}")
    return job_of_job_pods(found, gang, name)


def read_job_pod(pod: Mapping[str, Any], quotas: ElasticQuotas | None = None) -> JobPod:
    """What a pod says of its job.

    :param quotas: as of `job_of_koordinator_pods`.
    :raises ValueError: something cannot be read; the message names the pod.
    :raises TypeError: something is of a wrong type.
    """
    document = Field(pod)
    member = read_gang_pod(pod)
    with named_object(document, "Pod"):
        asked = read_pod(pod)
        metadata, name = document["metadata"], owner_name(document)
        namespace = metadata["namespace"].text() or "default"
        label = metadata["labels"][QUOTA_NAME].text()
        priority = document["spec"]["priority"]
        need = None if asked is None else asked.need("gpu")
        gpus = 0 if need is None else need.count
        devices = None if asked is None else asked.replace(name="any pod", priority=0)
        if devices is not None and gpus and devices == DeviceRequest("any pod", gpus=gpus):
            devices = None
        resources = {
            resource: in_units(resource, amount)
            for resource, amount in pod_requests(document).items()
            if resource not in _OF_DEVICES and amount
        }
        quota = label if quotas is None else pod_quota(pod, quotas)
        return JobPod(
            name,
            name if member is None else member.gang,
            None if member is None else member.spec,
            quota or namespace,
            0 if priority.value is None else _in_tens(priority.integer(*_PRIORITIES)),
            metadata["labels"][PREEMPTIBLE].text() != "false",
            gpus,
            devices,
            tuple(sorted(resources.items())),
        )


def _in_tens(priority: int) -> int:
    return max(-_HIGHEST, min(_HIGHEST, priority // 10))


def job_of_job_pods(
    pods: Sequence[JobPod], gang: GangSpec | None = None, name: str | None = None
) -> Job:
    """The job of these pods of one gang; see `job_of_koordinator_pods`.

    :raises ValueError: they do not go together, or are too few.
    """
    first = pods[0]
    for pod in pods:
        for what in ("gang", "tenant", "priority", "preemptible"):
            if getattr(pod, what) != getattr(first, what):
                raise ValueError(
                    f"pod {show(pod.name)}: its {what} is {show(getattr(pod, what))}, not "
                    f"{show(getattr(first, what))} as that of {show(first.name)}"
                )
    defined = gang or next((pod.spec for pod in pods if pod.spec is not None), None)
    least = len(pods) if defined is None else max(1, defined.min_members)
    if len(pods) < least:
        raise ValueError(f"pods: {len(pods)} of {least} that the gang {show(first.gang)} needs")
    kinds = Counter((pod.gpus, pod.devices, pod.resources) for pod in pods)
    total = max(len(pods), 0 if defined is None else defined.total)
    roles = []
    for number, ((gpus, devices, resources), count) in enumerate(kinds.items()):
        only = len(kinds) == 1
        roles.append(
            Role(
                "pod" if only else f"pod-{number}",
                total if only else count,
                gpus,
                min_pods=least if only else count,
                devices=devices,
                resources=resources,
            )
        )
    return Job(
        job_name(first.gang) if name is None else as_name(name, "name"),
        first.tenant,
        roles,
        priority=first.priority,
        preemptible=first.preemptible,
    )
