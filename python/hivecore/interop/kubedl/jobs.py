"""Reads KubeDL's jobs, and turns them into queued jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from hivecore._arguments import as_int, as_mapping, as_name, as_text
from hivecore.interop.kubedl.amounts import MOST, in_units
from hivecore.interop.kubedl.names import AI_MASTER, GROUP, KINDS, JobKind
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name, pod_requests
from hivecore.queues import QueuedJob

__all__ = ["KubedlJob", "KubedlRole", "read_job"]

_MOST = 2**31 - 1
_LEAST = -(2**31)
_NAMES = {kind: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class KubedlRole:
    """A role of a job; its pods are alike.

    :param name: the replica type, such as "Worker".
    :param replicas: the number of pods, including spot pods.
    :param spot_replicas: the number of pods that may be interrupted, at most ``replicas``.
    :param requests: resource -> the exact request of a pod, in cores, bytes or devices.
    """

    name: str
    replicas: int
    spot_replicas: int
    requests: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class KubedlJob:
    """A KubeDL job, see `read_job`.

    :param kind: such as "PyTorchJob".
    :param name: "namespace/name".
    :param tenant: has the queue of the job.
    :param priority: the job with the highest starts first.
    :param min_available: the number of pods with which its gang starts; 0 if not set.
    :param roles: in the order of the object.
    """

    kind: str
    name: str
    tenant: str
    priority: int
    min_available: int
    roles: tuple[KubedlRole, ...]

    @property
    def namespace(self) -> str:
        """The namespace, which has its quota."""
        return self.name.partition("/")[0]

    @property
    def key(self) -> str:
        """The job's unique name "kind/namespace/name"."""
        return f"{self.kind}/{self.name}"

    @property
    def resources(self) -> tuple[tuple[str, int], ...]:
        """What all pods except spot pods request together: (resource, amount), sorted by name.

        Amounts are thousandths of a core for ``cpu``, whole units otherwise; sums are rounded up.
        """
        return _total((role.replicas - role.spot_replicas, role) for role in self.roles)

    @property
    def spot_resources(self) -> tuple[tuple[str, int], ...]:
        """What the spot pods request together, in the form of `resources`; 0 each without any."""
        return _total((role.spot_replicas, role) for role in self.roles)

    def queued(self, size_of: str = "nvidia.com/gpu", *, run_time: int | None = None) -> QueuedJob:
        """Return the job for `hivecore.queues.TenantQueues.push`; its name is `key`.

        :param size_of: the resource whose total in `resources`, at least 1, is the job's size.
        :param run_time: an upper estimate in the caller's unit of time, if known.
        :raises ValueError: a value is out of range; a size is at most 2**31 - 1.
        :raises TypeError: an argument has a wrong type.
        """
        resource = as_name(size_of, "size_of")
        resources = self.resources
        size = max(1, dict(resources).get(resource, 0))
        if size > _MOST:
            raise ValueError(
                f"size_of={resource!r}: {self.key!r} asks for {size}, and 2**31 - 1 is allowed"
            )
        return QueuedJob(
            self.key,
            self.tenant,
            size,
            self.priority,
            run_time,
            resources=resources,
            namespace=self.namespace,
        )


