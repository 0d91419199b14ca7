"""Reads what a pod requests, from HiveD's annotation or Koordinator's labels and annotations."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from hivecore.dra import ResourceClaim
from hivecore.gangs import GangSpec
from hivecore.interop.extender.claims import ClaimRef, refs_of
from hivecore.interop.hived.jobs import job_of_request, read_pod_request
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.serving.annotations import BIND_INFO, ISOLATION, SPEC
from hivecore.interop.koordinator.gangs.names import GANG_NAME, MINIMUM, TOTAL
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
from hivecore.interop.kubernetes.informer import mapping_in
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import node_of
from hivecore.scheduler import Job, Role

__all__ = [
    "PREFIX",
    "Request",
    "Shape",
    "completed",
    "job_of",
    "lacking",
    "lone_job",
    "read_request",
    "shape_of",
    "wishes_of",
]

PREFIX = "pods:"
"""Prefix of the names of jobs of Kubernetes pods, by which a restart recognises them."""
_MOST_PODS = 65_536  # of a job
_LONGEST_NAME = 1000  # characters
_HIVED = SPEC.partition("/")[0] + "/"

#: GPUs, devices, other resources and claim templates; pods of one shape form a role.
Shape = tuple[Any, ...]


class Request(Struct, frozen=True):
    """What a pod requests.

    :param gang: the gang that the pod starts with.
    :param shape: the same for all pods of its role.
    :param common: the same for all pods of its gang.
    :param total: the number of pods of its gang.
    :param rank: its position in the gang; ``None`` orders by name.
    :param source: HiveD's annotation, which describes the whole group, or what Koordinator reads.
    :param claims: its device claims.
    """

    gang: str
    shape: Shape
    common: Hashable
    total: int
    rank: int | None
    source: PodRequest | JobPod
    claims: tuple[ClaimRef, ...] = ()

    @classmethod
    def of(cls, source: PodRequest | JobPod, claims: tuple[ClaimRef, ...] = ()) -> "Request":
        """Return the request in what was read of a pod."""
        if isinstance(source, PodRequest):
            total = sum(pods for _, pods in source.roles)
            common = source._replace(leaf_number=0)
            return cls(source.gang, (source.leaf_number, None, ()), common, total, None, source)
        total = 1 if source.spec is None else source.spec.total
        shape = source.gpus, source.devices, source.resources
        shared = source.tenant, source.priority, source.preemptible
        return cls(source.gang, shape, shared, total, source.rank, source, claims)

    @property
    def is_of_hived(self) -> bool:
        """Whether it comes from HiveD's annotation."""
        return isinstance(self.source, PodRequest)

    @property
    def is_alone(self) -> bool:
        """Whether the pod has no gang, or is its only pod."""
        source = self.source
        return self.total == 1 if isinstance(source, PodRequest) else source.is_alone

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return int(self.shape[0])

    @property
    def has_devices(self) -> bool:
        """Whether it includes GPUs or other devices."""
        return bool(self.gpus or self.shape[1] is not None)

    @property
    def holds(self) -> bool:
        """Whether it includes something that other pods cannot use at the same time."""
        return self.has_devices or bool(self.claims)

    @property
    def tenant(self) -> str:
        """The tenant of the pod."""
        source = self.source
        return source.virtual_cluster if isinstance(source, PodRequest) else source.tenant

    def explained(self, message: str) -> str:
        """Return an error of its job; an error about the tenant names the pod's field."""
        if show(self.tenant) not in message:
            return message
        if isinstance(self.source, PodRequest):
            return f"{message}, the virtualCluster of the annotation {SPEC}"
        if self.source.name.startswith(f"{self.tenant}/"):
            return f"{message}, the pod's namespace; it has no label {QUOTA_NAME} that says another"
        return f"{message}, which the pod's label {QUOTA_NAME} names"

    @property
    def job_name(self) -> str:
        """The name of its job."""
        return PREFIX + job_name(self.gang)

    def shape_in(self, job: Job) -> Shape:
        """Return its shape in a job, with only the resources that the scheduler counts."""
        counted = {resource for role in job.roles for resource, _ in role.resources}
        gpus, devices, resources = self.shape
        return gpus, devices, tuple(pair for pair in resources if pair[0] in counted)

    def is_of(self, job: Job) -> bool:
        """Whether a job could be that of the pod's gang, ignoring nodes."""
        if isinstance(self.source, PodRequest):
            own = job_of_request(self.source, job.name)
            alike = own.replace(where=job.where, roles=job.roles) == job
            return alike and _counts(own) == _counts(job)  # one that was adopted has started
        return self.common == (job.tenant, job.priority, job.preemptible)


def _counts(job: Job) -> list[tuple[str, int, int]]:
    return [(role.name, role.pods, role.gpus) for role in job.roles]


def lone_job(request: Request, name: str) -> Job:
    """Return the job of a running pod that has no gang."""
    gpus, devices, resources = request.shape
    role = Role("pod", gpus=gpus, devices=devices, resources=resources)
    return Job(name, request.tenant, [role], preemptible=False)


def lacking(pods: Sequence[Request], group: GangSpec | None, beside: int = 0) -> str:
    """Return which pods are missing for a gang to start, or "".

    :param group: the definition in its PodGroup.
    :param beside: the number of its pods that run already.
    """
    source, gang = pods[0].source, pods[0].gang
    if isinstance(source, PodRequest):
        counts = Counter(pod.shape[0] for pod in pods)
        known = sum(min(counts[number], pods) for number, pods in source.roles)
        needed = pods[0].total
    else:
        spec = group or source.spec
        if spec is None and not source.is_alone:
            return (
                f"the PodGroup {show(gang)} is not known, and the pod says no min-available that "
                "can be read"
            )
        known, needed = len(pods) + beside, 1 if spec is None else max(1, spec.min_members)
    return (
        "" if known >= needed else f"{known} of the {needed} pods that {show(gang)} needs are there"
    )


