"""What a pod requests of the scheduler: in HiveD's annotation, or in Koordinator's words."""

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
"""How the names of jobs begin that consist of pods of Kubernetes; a restart knows them by it."""
_MOST_PODS = 65_536  # of a job
_LONGEST_NAME = 1000  # characters
_HIVED = SPEC.partition("/")[0] + "/"

#: GPUs, devices and other resources, and for a role templates of claims: pods of one shape are of
#: one role.
Shape = tuple[Any, ...]


class Request(Struct, frozen=True):
    """What a pod requests.

    :param gang: the name of the gang with which the pod starts.
    :param shape: what it shares with the pods of its role.
    :param common: what it shares with all pods of its gang.
    :param total: how many pods its gang has.
    :param rank: its place among the pods of its gang; ``None``: by its name.
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
        """The request of what was read of a pod."""
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
        """Whether HiveD's annotation says it."""
        return isinstance(self.source, PodRequest)

    @property
    def is_alone(self) -> bool:
        """Whether it is of no gang, or of a gang of one pod."""
        source = self.source
        return self.total == 1 if isinstance(source, PodRequest) else source.is_alone

    @property
    def gpus(self) -> int:
        """How many it asks for."""
        return int(self.shape[0])

    @property
    def has_devices(self) -> bool:
        """Whether it asks for devices of its node, GPUs or others."""
        return bool(self.gpus or self.shape[1] is not None)

    @property
    def holds(self) -> bool:
        """Whether it asks for something that no other pod can have."""
        return self.has_devices or bool(self.claims)

    @property
    def tenant(self) -> str:
        """Who it is of."""
        source = self.source
        return source.virtual_cluster if isinstance(source, PodRequest) else source.tenant

    def explained(self, message: str) -> str:
        """What is wrong with its job, with the field that names its tenant if that is it."""
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
        """Its shape in a job, which has only the resources that the scheduler counts."""
        counted = {resource for role in job.roles for resource, _ in role.resources}
        gpus, devices, resources = self.shape
        return gpus, devices, tuple(pair for pair in resources if pair[0] in counted)

    def is_of(self, job: Job) -> bool:
        """Whether a job can be that of its gang, on whatever nodes."""
        if isinstance(self.source, PodRequest):
            own = job_of_request(self.source, job.name)
            alike = own.replace(where=job.where, roles=job.roles) == job
            return alike and _counts(own) == _counts(job)  # one that was adopted has started
        return self.common == (job.tenant, job.priority, job.preemptible)


def _counts(job: Job) -> list[tuple[str, int, int]]:
    return [(role.name, role.pods, role.gpus) for role in job.roles]


def lone_job(request: Request, name: str) -> Job:
    """The job of a pod by itself, which runs already."""
    gpus, devices, resources = request.shape
    role = Role("pod", gpus=gpus, devices=devices, resources=resources)
    return Job(name, request.tenant, [role], preemptible=False)


def lacking(pods: Sequence[Request], group: GangSpec | None, beside: int = 0) -> str:
    """Which pods are missing before these pods of a gang may start; "": none.

    :param group: what its PodGroup says.
    :param beside: how many pods of the gang run already.
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
    """These pods of a gang, and as many like the last one as it still needs."""
    source = pods[-1].source
    spec = None if isinstance(source, PodRequest) else group or source.spec
    needed = 0 if spec is None else min(spec.min_members, _MOST_PODS)
    return [*pods, *[pods[-1]] * (needed - len(pods))]


def wishes_of(pods: Sequence[Request], group: GangSpec | None) -> GangWishes:
    """What these pods of a gang and its PodGroup request together.

    :raises ValueError: they disagree.
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
    """The job of these pods of a gang.

    :param templates: the claims of each that are to be allocated.
    :param beside: as of `lacking`.
    :raises ValueError: they cannot be one.
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
    """The shape of a role's pods.

    >>> from hivecore.interop.extender.requests import shape_of
    >>> from hivecore.scheduler import Role
    >>> shape_of(Role("w", 4, gpus=8))
    (8, None, (), ())
    """
    return role.gpus, role.devices, role.resources, role.claims


def read_request(pod: Mapping[str, Any], with_claims: bool = False) -> Request | None:
    """What a pod requests; ``None``: nothing that the scheduler has.

    :param with_claims: whether the scheduler allocates device claims.
    :raises ValueError: something is missing or wrong; the message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.extender.requests import read_request
    >>> spec = "{virtualCluster: vision, leafCellNumber: 8}"
    >>> annotations = {"hivedscheduler.microsoft.com/pod-scheduling-spec": spec}
    >>> read_request({"metadata": {"name": "p", "annotations": annotations}}).gang
    'default/p'
    >>> read_request({"metadata": {"name": "p"}}) is None
    True
    """
    metadata = Field(pod)["metadata"]
    # What a bound pod has counts, whatever else it says: it must not be lost at a restart.
    is_new = not node_of(Field(pod))
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
