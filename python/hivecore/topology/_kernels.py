"""The kernels of the kinds of pods that were asked for lately.

A kernel counts for how many pods of one kind there is room. Most changes come between two questions
about other kinds, so each kernel learns what has changed when it is asked again.
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
    """By what a pod takes of a node, the latest last.

    :param counts: see `TopologyKernel`.
    """

    __slots__ = ("_counts", "_known")

    def __init__(self, counts: Any) -> None:
        self._counts = counts
        #: the kernel, and the nodes on which something has changed since it was asked
        self._known: dict[Amounts, tuple[TopologyKernel, set[int]]] = {}

    def of(self, amounts: Amounts, free: Free) -> TopologyKernel:
        """That of pods of this kind, which knows all that is free."""
        found = self._known.pop(amounts, None)
        if found is None:
            found = TopologyKernel(self._counts), set(range(free.nodes))
            if len(self._known) == _MOST:
                del self._known[next(iter(self._known))]
        self._known[amounts] = found
        kernel, changed = found
        if changed:
            nodes = np.array(sorted(changed), dtype=np.int64)
            kernel.set_slots(nodes, free.room(amounts, nodes))
            changed.clear()
        return kernel

    def touch(self, nodes: Iterable[int], resource: str | None = None) -> None:
        """Something has changed on these nodes.

        :param resource: of which there is more or less; ``None``: of any.
        """
        given = list(nodes)
        for amounts, (_, changed) in self._known.items():
            if resource is None or any(resource == name for name, _ in amounts):
                changed.update(given)

    def forget_fractions(self, resource: str) -> None:
        """No pod takes a fraction of a resource any more."""
        for amounts in list(self._known):
            if type(dict(amounts).get(resource, 0)) is not int:
                del self._known[amounts]

    def copy(self) -> Self:
        """Independent equals."""
        made = type(self)(self._counts)
        made._known = {
            amounts: (kernel.copy(), changed.copy())
            for amounts, (kernel, changed) in self._known.items()
        }
        return made

    def check(self, free: Free, level: int) -> None:
        """Audit all of them.

        :param level: that of the nodes.
        :raises InvariantError: one is broken, or counts something else than there is.
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
