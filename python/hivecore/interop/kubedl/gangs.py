"""The gangs that KubeDL makes of a job, and what it writes on their pods."""

from hivecore._arguments import as_bool, as_instance, as_name
from hivecore.gangs import GangSpec
from hivecore.interop.kubedl.jobs import KubedlJob
from hivecore.interop.kubedl.names import AI_MASTER, LIGHT_MINIMUM, LIGHT_NAME, POD_GROUP

__all__ = ["gang_labels", "gangs_of"]


def gangs_of(job: KubedlJob, *, per_role: bool) -> tuple[GangSpec, ...]:
    """The gangs of a job, for `hivecore.gangs.Coscheduler`; AIMaster is in none.

    :param per_role: what the feature DAGScheduling says. True: each role is a gang that needs all
        of its pods. False: the job is one, and needs all pods or, if it says so, ``minAvailable``.
    :raises ValueError: ``minAvailable`` is more than there are pods: it would never start.
    :raises TypeError: something is of a wrong type.

    Gangs of roles start without each other, as KubeDL creates the pods of a role only when those
    that it depends on run. A job of nothing but AIMaster has no gang. Names are those of KubeDL's
    PodGroups: "namespace/job", "namespace/job-role". Source: KubeDL, ``pkg/gang_schedule``.

    >>> from hivecore.interop.kubedl import gangs_of, read_job
    >>> record = {"kind": "MPIJob", "metadata": {"name": "bert"}}
    >>> record["spec"] = {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}
    >>> [(gang.name, gang.min_members) for gang in gangs_of(read_job(record), per_role=True)]
    [('default/bert-launcher', 1), ('default/bert-worker', 4)]
    """
    _check_job(job)
    roles = [role for role in job.roles if role.name != AI_MASTER]
    if as_bool(per_role, "per_role"):
        return tuple(GangSpec(f"{job.name}-{one.name.lower()}", one.replicas) for one in roles)
    total = sum(role.replicas for role in roles)
    if job.min_available > total:
        raise ValueError(
            f"job={job.key!r}: minAvailable is {job.min_available}, and there are {total} pods"
        )
    return (GangSpec(job.name, job.min_available or total, total),) if roles else ()


def gang_labels(job: KubedlJob, role: str, *, per_role: bool) -> dict[str, str]:
    """The labels of a role's pods that name their gang; none for AIMaster.

    :param role: the replica type, such as "Worker".
    :param per_role: as of `gangs_of`.
    :raises KeyError: the job has no such role.
    :raises ValueError: as of `gangs_of`.
    :raises TypeError: something is of a wrong type.

    Two protocols in one, as KubeDL's coscheduler writes them: the label of a PodGroup, and the
    two that do without the object. Koordinator follows either.

    >>> from hivecore.interop.kubedl import gang_labels, read_job
    >>> record = {"kind": "MPIJob", "metadata": {"name": "bert"}}
    >>> record["spec"] = {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}
    >>> sorted(gang_labels(read_job(record), "Worker", per_role=True).values())
    ['4', 'bert-worker', 'bert-worker']
    """
    gangs = {gang.name: gang for gang in gangs_of(job, per_role=per_role)}
    if as_name(role, "role") not in [one.name for one in job.roles]:
        raise KeyError(f"role={role!r}: {job.key!r} has no such role")
    if role == AI_MASTER:
        return {}
    gang = gangs[f"{job.name}-{role.lower()}" if per_role else job.name]
    local = gang.name.partition("/")[2]
    return {POD_GROUP: local, LIGHT_NAME: local, LIGHT_MINIMUM: str(gang.min_members)}


def _check_job(job: object) -> None:
    as_instance(job, "job", KubedlJob)
