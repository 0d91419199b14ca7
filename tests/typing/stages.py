"""The stages keep the protocol, as type checkers see it."""

from hivecore.cells import AffinityGroup, CellCluster, GroupDecision
from hivecore.decisions import Stage
from hivecore.devices import DeviceCluster, DeviceDecision, DeviceRequest
from hivecore.quotas import QuotaDecision, QuotaRequest, QuotaTree


def cells(cluster: CellCluster) -> Stage[AffinityGroup, GroupDecision]:
    return cluster


def devices(cluster: DeviceCluster) -> Stage[DeviceRequest, DeviceDecision]:
    return cluster


def quotas(tree: QuotaTree) -> Stage[QuotaRequest, QuotaDecision]:
    return tree
