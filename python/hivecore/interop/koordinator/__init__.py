"""Koordinator: devices, elastic quotas, gangs, network topology and pods; plain data in and out."""

from hivecore.interop.koordinator.admission import with_default_shared
from hivecore.interop.koordinator.allocations import (
    read_allocation,
    read_bound_pod,
    read_designated,
    write_allocation,
)
from hivecore.interop.koordinator.combinations import COMBINATIONS
from hivecore.interop.koordinator.explanations import schedule_explanation
from hivecore.interop.koordinator.gangs.pods import (
    GangPod,
    bind_annotations,
    pod_group_status,
    read_gang_pod,
    read_pod_group,
)
from hivecore.interop.koordinator.jobs import job_of_koordinator_pods
from hivecore.interop.koordinator.pods import read_pod
from hivecore.interop.koordinator.quotas.cluster import QuotaCluster, read_quota_cluster
from hivecore.interop.koordinator.quotas.elastic_quotas import (
    ElasticQuotas,
    TreeTotal,
    read_elastic_quotas,
)
from hivecore.interop.koordinator.quotas.pods import pod_quota, quota_request_of
from hivecore.interop.koordinator.quotas.status import (
    elastic_quota_status,
    elastic_quota_statuses,
)
from hivecore.interop.koordinator.quotas.writing import write_elastic_quota
from hivecore.interop.koordinator.records import (
    read_device_record,
    write_device_record,
    write_node_labels,
)
from hivecore.interop.koordinator.sharing import GpuSharing, read_gpu_sharing
from hivecore.interop.koordinator.topology.cluster import (
    read_network_topology,
    write_network_labels,
    write_network_topology,
)
from hivecore.interop.koordinator.topology.gangs import TopologyGang, read_topology_gang
from hivecore.interop.kubernetes.pods import BoundPod

__all__ = [
    "COMBINATIONS",
    "BoundPod",
    "ElasticQuotas",
    "GangPod",
    "GpuSharing",
    "QuotaCluster",
    "TopologyGang",
    "TreeTotal",
    "bind_annotations",
    "elastic_quota_status",
    "elastic_quota_statuses",
    "job_of_koordinator_pods",
    "pod_group_status",
    "pod_quota",
    "quota_request_of",
    "read_allocation",
    "read_bound_pod",
    "read_designated",
    "read_device_record",
    "read_elastic_quotas",
    "read_gang_pod",
    "read_gpu_sharing",
    "read_network_topology",
    "read_pod",
    "read_pod_group",
    "read_quota_cluster",
    "read_topology_gang",
    "schedule_explanation",
    "with_default_shared",
    "write_allocation",
    "write_device_record",
    "write_elastic_quota",
    "write_network_labels",
    "write_network_topology",
    "write_node_labels",
]
