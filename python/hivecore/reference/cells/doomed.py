"""Owned cells without healthy hardware, counted over all tenants.

From the top level down, healthy free cells serve the owned cells of their level, and the rest is
split for the level below. No other split serves more. (HiveD looks at one tenant at a time, and so
overlooks that two of them rely on the same cell.)
"""

from hivecore.reference.cells.cells import PhysicalCell
from hivecore.reference.cells.state import State

__all__ = ["doomed"]


def doomed(state: State, chain: int) -> list[tuple[int, int, int]]:
    """Return sorted (level, tenant, number of missing cells).

    Each missing cell is charged to the tenant with the most unbound cells there; ties: the highest
    number.
    """
    forest = state.forests[chain]
    missing = []
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
        missing += [(level, vc, count) for vc, count in charged.items() if count]
        spare = max(0, spare - sum(owed.values()))
    return sorted(missing)


def _good_and_largest(state: State, cell: PhysicalCell) -> bool:
    """Whether a cell is free and healthy, and its parent is not."""

    def good(cell: PhysicalCell) -> bool:
        return state.is_free(cell) and state.sick(cell) == 0

    parent = state.parent(cell)
    return good(cell) and (parent is None or not good(parent))
