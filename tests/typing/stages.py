"""The stages keep the protocol, as type checkers see it."""

from hivecore.cells import AffinityGroup, CellCluster, GroupDecision
from hivecore.decisions import Stage
from hivecore.devices import DeviceCluster, DeviceDecision, DeviceRequest
from hivecore.quotas import QuotaDecision, QuotaRequest, QuotaTree
from hivecore.topology import NetworkTopology, TopologyDecision, TopologyRequest


def cells(cluster: CellCluster) -> Stage[AffinityGroup, GroupDecision]:
    return cluster


def devices(cluster: DeviceCluster) -> Stage[DeviceRequest, DeviceDecision]:
    return cluster


def topology(network: NetworkTopology) -> Stage[TopologyRequest, TopologyDecision]:
    return network


def quotas(tree: QuotaTree) -> Stage[QuotaRequest, QuotaDecision]:
    return tree
