"""Nodes with shared cards and a policy, which places the pods of a list one after the other."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Self

from hivecore.reference.devices.fragmentation import TaskMix, fragmentation
from hivecore.reference.devices.sharing import Pod, SharedNode
from hivecore.reference.devices.sharing_policies import Place, choose

__all__ = ["SharedCluster"]

_MILLI = 1000
_MIB = 1 << 20


class SharedCluster:
    """The twin of the cluster in `hivecore.sim.devices.replay_devices`.

    :param nodes: in the order that breaks ties.
    :param pods: the list that rows refer to.
    :param policy: one of `POLICIES`.
    :param seed: of "random".
    :param mix: the expected pods; by default learned from all pods so far, placed or not, including
        the pod being placed.
    """

    def __init__(
        self,
        nodes: list[SharedNode],
        pods: list[Pod],
        policy: str,
        seed: int = 0,
        mix: TaskMix | None = None,
    ) -> None:
        self.nodes = nodes
        self.pods = pods
        self.policy = policy
        self.seed = seed
        self.learns = mix is None
        self.mix = TaskMix() if mix is None else mix

    @classmethod
    def of(cls, nodes: Any, pods: Any, policy: str, seed: int = 0) -> Self:
        """Return the cluster of `hivecore.traces.GpuNodes` and `GpuPods`.

        The mix is that of the whole list.
        """
        shapes = zip(
            nodes.gpus.tolist(),
            nodes.cpu_milli.tolist(),
            nodes.memory_mib.tolist(),
            nodes.model.tolist(),
            strict=True,
        )
        shared = [
            SharedNode([_MILLI] * gpus, cpu, memory * _MIB, model)
            for gpus, cpu, memory, model in shapes
        ]
        requests = zip(
            pods.gpu_milli.tolist(),
            pods.gpus.tolist(),
            pods.cpu_milli.tolist(),
            pods.memory_mib.tolist(),
            pods.models,
            strict=True,
        )
        rows = [
            Pod(share, cards, cpu, memory * _MIB, models)
            for share, cards, cpu, memory, models in requests
        ]
        return cls(shared, rows, policy, seed, TaskMix.of(rows))

    def place(self, number: int, row: int) -> int:
        """Place a pod of the list, the `number`-th to come; return its node, or -1."""
        if self.learns:
            self.mix.see(self.pods[row])
        place = self.find(number, row)
        if place is None:
            return -1
        self.nodes[place.node].charge(str(number), self.pods[row], place.cards)
        return place.node

    def find(self, number: int, row: int, only: Iterable[int] | None = None) -> Place | None:
        """Return the policy's node and GPUs for a pod, or None if it fits nowhere.

        :param number: seeds the policy's random choices for the pod.
        :param row: the pod's index in the workload.
        :param only: the nodes to choose from; None for all.
        """
        return choose(
            self.nodes,
            self.pods[row],
            self.policy,
            mix=self.mix,
            seed=self.seed,
            number=_drawn_by(f"{number}/pod/0"),  # the name that a scheduler would use
            only=only,
        )

    def take(self, number: int, row: int, node: int) -> None:
        """Place a pod on a given node where it fits, on the policy's cards."""
        place = self.find(number, row, only=(node,))
        assert place is not None
        self.nodes[node].charge(str(number), self.pods[row], place.cards)

    def fragmented_milli(self) -> float:
        """Return the fragmentation of all nodes, divided by the weight of the mix (at least 1)."""
        sums = (
            fragmentation(node.free(), node.free_cpu, node.model, self.mix) for node in self.nodes
        )
        return sum(sums) / max(self.mix.total(), 1)


def _drawn_by(name: str) -> int:
    """Return 64 bits of the owner's name, which "random" uses."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
