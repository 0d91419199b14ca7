"""Which keys a configuration of HiveD has, and where.

Source: HiveD, ``pkg/api/types.go`` and ``pkg/api/config.go``; OpenPAI writes ``skuTypes`` beside
them, which only its other parts read.
"""

__all__ = [
    "BLOCK",
    "HOMES",
    "OF_CELL",
    "OF_CELL_TYPE",
    "OF_CLUSTER",
    "OF_CONFIGURATION",
    "OF_PINNED_CELL",
    "OF_TENANT",
    "OF_VIRTUAL_CELL",
    "THRESHOLD",
]

THRESHOLD, BLOCK = "forcePodBindThreshold", "waitingPodSchedulingBlockMilliSec"

OF_CONFIGURATION = {
    *("physicalCluster", "virtualClusters", THRESHOLD, BLOCK),
    *("kubeApiServerAddress", "kubeConfigFilePath", "webServerAddress"),
}
OF_CLUSTER = {"cellTypes", "physicalCells", "skuTypes", "gpuTypes"}
OF_CELL_TYPE = {"childCellType", "childCellNumber", "isNodeLevel"}
OF_CELL = {"cellType", "cellAddress", "pinnedCellId", "reservationId", "cellChildren"}
OF_TENANT = {"virtualCells", "pinnedCells", "reservedCells"}
OF_VIRTUAL_CELL = {"cellType", "cellNumber"}
OF_PINNED_CELL = {"pinnedCellId", "reservationId"}

#: By key where it belongs.
HOMES = {
    **dict.fromkeys(OF_CONFIGURATION, "the top of the document"),
    **dict.fromkeys(OF_CLUSTER, "physicalCluster"),
    **dict.fromkeys(OF_CELL_TYPE, "an entry of physicalCluster.cellTypes"),
    **dict.fromkeys(OF_TENANT, "an entry of virtualClusters"),
    **dict.fromkeys(OF_CELL, "an entry of physicalCluster.physicalCells or cellChildren"),
    "cellType": "an entry of physicalCells or virtualCells",
    "cellNumber": "an entry of virtualCells",
    **dict.fromkeys(OF_PINNED_CELL, "an entry of physicalCells, cellChildren or pinnedCells"),
}
