"""Owned cells for which no healthy hardware is left, counted over all tenants together.

Healthy free cells serve the owed cells of their level first, from the top level down; what is left
over is split for the level below. Any other split would serve fewer (HiveD's own rule looks at one
tenant at a time and so overlooks that two of them count on the same cell).
"""

from hivecore.reference.cells.cells import PhysicalCell
from hivecore.reference.cells.state import State

__all__ = ["doomed"]


def doomed(state: State, chain: int) -> list[tuple[int, int, int]]:
    """(level, tenant, count), sorted; what lacks at a level is charged cell by cell.

    It is charged to the tenant with the most unbound cells there, at a tie to the highest number.
    """
    forest = state.forests[chain]
    found = []
    spare = 0
    for level in range(forest.top, -1, -1):
        owed: dict[int, int] = {}
        for number, pool in enumerate(state.pools):
            if (pool.chain, pool.level) == (chain, level):
                owed[pool.vc] = owed.get(pool.vc, 0) + len(state.unbound_roots(number))
        if level < forest.top:
            spare *= forest.fanouts[level]
        cells = (PhysicalCell(chain, level, number) for number in forest.cells(level))
        spare += sum(_good_and_largest(state, cell) for cell in cells)
        charged = dict.fromkeys(owed, 0)
        for _ in range(sum(owed.values()) - spare):
            vc = max(owed, key=lambda vc: (owed[vc] - charged[vc], vc))
            charged[vc] += 1
        found += [(level, vc, count) for vc, count in charged.items() if count]
        spare = max(0, spare - sum(owed.values()))
    return sorted(found)


def _good_and_largest(state: State, cell: PhysicalCell) -> bool:
    """Whether a cell is free and wholly healthy, and its parent is not."""

    def good(cell: PhysicalCell) -> bool:
        return state.is_free(cell) and state.sick(cell) == 0

    parent = state.parent(cell)
    return good(cell) and (parent is None or not good(parent))
