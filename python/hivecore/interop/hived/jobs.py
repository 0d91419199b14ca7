"""HiveD's pods as jobs: an affinity group is a job, its members are the roles."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_name
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.serving.annotations import SPEC, read_spec
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import RequestError, identify, pods_of, requested
from hivecore.scheduler import Job, Role, Where

__all__ = ["job_of_hived_pods", "job_of_request", "read_pod_request"]

_GPUS = "nvidia.com/gpu", "hivecore.io/leaf-cell"


def job_of_hived_pods(
    pods: Mapping[str, Any] | Iterable[Mapping[str, Any]], *, name: str | None = None
) -> Job:
    """The job of an affinity group.

    :param pods: an object of kind Pod as plain data, or several of one group. Each describes the
        whole group, so one is enough.
    :param name: of the job; ``None``: that of the group.
    :raises ValueError: the annotation ``hivedscheduler.microsoft.com/pod-scheduling-spec`` is
        missing, wrong or differs from the containers' GPUs; the pods do not describe one group;
        there is no pod, or there are too many pods or GPUs.
    :raises TypeError: something is of a wrong type.

    The tenant is the virtual cluster. Pods with the same number of leaf cells are a role, such as
    "8-gpu". With a priority below 0 the job is opportunistic. ``lazyPreemptionEnable`` and
    ``ignoreK8sSuggestedNodes`` have no effect: the scheduler stops jobs that have to leave, and
    uses all nodes that it knows.

    >>> from hivecore.interop.hived import job_of_hived_pods
    >>> spec = '''
    ... virtualCluster: vision
    ... priority: 5
    ... leafCellNumber: 8
    ... affinityGroup: {name: me/bert, members: [{podNumber: 4, leafCellNumber: 8}]}
    ... '''
    >>> annotations = {"hivedscheduler.microsoft.com/pod-scheduling-spec": spec}
    >>> job = job_of_hived_pods({"metadata": {"name": "bert-0", "annotations": annotations}})
    >>> job.name, job.tenant, job.priority, [(role.pods, role.gpus) for role in job.roles]
    ('me/bert', 'vision', 5, [(4, 8)])
    """
    given = pods_of(pods)
    requests = [read_pod_request(pod) for pod in given]
    first = requests[0]
    for pod, request in zip(given, requests, strict=True):
        if request._replace(leaf_number=first.leaf_number) != first:
            raise ValueError(
                f"pod {show(identify(pod)[1])} says something else of the group {show(first.gang)}"
                " than the first one"
            )
    return job_of_request(first, name)


def read_pod_request(pod: Mapping[str, Any], *, strict: bool = True) -> PodRequest:
    """What a pod says in its annotation.

    :param strict: as of `PodRequest.read`.
    :raises RequestError: it says nothing, or nothing that can be meant; or its containers ask for
        another number of GPUs.
    :raises TypeError: something is of a wrong type.
    """
    annotation = Field(pod)["metadata"]["annotations"][SPEC]
    if annotation.absent:
        raise RequestError(str(annotation.error("is missing")))
    request = PodRequest.read(read_spec(annotation.text()), identify(pod)[1], strict=strict)
    resources = requested(Field(pod), _GPUS) if strict else {}
    for resource, number in resources.items():
        if number != request.leaf_number:
            raise RequestError(
                f"spec.containers: {resource}={number}, and the annotation says "
                f"leafCellNumber={request.leaf_number}: they must be the same"
            )
    return request


def job_of_request(request: PodRequest, name: str | None = None) -> Job:
    """The job of what a pod of the group asks for.

    :param name: of the job; ``None``: that of the group.
    :raises RequestError: there are too many pods or GPUs.
    """
    called = job_name(request.gang) if name is None else as_name(name, "name")
    pinned = request.pinned_cell or ""
    try:
        return Job(
            called,
            request.virtual_cluster,
            [Role(f"{number}-gpu", pods, gpus=number) for number, pods in request.roles],
            priority=request.priority,
            guaranteed=request.priority >= 0,
            where=Where(leaf_type="" if pinned else request.leaf_type or "", pinned_cell=pinned),
        )
    except ValueError as error:
        raise RequestError(f"spec: {error}") from None
