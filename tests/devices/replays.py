"""The twin beside a replay of pods that share GPUs."""

import numpy as np

from hivecore.reference.devices.shared_cluster import SharedCluster


def follow(result, nodes, pods, every=1):
    """Let the twin place every so many-th pod of a replay, and demand that it does the same.

    The pods between are put on their nodes as the replay says; the twin must have room for them,
    and for those that were turned away it must have none. Returns how fragmented the twin was after
    each of the pods that it placed.
    """
    twin = SharedCluster.of(nodes.select(result.order), pods, result.policy, result.seed)
    position = np.argsort(result.order)
    places = np.where(result.node >= 0, position[result.node], -1)
    fragmented = {}
    for arrival, (row, place) in enumerate(zip(result.rows.tolist(), places.tolist(), strict=True)):
        if arrival % every == 0:
            assert twin.place(arrival, row) == place
            fragmented[arrival] = twin.fragmented_milli()
        elif place >= 0:
            twin.take(arrival, row, place)
        else:
            assert not any(node.fits(twin.pods[row]) for node in twin.nodes)
    return fragmented
