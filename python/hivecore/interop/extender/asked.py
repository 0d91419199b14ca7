"""What a pod asks of the scheduler: in HiveD's annotation, or in Koordinator's words."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hivecore.gangs import GangSpec
from hivecore.interop.hived.jobs import job_of_request, read_pod_request
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.serving.annotations import BIND_INFO, ISOLATION, SPEC
from hivecore.interop.koordinator.jobs import (
    ANNOTATIONS,
    LABELS,
    GangWishes,
    JobPod,
    job_of_job_pods,
    read_job_pod,
    wishes_of_gang,
)
from hivecore.interop.koordinator.quotas.names import QUOTA_NAME
from hivecore.interop.koordinator.topology.rules import NO_RULES
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import node_of
from hivecore.scheduler import Job, Role

__all__ = [
    "PREFIX",
    "Asked",
    "HivedPod",
    "KoordinatorPod",
    "Shape",
    "job_of",
    "read_asked",
    "shape_of",
]

PREFIX = "pods:"
"""What the names of jobs begin with whose pods are Kubernetes': so a restart knows them."""
_MOST_PODS = 65_536  # of a job
_LONGEST_NAME = 1000  # characters
_HIVED = SPEC.partition("/")[0] + "/"

#: GPUs, devices and other resources: pods of one shape are of one role.
Shape = tuple[int, Any, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class HivedPod:
    """A pod with HiveD's annotation, which says all of its group."""

    request: PodRequest

    @property
    def gang(self) -> str:
        """Whom it starts with."""
        return self.request.gang

    @property
    def shape(self) -> Shape:
        """What it shares with the pods of its role."""
        return self.request.leaf_number, None, ()

    def shape_in(self, job: Job) -> Shape:
        """The same in a job."""
        return self.shape

    @property
    def rank(self) -> int | None:
        """Its place among the pods of its gang; None: by its name."""
        return None

    @property
    def common(self) -> Hashable:
        """What it shares with all pods of its gang."""
        return self.request._replace(leaf_number=0)

    def lacks(self, pods: Sequence["Asked"], group: GangSpec | None) -> str:
        """Who has yet to come before these pods of the gang may start; "": nobody."""
        counts = dict.fromkeys((number for number, _ in self.request.roles), 0)
        for pod in pods:
            counts[pod.shape[0]] += 1
        total = sum(pods for _, pods in self.request.roles)
        there = sum(min(counts[number], pods) for number, pods in self.request.roles)
        return "" if there == total else _lacking(self.gang, there, total)

    def wishes(self, pods: Sequence["Asked"], group: GangSpec | None) -> GangWishes:
        """What these pods of the gang and its PodGroup ask for together."""
        return GangWishes((), NO_RULES)

    def job(
        self, pods: Sequence["Asked"], group: GangSpec | None, layers: Sequence[str] | None
    ) -> Job:
        """The job of the gang; raises ValueError where it cannot be one."""
        return job_of_request(self.request, PREFIX + job_name(self.gang))

    def is_of(self, job: Job) -> bool:
        """Whether a job can be that of its gang, on whatever nodes."""
        mine = job_of_request(self.request, job.name)
        return mine.replace(where=job.where) == job


@dataclass(frozen=True, slots=True)
class KoordinatorPod:
    """A pod with Koordinator's labels, or with its resources."""

    pod: JobPod

    @property
    def gang(self) -> str:
        """Whom it starts with."""
        return self.pod.gang

    @property
    def shape(self) -> Shape:
        """What it shares with the pods of its role."""
        return self.pod.gpus, self.pod.devices, self.pod.resources

    def shape_in(self, job: Job) -> Shape:
        """The same in a job, which has only the resources that the scheduler counts."""
        counted = {resource for role in job.roles for resource, _ in role.resources}
        gpus, devices, resources = self.shape
        return gpus, devices, tuple(one for one in resources if one[0] in counted)

    @property
    def rank(self) -> int | None:
        """Its place among the pods of its gang; None: by its name."""
        return self.pod.rank

    @property
    def common(self) -> Hashable:
        """What it shares with all pods of its gang."""
        return self.pod.tenant, self.pod.priority, self.pod.preemptible

    def lacks(self, pods: Sequence["Asked"], group: GangSpec | None) -> str:
        """Who has yet to come before these pods of the gang may start; "": nobody."""
        spec = group or self.pod.spec
        if spec is None and not self.pod.is_alone:
            return f"the PodGroup {show(self.gang)} is not known"
        least = 1 if spec is None else max(1, spec.min_members)
        return "" if len(pods) >= least else _lacking(self.gang, len(pods), least)

    def wishes(self, pods: Sequence["Asked"], group: GangSpec | None) -> GangWishes:
        """What these pods of the gang and its PodGroup ask for together.

        :raises ValueError: they disagree.
        """
        return wishes_of_gang(_members(pods), group)

    def job(
        self, pods: Sequence["Asked"], group: GangSpec | None, layers: Sequence[str] | None
    ) -> Job:
        """The job of the gang; raises ValueError where it cannot be one."""
        return job_of_job_pods(_members(pods), group, PREFIX, layers=layers)

    def is_of(self, job: Job) -> bool:
        """Whether a job can be that of its gang."""
        mine = self.pod.tenant, self.pod.priority, self.pod.preemptible
        return mine == (job.tenant, job.priority, job.preemptible) and any(
            shape_of(role) == self.shape_in(job) for role in job.roles
        )


Asked = HivedPod | KoordinatorPod


def _members(pods: Sequence[Asked]) -> list[JobPod]:
    return [asked.pod for asked in pods if isinstance(asked, KoordinatorPod)]


def shape_of(role: Role) -> Shape:
    """The shape of a role's pods.

    >>> from hivecore.interop.extender.asked import shape_of
    >>> from hivecore.scheduler import Role
    >>> shape_of(Role("w", 4, gpus=8))
    (8, None, ())
    """
    return role.gpus, role.devices, role.resources


def read_asked(pod: Mapping[str, Any]) -> Asked | None:
    """What a pod asks for; ``None``: nothing that the scheduler has.

    :raises ValueError: something is missing or wrong; the message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.extender.asked import read_asked
    >>> spec = "{virtualCluster: vision, leafCellNumber: 8}"
    >>> annotations = {"hivedscheduler.microsoft.com/pod-scheduling-spec": spec}
    >>> read_asked({"metadata": {"name": "p", "annotations": annotations}}).gang
    'default/p'
    >>> read_asked({"metadata": {"name": "p"}}) is None
    True
    """
    metadata = Field(pod)["metadata"]
    # What a bound pod has counts, whatever else it says: it must not be lost at a restart.
    is_new = not node_of(Field(pod))
    found: Asked
    if not metadata["annotations"][SPEC].absent:
        if is_new:
            _check_alone(metadata)
        found = HivedPod(read_pod_request(pod, strict=is_new))
        total = sum(pods for _, pods in found.request.roles)
    else:
        if is_new:
            _check_hived(metadata)
        member = read_job_pod(pod, strict=is_new)
        by_quota = not metadata["labels"][QUOTA_NAME].absent
        if member.is_alone and member.devices is None and not member.gpus and not by_quota:
            return None
        found = KoordinatorPod(member)
        total = 1 if member.spec is None else member.spec.total
    if total > _MOST_PODS:
        raise ValueError(f"gang {show(found.gang)}: more than {_MOST_PODS} pods")
    if len(found.gang) > _LONGEST_NAME:
        raise ValueError(f"the name of its gang has more than {_LONGEST_NAME} characters")
    return found


def _check_alone(metadata: Field) -> None:
    """Refuse what Koordinator would read beside HiveD's annotation, which says all of a job."""
    for fields, keys in ((metadata["labels"], LABELS), (metadata["annotations"], ANNOTATIONS)):
        for key, field in fields.items():
            if key in keys and not field.absent:
                raise field.error(f"is not read beside the annotation {SPEC}")


def _check_hived(metadata: Field) -> None:
    """Refuse an annotation of HiveD's that is not the one that is read."""
    for place, known in (("annotations", (BIND_INFO, ISOLATION, SPEC)), ("labels", ())):
        for key, field in metadata[place].items():
            if key.startswith(_HIVED) and key not in known and not field.absent:
                raise field.error(f"is unknown, is the annotation {SPEC} meant?")


def job_of(asked: Asked) -> str:
    """The name of a pod's job."""
    return PREFIX + job_name(asked.gang)


def _lacking(gang: str, there: int, needed: int) -> str:
    return f"{there} of the {needed} pods that {show(gang)} needs are there"