def read_job(
    record: Mapping[str, Any],
    *,
    priority_classes: Mapping[str, int] | None = None,
    default_tenant: str = "",
) -> KubedlJob:
    """Return a PyTorchJob, TFJob, MPIJob, XGBoostJob, XDLJob, MarsJob or ElasticDLJob.

    :param record: the Kubernetes object as plain data.
    :param priority_classes: the cluster's priority classes by name.
    :param default_tenant: the tenant of a job that names no queue; by default its namespace.
    :raises ValueError: the kind or the API group is unknown, or a value is missing or out of range.
        The message names the object and has the path.
    :raises TypeError: a field has a wrong type.

    The priority comes from the scheduling policy, or from the priority class that it names; it is 0
    without both or for an unknown class. A misplaced scheduling policy, and an unknown key in it,
    is an error. A role without ``replicas`` has one pod; case in names of roles is ignored. A pod's
    request is what Kubernetes counts: limits where requests are missing, and init containers where
    they need more. Other fields are ignored. An MPIJob without ``mpiReplicaSpecs`` is refused.

    Cost: O(containers). Source: KubeDL, ``pkg/jobcoordinator``, ``pkg/util/resource_utils``.

    >>> from hivecore.interop.kubedl import read_job
    >>> pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}
    >>> job = read_job(
    ...     {
    ...         "kind": "XDLJob",
    ...         "metadata": {"name": "ads", "namespace": "rank"},
    ...         "spec": {"xdlReplicaSpecs": {"Worker": {"replicas": 3, "template": pod}}},
    ...     }
    ... )
    >>> job.name, job.tenant, job.resources
    ('rank/ads', 'rank', (('cpu', 1500),))
    """
    document = Field(as_mapping(record, "record"))
    given = {} if priority_classes is None else as_mapping(priority_classes, "priority_classes")
    classes = {
        as_name(key, "priority_classes"): as_int(n, f"priority_classes[{key!r}]", _LEAST, _MOST)
        for key, n in given.items()
    }
    tenant = as_text(default_tenant, "default_tenant")
    kind = document["kind"].choice(_NAMES)
    if kind is None:
        raise document["kind"].error("is missing")
    with named_object(document, kind):
        version = document["apiVersion"]
        if not version.absent and version.text().partition("/")[0] != GROUP:
            raise version.error(f"must be of the group {GROUP}")
        name, spec = owner_name(document), document["spec"]
        policy = spec
        for key in KINDS[kind].policy:
            policy = policy[key]
        policy.only("minAvailable", "priority", "priorityClassName", "queue")
        for other in (spec["schedulingPolicy"], spec["runPolicy"]["schedulingPolicy"]):
            if other.path != policy.path and other.value is not None:
                raise other.error(
                    f"has no meaning for the kind {kind}, it belongs to {policy.path}"
                )
        least = policy["minAvailable"]
        job = KubedlJob(
            kind,
            name,
            policy["queue"].text() or tenant or name.partition("/")[0],
            _priority(policy, classes),
            0 if least.value is None else max(0, least.integer(_LEAST, _MOST)),
            _roles(spec[KINDS[kind].roles], KINDS[kind]),
        )
        for amount in (*job.resources, *job.spot_resources):
            if amount[1] > MOST:
                raise spec.error(f"its pods ask for more than 2**63 - 1 of {amount[0]!r}")
    return job


def _priority(policy: Field, classes: Mapping[str, int]) -> int:
    own = policy["priority"]
    if own.value is not None:
        return own.integer(_LEAST, _MOST)
    return classes.get(policy["priorityClassName"].text(), 0)


def _roles(specs: Field, kind: JobKind) -> tuple[KubedlRole, ...]:
    known = {name.lower(): name for name in (*kind.known, AI_MASTER)}
    roles: dict[str, KubedlRole] = {}
    for key, field in specs.items():
        if not key:
            raise specs.error("a role must have a name")
        if key.lower() in roles:
            raise field.error("the role is there twice, in another case")
        roles[key.lower()] = _role(known.get(key.lower(), key), field)
    if not roles:
        raise specs.error("is missing")
    if sum(role.replicas for role in roles.values()) > _MOST:
        raise specs.error("there are more than 2**31 - 1 pods")
    return tuple(roles.values())


def _role(name: str, field: Field) -> KubedlRole:
    if field.value is None:
        raise field.error("is missing")
    count, spot = field["replicas"], field["spotReplicaSpec"]["spotReplicaNumber"]
    replicas = 1 if count.value is None else count.integer(0, _MOST)
    interruptible = 0 if spot.value is None else spot.integer(0, _MOST)
    return KubedlRole(
        name,
        replicas,
        # They are the last replicas, so not more than there are.
        min(interruptible, replicas),
        tuple(sorted(pod_requests(field["template"]).items())),
    )


def _total(counted: Iterable[tuple[int, KubedlRole]]) -> tuple[tuple[str, int], ...]:
    sums: dict[str, Fraction] = {}
    for count, role in counted:
        for name, amount in role.requests:
            sums[name] = sums.get(name, Fraction(0)) + count * in_units(name, amount)
    return tuple((name, ceil(sums[name])) for name in sorted(sums))
