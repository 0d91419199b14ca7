"""Koordinator's names of network layers and annotations.

Source: Koordinator, ``apis/extension/network_topology.go``,
``apis/scheduling/v1alpha1/cluster_network_topology_types.go``.
"""

__all__ = [
    "API_VERSION",
    "CLUSTER_LAYER",
    "DEFAULT_NAME",
    "KIND",
    "NODE_LAYER",
    "POD_INDEX",
    "SELECTOR",
    "SPEC",
]

API_VERSION = "scheduling.koordinator.sh/v1alpha1"
KIND = "ClusterNetworkTopology"

#: The only object that Koordinator's scheduler reads.
DEFAULT_NAME = "default"

# Built-in layers: the whole cluster, and its nodes.
CLUSTER_LAYER = "ClusterTopologyLayer"
NODE_LAYER = "NodeTopologyLayer"

# Annotations: a gang's rules; a pod's index; a selector of pods to be near to.
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
POD_INDEX = "gang.scheduling.koordinator.sh/network-topology-index"
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
