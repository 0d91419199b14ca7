"""Turns Koordinator's pods into jobs: a gang is a job, pods with equal requests are a role.

All readers of pods go through `read_job_pod`: each label and annotation that hivecore knows is
used, or an error names it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hivecore._arguments import as_name
from hivecore.devices import DeviceRequest
from hivecore.dra import ResourceClaim
from hivecore.gangs import GangSpec
from hivecore.interop.koordinator.combinations import RESOURCES
from hivecore.interop.koordinator.gangs.names import GROUPS
from hivecore.interop.koordinator.gangs.pods import read_gang_pod, read_groups
from hivecore.interop.koordinator.keys import ANNOTATIONS, LABELS, meant_key
from hivecore.interop.koordinator.pods import read_pod
from hivecore.interop.koordinator.quotas.amounts import in_units
from hivecore.interop.koordinator.quotas.elastic_quotas import ElasticQuotas
from hivecore.interop.koordinator.quotas.names import PREEMPTIBLE, QUOTA_NAME
from hivecore.interop.koordinator.quotas.pods import pod_quota
from hivecore.interop.koordinator.topology.names import POD_INDEX, SELECTOR, SPEC
from hivecore.interop.koordinator.topology.rules import (
    NO_RULES,
    GatherRules,
    read_rules,
    wishes_of,
)
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pod_spread import NO_SPREAD, PodSpread, read_pod_spread
from hivecore.interop.kubernetes.pods import owner_name, pod_requests, pods_of, priority_of
from hivecore.interop.kubernetes.workloads import role_of
from hivecore.scheduler import Job, Role, Where
from hivecore.topology import NetworkTopology

__all__ = [
    "ANNOTATIONS",
    "LABELS",
    "GangWishes",
    "JobPod",
    "job_of_job_pods",
    "job_of_koordinator_pods",
    "read_job_pod",
    "wishes_of_gang",
]

_HIGHEST = 1000
_OF_DEVICES = frozenset(name for names in RESOURCES.values() for name in names)


class GangWishes(NamedTuple):
    """What a gang asks for beside its minimum, according to a pod, its PodGroup or both.

    :param groups: the gangs that must start with it, without itself.
    :param rules: where in the network its pods go.
    """

    groups: tuple[str, ...]
    rules: GatherRules


@dataclass(frozen=True, slots=True)
class JobPod:
    """What a pod says about its job.

    :param name: "namespace/name".
    :param gang: its gang, "namespace/name", or else the pod itself.
    :param spec: the pod's definition of the gang, if it has one.
    :param tenant: the name of its quota, or else its namespace.
    :param priority, preemptible: as in `hivecore.scheduler.Job`.
    :param gpus: the number of GPUs.
    :param devices: the request for devices; ``None`` if it is for whole GPUs alone.
    :param resources: all other requests.
    :param wishes: what the pod itself says about its gang.
    :param rank: its position in the gang; ``None`` orders by name.
    :param claims: templates of its device claims, as in `hivecore.scheduler.Role`.
    :param spread: how far apart pods of its shape must be.
    :param role: the role's name given by the job's controller, or "".
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
    wishes: GangWishes
    rank: int | None
    claims: tuple[ResourceClaim, ...] = ()
    spread: PodSpread = NO_SPREAD
    role: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether the pod has no gang."""
        return self.gang == self.name and self.spec is None


def job_of_koordinator_pods(
    pods: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    gang: GangSpec | None = None,
    quotas: ElasticQuotas | None = None,
    name: str | None = None,
    network: NetworkTopology | None = None,
) -> Job:
    """Return the job of a gang or of a single pod.

    :param pods: a Pod object as plain data, or the known pods of one gang.
    :param gang: the gang's definition from `read_pod_group`. ``None`` takes it from the pods'
        labels and annotations; without a minimum there, all given pods are needed.
    :param quotas: used to look up pods without a quota label by their namespace.
    :param name: of the job; by default "namespace/name" of the gang or pod.
    :param network: the network that ``network-topology-spec`` refers to. If it is ``None``, the
        annotation itself must show which of two layers is narrower.
    :raises ValueError: pods differ in a property of the job, are of several gangs, or are fewer
        than the gang's minimum; a value cannot be read, is a label instead of an annotation or vice
        versa, or has no equivalent in a job (``network-topology-selector``). The message names the
        pod.
    :raises TypeError: a field has a wrong type.

    The tenant is the quota in the pod's label, or else the namespace. Pods with equal requests for
    devices and resources form a role. With a single role, the job starts with the gang's minimum,
    and further pods may join up to its total; with several, it starts with all given pods. CPUs are
    counted in thousandths, everything else in whole units. Priorities are divided by ten and at
    most 1000, so that Koordinator's classes from 3000 to 9999 become 300 to 999.

    Anti-affinity and spread constraints become ``per_node`` if they mean just that, see
    `hivecore.interop.kubernetes.pod_spread.read_pod_spread`. ``network-topology-spec`` becomes
    ``where``, and ``groups`` becomes ``together``, by the names of those gangs' jobs. PodGroup and
    pods must not contradict each other. Mode, match policy and waiting time have no effect: a job
    gets all its places at once and never waits with some of them.

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
    ('me/bert', 'vision', 900, [(2, 8)])
    """
    job_pods = [read_job_pod(pod, quotas) for pod in pods_of(pods)]
    if gang is not None and not isinstance(gang, GangSpec):
        raise TypeError(f"gang must be a GangSpec, not {type(gang).__name__}")
    if network is not None and not isinstance(network, NetworkTopology):
        raise TypeError(f"network must be a NetworkTopology, not {type(network).__name__}")
    job = job_of_job_pods(job_pods, gang, layers=None if network is None else network.layers)
    return job if name is None else job.replace(name=as_name(name, "name"))


def read_job_pod(
    pod: Mapping[str, Any], quotas: ElasticQuotas | None = None, *, strict: bool = True
) -> JobPod:
    """Return what a pod says about its job.

    :param quotas: as in `job_of_koordinator_pods`.
    :param strict: whether a value without effect is an error; use ``False`` for pods that run
        already.
    :raises ValueError: a value cannot be read; the message names the pod.
    :raises TypeError: a field has a wrong type.
    """
    document = Field(pod)
    member = read_gang_pod(pod, strict=strict)
    with named_object(document, "Pod"):
        if strict:
            _check_places(document["metadata"])
        request = read_pod(pod)
        metadata, name = document["metadata"], owner_name(document)
        namespace = metadata["namespace"].text() or "default"
        label = metadata["labels"][QUOTA_NAME].text()
        notes = metadata["annotations"]
        index = notes[POD_INDEX]
        need = None if request is None else request.need("gpu")
        gpus = 0 if need is None else need.count
        devices = None if request is None else request.replace(name="any pod", priority=0)
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
            _in_tens(priority_of(document)),
            metadata["labels"][PREEMPTIBLE].text() != "false",
            gpus,
            devices,
            tuple(sorted(resources.items())),
            GangWishes(
                read_groups(notes, strict=strict) if GROUPS in notes else (),
                read_rules(notes[SPEC]) if SPEC in notes else NO_RULES,
            ),
            None if index.absent else index.integer_text(0, 2**31 - 1),
            spread=_spread(document, strict=strict),
            role=role_of(metadata["labels"]),
        )


def _spread(pod: Field, *, strict: bool) -> PodSpread:
    """Return how far apart pods must be; unreadable values of a running pod are ignored."""
    try:
        return read_pod_spread(pod)
    except (TypeError, ValueError):
        if strict:
            raise
        return NO_SPREAD


def _check_places(metadata: Field) -> None:
    """Refuse labels among annotations, annotations among labels, and what a job cannot express."""
    labels, annotations = metadata["labels"], metadata["annotations"]
    for fields, others, keys, place in (
        (annotations, labels, LABELS, "a label"),
        (labels, annotations, ANNOTATIONS, "an annotation"),
    ):
        for key, field in fields.items():
            if key in keys and not field.absent and others[key].absent:
                raise field.error(f"is read as {place} only")
            meant = meant_key(key)
            if meant:
                raise field.error(f"is unknown, is {meant} meant?")
    if not annotations[SELECTOR].absent:
        raise annotations[SELECTOR].error("a job cannot wish to be near to other pods")


def _in_tens(priority: int) -> int:
    return max(-_HIGHEST, min(_HIGHEST, priority // 10))


def wishes_of_gang(pods: Sequence[JobPod], group: GangSpec | None = None) -> GangWishes:
    """Combine what the pods of a gang and its PodGroup say.

    :raises ValueError: two of them contradict each other.
    """
    gang = pods[0].gang
    said = dict.fromkeys(pod.wishes for pod in pods)
    if group is not None:
        said[GangWishes(group.groups, GatherRules(group.must, group.prefer, group.multiple))] = None
    agreed = GangWishes((), NO_RULES)
    for wishes in said:
        groups = tuple(sorted({*wishes.groups} - {gang}))
        for own, others, what in (
            (groups, agreed.groups, "groups"),
            (wishes.rules, agreed.rules, "network-topology-spec"),
        ):
            if any(own) and any(others) and own != others:
                sources = (f"pod {show(pod.name)}" for pod in pods if pod.wishes == wishes)
                raise ValueError(
                    f"{next(sources, 'the PodGroup')}: its {what} differ from those of another pod "
                    f"of the gang {show(gang)}"
                )
        agreed = GangWishes(
            agreed.groups or groups, agreed.rules if any(agreed.rules) else wishes.rules
        )
    return agreed


def job_of_job_pods(
    pods: Sequence[JobPod],
    gang: GangSpec | None = None,
    prefix: str = "",
    *,
    layers: Sequence[str] | None = None,
    beside: int = 0,
) -> Job:
    """Return the job of these pods of one gang; see `job_of_koordinator_pods`.

    :param prefix: of the names of jobs.
    :param layers: of the network, from wide to narrow, if they are known.
    :param beside: the number of pods of the gang that run already and count towards its minimum.
    :raises ValueError: the pods do not fit together, or are too few.
    """
    first = pods[0]
    if gang is not None and gang.name != first.gang:
        raise ValueError(f"gang: is {show(gang.name)}, and the pods are of {show(first.gang)}")
    for pod in pods:
        for what in ("gang", "tenant", "priority", "preemptible"):
            if getattr(pod, what) != getattr(first, what):
                raise ValueError(
                    f"pod {show(pod.name)}: its {what} is {show(getattr(pod, what))}, not "
                    f"{show(getattr(first, what))} as that of {show(first.name)}"
                )
    defined = gang or next((pod.spec for pod in pods if pod.spec is not None), None)
    least = len(pods) if defined is None else max(1, defined.min_members - beside)
    if len(pods) < least:
        raise ValueError(f"pods: {len(pods)} of {least} that the gang {show(first.gang)} needs")
    wishes = wishes_of_gang(pods, gang)
    try:
        where = Where(**wishes_of(wishes.rules, layers))
    except ValueError as error:
        raise ValueError(f"gang {show(first.gang)}: network-topology-spec: {error}") from None
    total = max(len(pods), 0 if defined is None else defined.total - beside)
    return Job(
        prefix + job_name(first.gang),
        first.tenant,
        _roles(pods, least, total),
        priority=first.priority,
        preemptible=first.preemptible,
        where=where,
        together=[prefix + job_name(other) for other in wishes.groups],
    )


def _roles(pods: Sequence[JobPod], least: int, total: int) -> list[Role]:
    """Group pods with equal requests into roles, with the names in their labels if unique."""
    shapes = [(pod.gpus, pod.devices, pod.resources, pod.claims, pod.spread) for pod in pods]
    kinds = Counter(shapes)
    only = len(kinds) == 1
    said = {(shape, pod.role) for shape, pod in zip(shapes, pods, strict=True)}
    is_named = len(said) == len({role for _, role in said if role}) == len(kinds)
    names = dict(said) if is_named else {}
    return [
        Role(
            names.get(kind, "pod" if only else f"pod-{number}"),
            total if only else count,
            kind[0],
            min_pods=least if only else count,
            devices=kind[1],
            resources=kind[2],
            claims=kind[3],
            per_node=kind[4].most(total if only else count),
        )
        for number, (kind, count) in enumerate(kinds.items())
    ]