def completed(pods: Sequence[Request], group: GangSpec | None) -> list[Request]:
    """Return the pods of a gang, with copies of the last one up to its total."""
    source = pods[-1].source
    spec = None if isinstance(source, PodRequest) else group or source.spec
    needed = 0 if spec is None else min(spec.min_members, _MOST_PODS)
    return [*pods, *[pods[-1]] * (needed - len(pods))]


def wishes_of(pods: Sequence[Request], group: GangSpec | None) -> GangWishes:
    """Return with which gangs a gang must start, and its rules for networks.

    Pods and PodGroup are read; what only some of them say counts. Empty for pods of HiveD.

    :raises ValueError: they contradict each other.
    """
    members = _job_pods(pods)
    return wishes_of_gang(members, group) if members else GangWishes((), NO_RULES)


def job_of(
    pods: Sequence[Request],
    group: GangSpec | None,
    layers: Sequence[str] | None,
    templates: Sequence[tuple[ResourceClaim, ...]],
    beside: int = 0,
) -> Job:
    """Return the job of the pods of a gang.

    :param templates: for each pod, the claims to allocate.
    :param beside: as in `lacking`.
    :raises ValueError: they cannot be one job.
    """
    source = pods[0].source
    if isinstance(source, PodRequest):
        return job_of_request(source, pods[0].job_name)
    if any(templates):
        pods = [
            structs.replace(pod, source=replace(pod.source, claims=own))
            if own and isinstance(pod.source, JobPod)
            else pod
            for pod, own in zip(pods, templates, strict=True)
        ]
    return job_of_job_pods(_job_pods(pods), group, PREFIX, layers=layers, beside=beside)


def _job_pods(pods: Sequence[Request]) -> list[JobPod]:
    return [pod.source for pod in pods if isinstance(pod.source, JobPod)]


def shape_of(role: Role) -> Shape:
    """Return what each pod of a role requests: GPUs, devices, other resources, and claims.

    >>> from hivecore.interop.extender.requests import shape_of
    >>> from hivecore.scheduler import Role
    >>> shape_of(Role("w", 4, gpus=8))
    (8, None, (), ())
    """
    return role.gpus, role.devices, role.resources, role.claims


def read_request(pod: Mapping[str, Any], with_claims: bool = False) -> Request | None:
    """Return a pod's request; ``None`` if it asks for nothing that the scheduler manages.

    :param with_claims: whether the scheduler allocates device claims.
    :raises ValueError: a value is missing or wrong; the message has the path.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.extender.requests import read_request
    >>> spec = "{virtualCluster: vision, leafCellNumber: 8}"
    >>> annotations = {"hivedscheduler.microsoft.com/pod-scheduling-spec": spec}
    >>> read_request({"metadata": {"name": "p", "annotations": annotations}}).gang
    'default/p'
    >>> read_request({"metadata": {"name": "p"}}) is None
    True
    """
    # A bound pod keeps what it has whatever else it says, or a restart would lose it.
    is_new = not node_of(Field(pod))
    try:
        return _read(pod, with_claims, is_new)
    except (TypeError, ValueError):
        if is_new:
            raise
        return _read(_without_wishes(pod), with_claims, is_new)


def _without_wishes(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with only those of its annotations that say of which gang it is."""
    meta = mapping_in(pod, "metadata")
    notes = mapping_in(meta, "annotations")
    kept = {key: notes[key] for key in (GANG_NAME, MINIMUM, TOTAL) if key in notes}
    return {**pod, "metadata": {**meta, "annotations": kept}}


def _read(pod: Mapping[str, Any], with_claims: bool, is_new: bool) -> Request | None:
    metadata = Field(pod)["metadata"]
    claims = refs_of(Field(pod)) if with_claims else ()
    if not metadata["annotations"][SPEC].absent:
        if is_new:
            _check_alone(metadata)
            if claims:
                entry = Field(pod)["spec"]["resourceClaims"]
                raise entry.error(f"is not read beside the annotation {SPEC}")
        request = Request.of(read_pod_request(pod, strict=is_new))
    else:
        if is_new:
            _check_hived(metadata)
        member = read_job_pod(pod, strict=is_new)
        by_quota = not metadata["labels"][QUOTA_NAME].absent
        asks = member.devices is not None or member.gpus or claims
        if member.is_alone and not asks and not by_quota:
            return None
        request = Request.of(member, claims)
    if request.total > _MOST_PODS:
        raise ValueError(f"gang {show(request.gang)}: more than {_MOST_PODS} pods")
    if len(request.gang) > _LONGEST_NAME:
        raise ValueError(f"the name of its gang has more than {_LONGEST_NAME} characters")
    return request


def _check_alone(metadata: Field) -> None:
    """Refuse Koordinator's keys beside HiveD's annotation, which describes a whole job."""
    for fields, keys in ((metadata["labels"], LABELS), (metadata["annotations"], ANNOTATIONS)):
        for key, field in fields.items():
            if key in keys and not field.absent:
                raise field.error(f"is not read beside the annotation {SPEC}")


def _check_hived(metadata: Field) -> None:
    """Refuse an unknown annotation of HiveD's."""
    for place, known in (("annotations", (BIND_INFO, ISOLATION, SPEC)), ("labels", ())):
        for key, field in metadata[place].items():
            if key.startswith(_HIVED) and key not in known and not field.absent:
                raise field.error(f"is unknown, is the annotation {SPEC} meant?")
