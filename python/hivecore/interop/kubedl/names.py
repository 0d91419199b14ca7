"""KubeDL's kinds of jobs with their roles, and its labels of gangs.

Source: KubeDL, ``apis/training/v1alpha1`` and ``pkg/gang_schedule/coscheduler``.
"""

from typing import NamedTuple

__all__ = ["AI_MASTER", "GROUP", "KINDS", "LIGHT_MINIMUM", "LIGHT_NAME", "POD_GROUP", "JobKind"]


class JobKind(NamedTuple):
    """Where the spec of a kind has its parts."""

    roles: str
    known: tuple[str, ...]
    policy: tuple[str, ...] = ("schedulingPolicy",)


GROUP = "training.kubedl.io"

#: The role that manages the others; it is not in a gang.
AI_MASTER = "AIMaster"

KINDS = {
    "PyTorchJob": JobKind("pytorchReplicaSpecs", ("Master", "Worker")),
    "TFJob": JobKind("tfReplicaSpecs", ("PS", "Worker", "Chief", "Master", "Evaluator")),
    "MPIJob": JobKind(
        "mpiReplicaSpecs", ("Launcher", "Worker"), policy=("runPolicy", "schedulingPolicy")
    ),
    "XGBoostJob": JobKind("xgbReplicaSpecs", ("Master", "Worker")),
    "XDLJob": JobKind("xdlReplicaSpecs", ("PS", "Worker", "Scheduler", "ExtendRole")),
    "MarsJob": JobKind("marsReplicaSpecs", ("Scheduler", "Worker", "WebService")),
    "ElasticDLJob": JobKind("elasticdlReplicaSpecs", ("Master",)),
}

# Labels of pods: that of PodGroups, and two that need no PodGroup.
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
LIGHT_NAME = f"{POD_GROUP}/name"
LIGHT_MINIMUM = f"{POD_GROUP}/min-available"
