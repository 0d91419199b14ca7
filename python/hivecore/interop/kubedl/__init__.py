"""Reads KubeDL's jobs: their resources, tenants and gangs."""

from hivecore.interop.kubedl.gangs import gang_labels, gangs_of
from hivecore.interop.kubedl.jobs import KubedlJob, KubedlRole, read_job
from hivecore.interop.kubedl.resource_quotas import read_resource_quotas

__all__ = [
    "KubedlJob",
    "KubedlRole",
    "gang_labels",
    "gangs_of",
    "read_job",
    "read_resource_quotas",
]
