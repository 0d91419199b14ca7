"""Where a gang goes in a network of domains: as narrow and as dense as can be, exactly."""

from hivecore.topology.network_topology import NetworkTopology
from hivecore.topology.node_pods import NodePods
from hivecore.topology.topology_decision import TopologyDecision
from hivecore.topology.topology_request import TopologyRequest, TopologyRole

__all__ = [
    "NetworkTopology",
    "NodePods",
    "TopologyDecision",
    "TopologyRequest",
    "TopologyRole",
]
