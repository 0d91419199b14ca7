"""The seam between the replay and what places the pods: nothing else of it is asked for."""

from collections.abc import Callable
from typing import Protocol

from hivecore.traces import GpuNodes, GpuPods

__all__ = ["Build", "Placer"]


class Placer(Protocol):
    """A cluster with a policy that places the pods of one list."""

    def place(self, number: int, row: int) -> int:
        """Place a pod, and return the number of its node, or -1 if it fits nowhere.

        :param number: of the arrival, from 0; "random" draws by it.
        :param row: of the pod in the list; the same one may come several times.
        """
        ...

    def fragmented_milli(self) -> float:
        """Return how many thousandths of GPUs are idle and of no use to the pods that come.

        That is F of FGD (USENIX ATC'23), with the list's pods as task mix.
        """
        ...


#: Makes a placer of nodes, pods, the policy's name and a seed. Ties go to the first node.
Build = Callable[[GpuNodes, GpuPods, str, int], Placer]
