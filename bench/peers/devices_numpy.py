"""What one writes in NumPy to filter and score all nodes at once, for machines of one shape.

Eight GPUs on four switches, NICs on them; the state of the cluster is a few arrays with a row per
node. It answers whether a node serves a request, and how full it would be, not which devices.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

FULL = 10_000
Ints = npt.NDArray[np.int64]


class NumpyDevices:
    """Arrays of what is free.

    :param memory: int64[nodes, 8], bytes free of each GPU.
    :param core: int64[nodes, 8], percent free.
    :param nics: int64[nodes, nics], percent free of each NIC; evenly on the four switches.
    :param functions: int64[nodes, nics], free virtual functions.
    """

    def __init__(self, size: int, memory: Ints, core: Ints, nics: Ints, functions: Ints) -> None:
        self.size, self.memory, self.core, self.nics = size, memory, core, nics
        self.functions = functions
        self.idle = (memory == size) & (core == 100)

    def score(self, wanted: int) -> Ints:
        total = 8 * self.size
        return np.minimum((total - self.memory.sum(1) + wanted) * FULL // total, FULL)

    def whole(self, count: int) -> tuple[Any, Ints]:
        return self.idle.sum(1) >= count, self.score(count * self.size)

    def share(self, percent: int) -> tuple[Any, Ints]:
        need = percent * self.size // 100
        fits = ((self.memory >= need) & (self.core >= percent)).any(1)
        return fits, self.score(need)

    def partition(self, rows: npt.NDArray[np.bool_]) -> tuple[Any, Ints]:
        """rows: bool[partitions of one size, 8]."""
        fits = np.zeros(len(self.idle), dtype=bool)
        for row in rows:
            fits |= self.idle[:, row].all(1)
        return fits, self.score(int(rows[0].sum()) * self.size)

    def joint(self, count: int, percent: int, functions: bool) -> tuple[Any, Ints]:
        """GPUs on switches that have a NIC each."""
        able = self.nics >= percent
        if functions:
            able &= self.functions > 0
        on_switch = able.reshape(len(able), 4, -1).any(2)
        near = (self.idle & np.repeat(on_switch, 2, axis=1)).sum(1)
        total = 100 * self.nics.shape[1]
        used = np.minimum((total - self.nics.sum(1) + percent) * FULL // total, FULL)
        return near >= count, (self.score(count * self.size) + used) // 2
