"""The kernels of recently requested kinds of pods.

A kernel counts the slots for pods of one kind. Other kinds are often requested in between, so a
kernel gets the changes only when its kind is requested again.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from hivecore._thousandths import Amounts
from hivecore._topology import TopologyKernel
from hivecore.errors import InvariantError
from hivecore.topology._free import Free

__all__ = ["Kernels"]

_MOST = 16


class Kernels:
    """Kernels by the amounts that a pod takes; the most recently used is last.

    :param counts: see `TopologyKernel`.
    """

    __slots__ = ("_counts", "_known")

    def __init__(self, counts: Any) -> None:
        self._counts = counts
        #: the kernel, and the nodes that have changed since its last use
        self._known: dict[Amounts, tuple[TopologyKernel, set[int]]] = {}

    def of(self, amounts: Amounts, free: Free) -> TopologyKernel:
        """The kernel of a kind of pods, up to date."""
        entry = self._known.pop(amounts, None)
        if entry is None:
            entry = TopologyKernel(self._counts), set(range(free.nodes))
            if len(self._known) == _MOST:
                del self._known[next(iter(self._known))]
        self._known[amounts] = entry
        kernel, changed = entry
        if changed:
            nodes = np.array(sorted(changed), dtype=np.int64)
            kernel.set_slots(nodes, free.room(amounts, nodes))
            changed.clear()
        return kernel

    def touch(self, nodes: Iterable[int], resource: str | None = None) -> None:
        """Note that these nodes have changed.

        :param resource: the resource that changed; ``None``: any.
        """
        given = list(nodes)
        for amounts, (_, changed) in self._known.items():
            if resource is None or any(resource == name for name, _ in amounts):
                changed.update(given)

    def forget_fractions(self, resource: str) -> None:
        """Remove the kernels of pods that take a fraction of a resource."""
        for amounts in list(self._known):
            if type(dict(amounts).get(resource, 0)) is not int:
                del self._known[amounts]

    def copy(self) -> Self:
        """Independent copies."""
        branch = type(self)(self._counts)
        branch._known = {
            amounts: (kernel.copy(), changed.copy())
            for amounts, (kernel, changed) in self._known.items()
        }
        return branch

    def check(self, free: Free, level: int) -> None:
        """Audit all kernels.

        :param level: the level of the nodes.
        :raises InvariantError: a kernel is broken, or its slots are wrong.
        """
        everywhere = np.arange(free.nodes)
        for amounts in list(self._known):
            kernel = self.of(amounts, free)
            kernel.check()
            if (kernel.slots(level) != free.room(amounts, everywhere)).any():
                raise InvariantError(f"the slots of pods that take {amounts}")

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(
            kernel.__sizeof__() + changed.__sizeof__() for kernel, changed in self._known.values()
        )
