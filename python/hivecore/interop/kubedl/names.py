"""KubeDL's kinds of jobs with their roles.

Source: KubeDL, ``apis/training/v1alpha1``.
"""

from typing import NamedTuple

__all__ = ["AI_MASTER", "GROUP", "KINDS", "JobKind"]


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
