"""How trees are cut into pieces: subtrees of at most some hundred cells, and single cells above.

The pieces of a forest whose top cells are of one level are a layer; all of them are alike.
"""

import numpy as np
import numpy.typing as npt

from hivecore.interop.hived.inspection.forests import Forest

__all__ = ["DEEPEST", "Indices", "Layer", "layers_of", "sequence"]

Indices = npt.NDArray[np.intp]

DEEPEST = 16  # levels that a chain can have
_CELLS_OF_A_PIECE = 256


class Layer:
    """The pieces of a forest whose top cells are of one level, from ``bottom`` to ``top``."""

    def __init__(self, forest: Forest, bottom: int, top: int) -> None:
        self.bottom, self.top = bottom, top
        self.pieces = forest.cells[top]
        levels = range(bottom, top + 1)
        numbers = [np.arange(forest.cells[row]).reshape(self.pieces, -1) for row in levels]
        leaf = [numbers[i] * _leaves(forest, row) for i, row in enumerate(levels)]
        self.numbers = np.concatenate(
            [forest.first[row] + cells for row, cells in zip(levels, numbers, strict=True)], axis=1
        )
        """The cells of each piece, level by level."""
        depths = [np.full(cells.shape[1], row) for row, cells in zip(levels, numbers, strict=True)]
        self.order = _parents_first(np.concatenate([at[0] for at in leaf]), np.concatenate(depths))
        self.ends = np.concatenate(
            [_ends(forest, row).reshape(self.pieces, -1) for row in levels], axis=1
        )
        """Per cell what follows it, see `Fragments`."""
        self.first_leaves = leaf[-1][:, 0]


def layers_of(forest: Forest) -> list[Layer]:
    """The layers of a forest: its pieces, and the cells of each level above them."""
    top = 0
    while (
        top + 1 < len(forest.cells)
        and sum(forest.cells[: top + 2]) <= _CELLS_OF_A_PIECE * forest.cells[top + 1]
    ):
        top += 1
    above = range(top + 1, len(forest.cells))
    return [Layer(forest, 0, top), *(Layer(forest, row, row) for row in above)]


def sequence(layers: list[Layer]) -> list[int]:
    """The pieces of all layers as they follow each other in the text."""
    leaves = np.concatenate([layer.first_leaves for layer in layers])
    tops = np.concatenate([np.full(layer.pieces, layer.top) for layer in layers])
    order: list[int] = _parents_first(leaves, tops).tolist()
    return order


def _parents_first(leaves: Indices, levels: Indices) -> Indices:
    """The order of cells with these first leaf cells in which each is before its children."""
    return np.lexsort((-levels, leaves))


def _leaves(forest: Forest, row: int) -> int:
    return forest.cells[0] // forest.cells[row]


def _ends(forest: Forest, row: int) -> Indices:
    """By cell of a level: 0 if children follow, else how many end; last of all `DEEPEST` more."""
    cells = np.arange(1, forest.cells[row] + 1)
    if row > 0:
        return np.zeros_like(cells)
    ends = np.zeros_like(cells)
    for above in range(len(forest.cells)):
        ends += cells % _leaves(forest, above) == 0
    ends[ends == len(forest.cells)] += DEEPEST
    return ends
