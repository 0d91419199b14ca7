"""Gangs placed close together in a network of domains, such as racks; placements are optimal."""

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
