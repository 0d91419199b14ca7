"""The stages keep the protocol, as type checkers see it."""

from hivecore.cells import AffinityGroup, CellCluster, GroupDecision
from hivecore.decisions import Stage


def cells(cluster: CellCluster) -> Stage[AffinityGroup, GroupDecision]:
    return cluster
