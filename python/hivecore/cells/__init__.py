"""Cells: which GPUs a tenant may take without breaking another's guarantee (HiveD, OSDI'20)."""

from hivecore._cells import BuddyAllocator
from hivecore.cells.affinity_group import AffinityGroup, Member
from hivecore.cells.cell_cluster import CellCluster
from hivecore.cells.changes import GroupStatus, Reconfiguration, Recovery
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.cells.cluster_view import (
    ClusterView,
    IntraVCPolicy,
    NodeOrderPolicy,
    VirtualNode,
    VirtualTree,
)
from hivecore.cells.explanation import GroupExplanation, Shortage
from hivecore.cells.group_decision import GroupDecision
from hivecore.cells.node_set import NodeSet
from hivecore.cells.pod_placement import PodPlacement

__all__ = [
    "AffinityGroup",
    "BuddyAllocator",
    "CellCluster",
    "Chain",
    "ClusterSpec",
    "ClusterView",
    "GroupDecision",
    "GroupExplanation",
    "GroupStatus",
    "IntraVCPolicy",
    "Member",
    "NodeOrderPolicy",
    "NodeSet",
    "PodPlacement",
    "Reconfiguration",
    "Recovery",
    "Shortage",
    "VirtualNode",
    "VirtualTree",
]
