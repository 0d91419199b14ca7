"""A job of KubeDL, of any framework, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from hivecore._arguments import as_int, as_mapping, as_text
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name, pod_requests
from hivecore.queues import QueuedJob

__all__ = ["KubedlJob", "KubedlRole", "queued_job", "read_job"]

#: Of each kind, where its roles stand.
_ROLES = {
    "ElasticDLJob": "elasticdlReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "MarsJob": "marsReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XDLJob": "xdlReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
}
_MOST = 2**31 - 1
_MOST_AMOUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KubedlRole:
    """The pods of a job that are alike.

    :param name: such as "Worker".
    :param replicas: how many there are.
    :param spot: how many of them may be interrupted.
    :param requests: what each asks for, in thousandths, by resource.
    """

    name: str
    replicas: int
    spot: int
    requests: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class KubedlJob:
    """What a job asks for.

    :param name: "namespace/name".
    :param kind: such as "PyTorchJob".
    :param tenant: whose queue it waits in.
    :param priority: the higher, the sooner.
    :param min_available: with how many pods its gang may start; 0: it does not say.
    :param roles: in the order of the object.
    :param resources: what all but the spot replicas ask for, in thousandths, by resource.
    :param spot_resources: what these ask for.
    """

    name: str
    kind: str
    tenant: str
    priority: int
    min_available: int
    roles: tuple[KubedlRole, ...]
    resources: tuple[tuple[str, int], ...]
    spot_resources: tuple[tuple[str, int], ...]


def read_job(
    record: Mapping[str, Any], *, tenant: str = "", priorities: Mapping[str, int] | None = None
) -> KubedlJob:
    """What a job of KubeDL asks for.

    :param record: the object as plain data, of kind PyTorchJob, TFJob, MPIJob, XGBoostJob, XDLJob,
        MarsJob or ElasticDLJob.
    :param tenant: of a job that names no queue; "": its namespace.
    :param priorities: the values of PriorityClasses, by name; of others it is 0.
    :raises ValueError: it is of another kind, or something is missing or out of range; the message
        names the object and has the path.
    :raises TypeError: something is of a wrong type.

    Amounts are added up exactly, and rounded up to thousandths at the end: 3 pods of 500m are 1500.
    Source: KubeDL, ``pkg/jobcoordinator/helper``, ``plugins/quota`` and ``plugins/priority``, which
    rounds each pod's 500m up to 1 before it multiplies.

    >>> from hivecore.interop.kubedl import read_job
    >>> pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}
    >>> record = {
    ...     "kind": "PyTorchJob",
    ...     "metadata": {"name": "train", "namespace": "ml"},
    ...     "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": pod}}},
    ... }
    >>> job = read_job(record)
    >>> job.tenant, job.resources
    ('ml', (('cpu', 1500),))
    """
    preset = as_text(tenant, "tenant")
    classes = {} if priorities is None else as_mapping(priorities, "priorities")
    document = Field(as_mapping(record, "record"))
    with named_object(document, document["kind"].text() or "job"):
        where = document["kind"].choice(_ROLES)
        if where is None:
            raise document["kind"].error("is missing")
        spec = document["spec"]
        policy = spec["schedulingPolicy"]
        if policy.absent and not spec["runPolicy"].absent:  # where MPIJobs had it once
            policy = spec["runPolicy"]["schedulingPolicy"]
        roles = tuple(
            _role(name, role) for name, role in spec[where].items() if role.value is not None
        )
        if not roles:
            raise spec[where].error("is missing")
        name = owner_name(document)
        return KubedlJob(
            name,
            document["kind"].text(),
            policy["queue"].text() or preset or name.partition("/")[0],
            _priority(policy, classes),
            0 if policy["minAvailable"].value is None else policy["minAvailable"].integer(0, _MOST),
            roles,
            _summed(spec[where], [(role.requests, role.replicas - role.spot) for role in roles]),
            _summed(spec[where], [(role.requests, role.spot) for role in roles]),
        )


def _role(name: str, role: Field) -> KubedlRole:
    replicas = 1 if role["replicas"].value is None else role["replicas"].integer(0, _MOST)
    spot = role["spotReplicaSpec"]["spotReplicaNumber"]
    requests = sorted(pod_requests(role["template"]).items())
    return KubedlRole(
        name,
        replicas,
        0 if spot.value is None else spot.integer(0, replicas),
        tuple((resource, 1000 * amount) for resource, amount in requests),
    )


def _priority(policy: Field, classes: Mapping[str, Any]) -> int:
    if policy["priority"].value is not None:
        return policy["priority"].integer(-_MOST - 1, _MOST)
    name = policy["priorityClassName"].text()
    return as_int(classes.get(name, 0), f"priorities[{name!r}]", -_MOST - 1, _MOST)


def _summed(
    where: Field, parts: list[tuple[tuple[tuple[str, Fraction], ...], int]]
) -> tuple[tuple[str, int], ...]:
    sums: dict[str, Fraction] = {}
    for requests, pods in parts:
        for resource, amount in requests:
            sums[resource] = sums.get(resource, Fraction(0)) + pods * amount
    found = {resource: ceil(amount) for resource, amount in sorted(sums.items()) if amount}
    for resource, total in found.items():
        if total > _MOST_AMOUNT:
            raise where.error(f"asks for more than 2**63 - 1 thousandths of {resource!r}")
    return tuple(found.items())


def queued_job(job: KubedlJob, resource: str = "nvidia.com/gpu") -> QueuedJob:
    """A job as `hivecore.queues.TenantQueues` takes it.

    :param job: as `read_job` gives it.
    :param resource: what tenants share by weight: how much of it all pods ask for, in whole units,
        is the job's size, and at least 1.
    :raises ValueError: that is more than 2**31 - 1.
    :raises TypeError: ``job`` is none.

    >>> from hivecore.interop.kubedl import KubedlJob, queued_job
    >>> job = KubedlJob("ml/train", "TFJob", "ml", 3, 0, (), (("nvidia.com/gpu", 8000),), ())
    >>> queued_job(job).size
    8
    """
    if not isinstance(job, KubedlJob):
        raise TypeError(f"job must be a KubedlJob, not {type(job).__name__}")
    units = sum(dict(part).get(resource, 0) for part in (job.resources, job.spot_resources))
    return QueuedJob(
        job.name,
        job.tenant,
        max(1, ceil(Fraction(units, 1000))),
        job.priority,
        resources=job.resources,
        namespace=job.name.partition("/")[0],
    )
