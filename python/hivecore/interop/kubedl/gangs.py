"""The gangs that KubeDL forms of a job, and the labels of their pods.

Source: KubeDL, ``pkg/gang_schedule/coscheduler``.
"""

from hivecore._arguments import as_bool, as_instance, as_name
from hivecore.gangs import GangSpec
from hivecore.interop.koordinator.gangs.names import LIGHT_MINIMUM, LIGHT_NAME, POD_GROUP
from hivecore.interop.kubedl.jobs import KubedlJob
from hivecore.interop.kubedl.names import AI_MASTER

__all__ = ["gang_labels", "gangs_of"]


def gangs_of(job: KubedlJob, *, per_role: bool) -> tuple[GangSpec, ...]:
    """Return the gangs of a job, for `hivecore.gangs.Coscheduler`, without AIMaster.

    :param per_role: the feature DAGScheduling. If true, each role is a gang that needs all of its
        pods, and ``minAvailable`` is ignored. If false, the job is one gang that needs
        ``minAvailable`` pods, by default all.
    :raises ValueError: ``minAvailable`` exceeds the number of pods without AIMaster, so that the
        job could never start; not with ``per_role``.
    :raises TypeError: an argument has a wrong type.

    Gangs of roles start independently, as KubeDL creates a role's pods only once those it depends
    on run. A job that is only an AIMaster has no gang. Names are those of KubeDL's PodGroups:
    "namespace/job" or "namespace/job-role". Source: KubeDL, ``pkg/gang_schedule``.

    >>> from hivecore.interop.kubedl import gangs_of, read_job
    >>> record = {"kind": "MPIJob", "metadata": {"name": "bert"}}
    >>> record["spec"] = {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}
    >>> [(gang.name, gang.min_members) for gang in gangs_of(read_job(record), per_role=True)]
    [('default/bert-launcher', 1), ('default/bert-worker', 4)]
    """
    _check_job(job)
    roles = [role for role in job.roles if role.name != AI_MASTER]
    if as_bool(per_role, "per_role"):
        return tuple(GangSpec(f"{job.name}-{role.name.lower()}", role.replicas) for role in roles)
    total = sum(role.replicas for role in roles)
    if roles and job.min_available > total:
        raise ValueError(
            f"job={job.key!r}: minAvailable is {job.min_available}, and there are {total} pods"
        )
    return (GangSpec(job.name, job.min_available or total, total),) if roles else ()


def gang_labels(job: KubedlJob, role: str, *, per_role: bool) -> dict[str, str]:
    """Return the labels that name the gang of a role's pods; none for AIMaster.

    :param role: the replica type, such as "Worker".
    :param per_role: as in `gangs_of`.
    :raises KeyError: the job has no such role.
    :raises ValueError: as in `gangs_of`.
    :raises TypeError: an argument has a wrong type.

    As in KubeDL, they follow two protocols: the label of a PodGroup, and two labels that need no
    PodGroup. Koordinator supports both.

    >>> from hivecore.interop.kubedl import gang_labels, read_job
    >>> record = {"kind": "MPIJob", "metadata": {"name": "bert"}}
    >>> record["spec"] = {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}
    >>> sorted(gang_labels(read_job(record), "Worker", per_role=True).values())
    ['4', 'bert-worker', 'bert-worker']
    """
    gangs = {gang.name: gang for gang in gangs_of(job, per_role=per_role)}
    if as_name(role, "role") not in [known.name for known in job.roles]:
        raise KeyError(f"role={role!r}: {job.key!r} has no such role")
    if role == AI_MASTER:
        return {}
    gang = gangs[f"{job.name}-{role.lower()}" if per_role else job.name]
    local = gang.name.partition("/")[2]
    return {POD_GROUP: local, LIGHT_NAME: local, LIGHT_MINIMUM: str(gang.min_members)}


def _check_job(job: object) -> None:
    as_instance(job, "job", KubedlJob)
