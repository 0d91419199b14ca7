"""The cells of a configuration as forests of equal trees, and a number for every cell.

A forest is all trees of a chain, or the equal cells that a virtual cluster owns of one kind. Its
cells have consecutive numbers: level by level, leaf cells first, each level from the left. What
never changes of a cell is found by its number: its type and its address.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from hivecore.cells import Chain, ClusterSpec
from hivecore.interop.hived.configuration.config import HivedConfig

__all__ = ["Atlas", "Forest"]


class Forest:
    """Equal trees.

    :param first: the number of its first cell.
    :param places: of each tree the place in the list of its virtual cluster, or of its chain.
    :param partner: as what the partners of its cells are drawn.
    """

    def __init__(self, chain: Chain, top: int, first: int, places: list[int], partner: str) -> None:
        self.levels = tuple(chain.levels[: top + 1])
        self.fanouts = tuple(chain.fanouts[:top])
        self.places = places
        self.partner = partner
        self.cells = [len(places)]
        """How many there are of each level."""
        for fanout in reversed(self.fanouts):
            self.cells.insert(0, self.cells[0] * fanout)
        self.first = list(accumulate(self.cells[:-1], initial=first))
        """Per level the number of its first cell."""


class Atlas:
    """All forests of a configuration."""

    def __init__(self, config: HivedConfig, spec: ClusterSpec) -> None:
        self.addresses: list[str] = []
        """By number."""
        self.kinds: list[Mapping[str, Any]] = []
        """By number; the cells of a level share one."""
        self.chains: dict[str, Forest] = {}
        self.owned: dict[str, dict[tuple[str, str, str | None], Forest]] = {}
        """Virtual cluster -> (chain, level, id of the pinned cell or None) -> its cells."""
        for name, chain in spec.chains.items():
            names = [config.addresses(name, level) for level in chain.levels]
            self.chains[name] = self._add(chain, names, list(range(chain.roots)), "virtualCell")
        for vc in spec.virtual_clusters:
            kinds: dict[tuple[str, str, str | None], dict[int, int]] = {}
            for place, (name, level, pin, rank) in enumerate(config.preassigned(vc)):
                kinds.setdefault((name, level, pin), {})[rank] = place
            self.owned[vc] = {}
            for kind, ranked in kinds.items():
                chain = spec.chains[kind[0]]
                places = [ranked[rank] for rank in range(len(ranked))]
                names = _virtual_addresses(vc, chain, chain.levels.index(kind[1]), places)
                self.owned[vc][kind] = self._add(chain, names, places, "physicalCell")

    def forests(self) -> Iterator[Forest]:
        """All of them, in the order of their numbers."""
        yield from self.chains.values()
        for kinds in self.owned.values():
            yield from kinds.values()

    def _add(self, chain: Chain, names: list[list[str]], places: list[int], partner: str) -> Forest:
        top = len(names) - 1
        forest = Forest(chain, top, len(self.addresses), places, partner)
        for row, addresses in enumerate(names):
            kind: dict[str, Any] = {"cellType": chain.levels[row]}
            if row == top:
                kind = {"leafCellType": chain.levels[0], **kind}
            if chain.levels[row] == chain.node_level:
                kind["isNodeLevel"] = True
            self.addresses += addresses
            self.kinds += [kind] * len(addresses)
        return forest


def _virtual_addresses(vc: str, chain: Chain, top: int, places: list[int]) -> list[list[str]]:
    """Per level, leaf cells first: the rank among the cells of the level in the owned cell."""
    names = [[f"{vc}/{place}" for place in places]]
    per_root = 1
    for fanout in chain.fanouts[:top][::-1]:
        per_root *= fanout
        ranks = [str(rank) for rank in range(per_root)] * len(places)
        parents = names[-1]
        names.append([f"{parents[i // fanout]}/{rank}" for i, rank in enumerate(ranks)])
    return names[::-1]
