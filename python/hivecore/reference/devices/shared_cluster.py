"""Nodes whose cards are shared, and a policy: places the pods of a list one after the other."""

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
    """The twin of what `hivecore.sim.devices.replay_devices` replays on.

    :param nodes: in the order that breaks ties.
    :param pods: the list that rows are in.
    :param policy: one of `POLICIES`.
    :param seed: of "random".
    :param mix: which pods come; ``None``: learned, each class as often as it has come so far, the
        pod that is placed among them, whether or not they found a place.
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
        """The cluster of these columns, `hivecore.traces.GpuNodes` and `GpuPods`.

        Its mix is given: each class as often as it is in the list.
        """
        shapes = zip(
            nodes.gpus.tolist(),
            nodes.cpu_milli.tolist(),
            nodes.memory_mib.tolist(),
            nodes.model.tolist(),
            strict=True,
        )
        made = [
            SharedNode([_MILLI] * gpus, cpu, memory * _MIB, model)
            for gpus, cpu, memory, model in shapes
        ]
        asked = zip(
            pods.gpu_milli.tolist(),
            pods.gpus.tolist(),
            pods.cpu_milli.tolist(),
            pods.memory_mib.tolist(),
            pods.models,
            strict=True,
        )
        rows = [
            Pod(share, cards, cpu, memory * _MIB, models)
            for share, cards, cpu, memory, models in asked
        ]
        return cls(made, rows, policy, seed, TaskMix.of(rows))

    def place(self, number: int, row: int) -> int:
        """Place a pod of the list, the `number`-th to come; returns its node, or -1."""
        if self.learns:
            self.mix.see(self.pods[row])
        found = self.find(number, row)
        if found is None:
            return -1
        self.nodes[found.node].charge(str(number), self.pods[row], found.cards)
        return found.node

    def find(self, number: int, row: int, only: Iterable[int] | None = None) -> Place | None:
        """Where the pod would be placed with the mix as it is; `only`: of these nodes."""
        return choose(
            self.nodes,
            self.pods[row],
            self.policy,
            mix=self.mix,
            seed=self.seed,
            number=_drawn_by(f"{number}/pod/0"),  # so a scheduler names it
            only=only,
        )

    def take(self, number: int, row: int, node: int) -> None:
        """Place a pod on a node that somebody else chose, where it fits, on the policy's cards."""
        place = self.find(number, row, only=(node,))
        assert place is not None
        self.nodes[node].charge(str(number), self.pods[row], place.cards)

    def fragmented_milli(self) -> float:
        """The fragmentation of all nodes, over the weight of the mix, at least 1."""
        sums = (
            fragmentation(node.free(), node.free_cpu, node.model, self.mix) for node in self.nodes
        )
        return sum(sums) / max(self.mix.total(), 1)


def _drawn_by(name: str) -> int:
    """64 bits of the owner's name, by which "random" draws."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
