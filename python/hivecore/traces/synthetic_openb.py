"""Generates nodes and pods with the shapes of the openb cluster.

Both tables count shapes in the trace (`openb_node_list_gpu_node.csv`, all 1,213 nodes;
`openb_pod_list_default.csv`, shapes of at least 24 of the 8,152 pods, 93 % of all, and three shapes
that stand for pods with several GPUs). Nodes and pods are drawn from them independently, so shares
of shapes match the trace, but the order does not.
"""

import numpy as np

from hivecore._arguments import as_int
from hivecore.traces._random_jobs import as_share
from hivecore.traces.shared_gpus import GpuNodes, GpuPods

__all__ = ["generate_openb_nodes", "generate_openb_pods"]

#: CPU in thousandths, memory in MiB, GPUs, their model, number of nodes.
_NODES = (
    (96000, 393216, 8, "G2", 549),
    (104000, 524288, 2, "T4", 387),
    (16000, 122880, 2, "P100", 107),
    (128000, 786432, 8, "G3", 39),
    (32000, 131072, 4, "V100M16", 28),
    (64000, 262144, 2, "P100", 22),
    (96000, 786432, 8, "V100M32", 21),
    (8000, 32768, 1, "V100M16", 19),
    (96000, 393216, 4, "T4", 17),
    (48000, 376832, 4, "V100M32", 9),
    (64000, 262144, 8, "V100M16", 7),
    (8000, 61440, 1, "P100", 3),
    (8000, 61440, 2, "P100", 2),
    (128000, 1048576, 1, "A10", 2),
    (82000, 344064, 8, "V100M16", 1),
)

#: CPU in thousandths, memory in MiB, GPUs, thousandths of each, number of pods.
_PODS = (
    (3152, 5600, 1, 810, 1047),
    (11300, 49152, 1, 1000, 857),
    (11400, 48128, 1, 1000, 534),
    (3152, 5600, 1, 1000, 470),
    (11908, 47104, 1, 470, 388),
    (12500, 57344, 0, 0, 364),
    (8000, 30517, 1, 470, 360),
    (32000, 49152, 0, 0, 284),
    (18708, 64512, 1, 1000, 255),
    (11908, 47104, 1, 650, 237),
    (9810, 41560, 1, 1000, 195),
    (8000, 30517, 0, 0, 163),
    (12000, 24576, 1, 1000, 158),
    (15700, 58368, 1, 1000, 158),
    (11908, 47104, 1, 1000, 153),
    (15400, 51200, 0, 0, 120),
    (4000, 22888, 1, 320, 111),
    (16000, 32768, 1, 1000, 108),
    (8000, 16384, 1, 1000, 104),
    (4000, 24576, 1, 1000, 104),
    (12000, 16384, 1, 1000, 99),
    (16500, 51200, 0, 0, 95),
    (14200, 58368, 1, 1000, 93),
    (4000, 30517, 1, 230, 84),
    (24200, 93184, 1, 1000, 84),
    (4000, 15258, 1, 320, 78),
    (3152, 5600, 1, 590, 75),
    (8000, 30517, 1, 320, 72),
    (4152, 10600, 1, 550, 72),
    (11400, 77824, 1, 1000, 65),
    (8000, 32768, 1, 1000, 55),
    (4000, 15258, 1, 160, 53),
    (6000, 6144, 1, 460, 51),
    (11900, 77824, 1, 1000, 51),
    (4152, 10600, 1, 370, 45),
    (12000, 15360, 1, 1000, 44),
    (4000, 30517, 1, 320, 43),
    (8200, 33792, 1, 1000, 41),
    (4000, 31250, 1, 1000, 40),
    (15200, 80896, 1, 1000, 36),
    (16000, 65536, 1, 1000, 33),
    (4152, 10600, 1, 810, 31),
    (6000, 12288, 1, 460, 29),
    (16400, 125952, 1, 1000, 27),
    (4000, 22888, 1, 230, 26),
    (4000, 15258, 1, 220, 24),
    (16200, 66560, 2, 1000, 16),
    (32200, 132096, 4, 1000, 15),
    (88000, 327680, 8, 1000, 44),
)
_MOST = 2**31 - 1


def generate_openb_nodes(nodes: int, seed: int) -> GpuNodes:
    """Return random nodes with the shapes of the openb cluster's.

    :param nodes: how many, at least 1.
    :param seed: equal seeds give equal nodes.
    :raises ValueError: no node, or a negative seed.

    Cost: O(nodes). Source: counts of the trace, see the module.

    >>> nodes = generate_openb_nodes(1000, seed=0)
    >>> len(nodes), round(float(nodes.gpus.mean()))
    (1000, 5)
    """
    count = as_int(nodes, "nodes", 1, _MOST)
    rng = np.random.default_rng(as_int(seed, "seed", 0, 2**63 - 1))
    weight = np.array([row[-1] for row in _NODES], dtype=np.float64)
    shape = rng.choice(len(_NODES), size=count, p=weight / weight.sum())
    numbers = np.array([row[:3] for row in _NODES], dtype=np.int64)[shape]
    return GpuNodes(
        name=np.array([f"node-{number:05}" for number in range(count)]),
        cpu_milli=numbers[:, 0],
        memory_mib=numbers[:, 1],
        gpus=numbers[:, 2],
        model=np.array([row[3] for row in _NODES])[shape],
    )


def generate_openb_pods(pods: int, seed: int, *, constrained: float = 0.0) -> GpuPods:
    """Return random pods with the shapes of the openb trace's default list.

    :param pods: how many, at least 1.
    :param seed: equal seeds give equal pods.
    :param constrained: 0 to 1, the share of pods with GPUs that can run on one model only, drawn
        by the number of its GPUs in the cluster. The default list has none; 0.33 is what the
        trace's README tells of production.
    :raises ValueError: an argument out of range.

    Cost: O(pods). Source: counts of the trace, see the module.

    >>> pods = generate_openb_pods(1000, seed=0)
    >>> round(float((pods.gpu_milli % 1000 > 0).mean()), 1)  # 38 % of the trace's pods share a GPU
    0.4
    """
    count = as_int(pods, "pods", 1, _MOST)
    constrained = as_share(constrained, "constrained")
    rng = np.random.default_rng((as_int(seed, "seed", 0, 2**63 - 1), 1))
    weight = np.array([row[-1] for row in _PODS], dtype=np.float64)
    shape = rng.choice(len(_PODS), size=count, p=weight / weight.sum())
    numbers = np.array(_PODS, dtype=np.int64)[shape]
    gpus: dict[str, int] = {}
    for _, _, cards, model, nodes in _NODES:
        gpus[model] = gpus.get(model, 0) + cards * nodes
    share = np.array(list(gpus.values())) / sum(gpus.values())
    models = [frozenset({model}) for model in gpus]
    drawn = rng.choice(len(models), size=count, p=share)
    chosen = (rng.random(count) < constrained) & (numbers[:, 2] > 0)
    return GpuPods(
        name=np.array([f"pod-{number:06}" for number in range(count)]),
        cpu_milli=numbers[:, 0],
        memory_mib=numbers[:, 1],
        gpus=numbers[:, 2],
        gpu_milli=numbers[:, 3],
        models=tuple(
            models[model] if named else frozenset()
            for model, named in zip(drawn.tolist(), chosen.tolist(), strict=True)
        ),
    )
