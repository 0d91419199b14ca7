"""What controllers of distributed jobs write on their pods: of which gang and role these are.

The labels name both for every kind of jobs. How many pods there are in all only a LeaderWorkerSet
writes on them; the others know it from an object that pods do not name.
"""

from typing import NamedTuple

from hivecore.interop.kubernetes.fields import Field

__all__ = ["WorkloadPod", "role_of", "workload_of"]

_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io", "jobset.sigs.k8s.io"
_TRAINING, _RAY = "training.kubeflow.org", "ray.io"


class _Labels(NamedTuple):
    """The labels and annotations of one kind of jobs.

    :param gang: labels whose texts name a gang together.
    :param role: the label with the role of a pod; "": there is none.
    :param size: the annotation with the number of pods of the gang; "": there is none.
    """

    gang: tuple[str, ...]
    role: str = ""
    size: str = ""


_KINDS = {
    "leaderworkerset": _Labels((f"{_LWS}/name", f"{_LWS}/group-index"), size=f"{_LWS}/size"),
    # Kubeflow's TrainJob runs as a JobSet of its name.
    "jobset": _Labels((f"{_JOBSET}/jobset-name",), f"{_JOBSET}/replicatedjob-name"),
    # PyTorchJob and the other jobs of Kubeflow's training operator.
    "training": _Labels((f"{_TRAINING}/job-name",), f"{_TRAINING}/replica-type"),
    "raycluster": _Labels((f"{_RAY}/cluster",), f"{_RAY}/group"),
}


class WorkloadPod(NamedTuple):
    """What the labels of a pod say of its job.

    :param gang: "kind:name", which no object of Kubernetes can be called.
    :param size: the field with the number of its pods.
    """

    gang: str
    size: Field | None


def workload_of(labels: Field, annotations: Field) -> WorkloadPod | None:
    """The gang that the controller of a pod has written on it; ``None``: it is of no known kind.

    >>> from hivecore.interop.kubernetes.workloads import workload_of
    >>> labels = {"jobset.sigs.k8s.io/jobset-name": "train"}
    >>> workload_of(Field(labels), Field({})).gang
    'jobset:train'
    """
    for kind, known in _KINDS.items():
        names = [labels[label].text() for label in known.gang]
        if all(names):
            size = annotations[known.size] if known.size else None
            return WorkloadPod(f"{kind}:{'-'.join(names)}", size)
    return None


def role_of(labels: Field) -> str:
    """The role of a pod in its job, as its controller calls it; "": it does not say.

    >>> from hivecore.interop.kubernetes.workloads import role_of
    >>> role_of(Field({"ray.io/cluster": "train", "ray.io/group": "gpus"}))
    'gpus'
    """
    return next(
        filter(None, (labels[kind.role].text() for kind in _KINDS.values() if kind.role)), ""
    )
