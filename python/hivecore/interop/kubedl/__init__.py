"""KubeDL's jobs: which queue they wait in, what they ask for, and their gangs."""

from hivecore.interop.kubedl.gangs import gang_labels, gangs_of
from hivecore.interop.kubedl.jobs import KubedlJob, KubedlRole, queued_job, read_job
from hivecore.interop.kubedl.quotas import read_resource_quota

__all__ = [
    "KubedlJob",
    "KubedlRole",
    "gang_labels",
    "gangs_of",
    "queued_job",
    "read_job",
    "read_resource_quota",
]
