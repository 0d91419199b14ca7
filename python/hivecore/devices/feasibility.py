"""Which nodes can serve a request, and why the others cannot."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CODES", "REASONS", "Feasibility", "count_codes"]

#: Why a node cannot serve a request, the hopeless first; a code's number is its place.
REASONS = {
    "fits": "fits",
    "no devices": "no devices of a type",
    "too few": "too few devices of a type",
    "no match": "too few devices with labels that match",
    "too small": "too few devices that have as much as it needs of each",
    "no functions": "too few devices with virtual functions that match",
    "model": "another model of GPUs",
    "isolation": "another isolation provider",
    "unshareable": "its GPUs are not shared",
    "template": "its GPUs have no template for such a share",
    "unhealthy": "too few devices are healthy",
    "capacity": "too few devices are free",
    "partition": "no partition of the fabric is free",
    "scope": "enough devices are free, but not in the scope that they must be in",
    "joint": "enough devices are free, but not together with those of the other types",
    # where devices are designated, or reserved
    "designated": "the designated devices cannot serve it",
    "reservation": "it may only use reservations, and none there serves it",
    "successor": "it would not have all devices of the owner that it is to follow",
}
CODES = tuple(REASONS)


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """What `DeviceCluster.filter` found, node by node.

    :param nodes: the names of the nodes that were looked at.
    :param codes: int8, for each node the place of its code in `CODES`: 0 fits.
    :param resolvable: bool, whether it fits, or would if owners left the node.
    :param scores: int64, how good the node is by the policy, more is better; 0 where it does not
        fit.
    """

    nodes: tuple[str, ...]
    codes: npt.NDArray[np.int8]
    resolvable: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.int64]

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Which of the nodes can serve the request now."""
        return np.equal(self.codes, 0)

    @property
    def fitting(self) -> tuple[str, ...]:
        """Names of the nodes that can serve the request now."""
        return tuple([self.nodes[i] for i in np.flatnonzero(self.codes == 0)])

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many nodes cannot serve it for which code, the most hopeful code last."""
        return count_codes(self.codes)

    def reason(self, node: str) -> str:
        """Why this node cannot serve the request; empty if it can.

        :raises KeyError: it was not looked at.
        """
        if node not in self.nodes:
            raise KeyError(f"node={node!r}: was not looked at")
        code = int(self.codes[self.nodes.index(node)])
        return REASONS[CODES[code]] if code else ""


def count_codes(codes: npt.NDArray[np.int8]) -> tuple[tuple[str, int], ...]:
    """How often each code but "fits" is there."""
    counts = np.bincount(codes, minlength=len(CODES))
    return tuple((CODES[i], int(counts[i])) for i in range(1, len(CODES)) if counts[i])
