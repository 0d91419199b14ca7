"""The gangs of a job, and the labels by which schedulers know them."""

from typing import Any

from hivecore._arguments import as_bool, as_name
from hivecore.gangs import GangSpec
from hivecore.interop.kubedl.jobs import KubedlJob

__all__ = ["gang_labels", "gangs_of"]

_MASTER = "AIMaster"  # it starts before the others, and decides how many there are
_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"


def gangs_of(job: KubedlJob, *, per_role: bool = True, **options: Any) -> tuple[GangSpec, ...]:
    """The gangs of a job.

    :param job: as `read_job` gives it.
    :param per_role: a gang for each role, which start one after the other as the job's graph says
        (KubeDL's DAG scheduling, its default); else one for the job.
    :param options: of `hivecore.gangs.GangSpec`, such as ``wait_time``.
    :raises ValueError: an option is not allowed.
    :raises TypeError: something is of a wrong type.

    The role AIMaster is in no gang. The gang of a job may start with ``min_available`` pods, if the
    job says so; that of a role needs all. Source: KubeDL, ``pkg/gang_schedule/coscheduler``.

    >>> from hivecore.interop.kubedl import KubedlJob, KubedlRole, gangs_of
    >>> roles = KubedlRole("PS", 1, 0, ()), KubedlRole("Worker", 4, 0, ())
    >>> job = KubedlJob("ml/train", "TFJob", "ml", 0, 0, roles, (), ())
    >>> [(gang.name, gang.min_members) for gang in gangs_of(job)]
    [('ml/train-ps', 1), ('ml/train-worker', 4)]
    >>> [(gang.name, gang.min_members) for gang in gangs_of(job, per_role=False)]
    [('ml/train', 5)]
    """
    if not isinstance(job, KubedlJob):
        raise TypeError(f"job must be a KubedlJob, not {type(job).__name__}")
    roles = [role for role in job.roles if role.name != _MASTER]
    if as_bool(per_role, "per_role"):
        return tuple(
            GangSpec(f"{job.name}-{role.name.lower()}", role.replicas, **options) for role in roles
        )
    pods = sum(role.replicas for role in roles)
    least = job.min_available or pods
    return (GangSpec(job.name, least, max(least, pods), **options),)


def gang_labels(job: KubedlJob, role: str, *, per_role: bool = True) -> dict[str, str]:
    """The labels that KubeDL writes on a role's pods, so that schedulers know their gang.

    :param job: as `read_job` gives it.
    :param role: such as "Worker".
    :param per_role: as of `gangs_of`.
    :raises KeyError: the job has no such role.
    :raises TypeError: something is of a wrong type.

    Those of PodGroups and of the lightweight protocol, which Koordinator reads as well. Pods of the
    role AIMaster have none.

    >>> from hivecore.interop.kubedl import KubedlJob, KubedlRole, gang_labels
    >>> job = KubedlJob("ml/train", "TFJob", "ml", 0, 0, (KubedlRole("PS", 2, 0, ()),), (), ())
    >>> gang_labels(job, "PS")["pod-group.scheduling.sigs.k8s.io/name"]
    'train-ps'
    """
    gangs = gangs_of(job, per_role=per_role)
    wanted = as_name(role, "role")
    names = [one.name for one in job.roles]
    if wanted not in names:
        raise KeyError(f"role: job {job.name!r} has no {wanted!r}")
    if wanted == _MASTER:
        return {}
    place = [name for name in names if name != _MASTER].index(wanted) if per_role else 0
    name = gangs[place].name.partition("/")[2]
    return {
        _POD_GROUP: name,
        f"{_POD_GROUP}/name": name,
        f"{_POD_GROUP}/min-available": str(gangs[place].min_members),
    }
