"""Why a request is served or not, and the cheapest way to have it served."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hivecore.cells.cell import Cell

__all__ = ["Explanation", "cheapest_release"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a request would be served or not, and the smallest change that would admit it."""

    fits: bool
    reason: str
    owned: dict[str, int]
    """Level -> cells of the chain that the tenant owns."""
    available: int
    """How many cells of the asked level the tenant's own cells can still serve."""
    release: tuple[Cell, ...]
    """The tenant's cells with the fewest leaves whose release admits the request; empty when it
    fits, or when no release would."""


def cheapest_release(
    cells: Iterable[Cell], row: int, levels: Mapping[str, int], leaves: Sequence[int]
) -> tuple[Cell, ...]:
    """The cells of one tenant in the way of one virtual cell of level ``row``, from 0.

    :param cells: the tenant's guaranteed cells in one chain.
    :param levels: name of a level -> its number, from 0.
    :param leaves: leaves of a cell of each level.

    The fewest leaves; ties break by the lowest ids. Empty when no release helps. O(cells).
    """
    in_the_way: dict[tuple[int, int, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        owned, own = levels[str(cell.owned_level)], levels[cell.level]
        if owned < row:
            continue
        # The virtual cell to vacate is of level `row`; a larger allocated cell contains several.
        around = max(own, row)
        in_the_way[owned, around, cell.virtual_index // (leaves[around] // leaves[own])].append(
            cell
        )
    return tuple(
        min(
            in_the_way.values(),
            key=lambda group: (sum(len(cell.leaves) for cell in group), [c.id for c in group]),
            default=(),
        )
    )
