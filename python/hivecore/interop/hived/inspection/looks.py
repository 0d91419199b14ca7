"""What the cells of a chain look like from outside: arrays per level, leaf cells first.

    state      Used where a child is; another state where all children share it; else Free
    priority   the highest of the children's
    bad        where a child is

A virtual cell looks like the physical cell that it is bound to. Bad hardware that concerns a
virtual cluster shows in it before anything is bound there: of a bound cell's unbound children as
many as its physical cell has bad ones, the last first; and as many whole cells as the healthy
hardware can no longer back, the last first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FREE", "NO_GROUP", "OPPORTUNISTIC", "RESERVED", "RESERVING", "USED", "Looks", "Numbers"]

Numbers = npt.NDArray[np.int64]

FREE, USED, RESERVING, RESERVED = range(4)
OPPORTUNISTIC, NO_GROUP = -1, -2


class Looks(NamedTuple):
    """Per level: state, priority and 1 where bad, of each cell."""

    states: list[Numbers]
    priorities: list[Numbers]
    bad: list[Numbers]

    @classmethod
    def of_leaves(
        cls, fanouts: Sequence[int], states: Numbers, priorities: Numbers, bad: Numbers
    ) -> "Looks":
        """The looks of all levels above these leaf cells."""
        looks = cls([states], [priorities], [bad])
        for fanout in fanouts:
            children = _by_rank(looks.states[-1], fanout)
            shared = np.where((children == children[0]).all(axis=0), children[0], FREE)
            looks.states.append(np.where((children == USED).any(axis=0), USED, shared))
            looks.priorities.append(_by_rank(looks.priorities[-1], fanout).max(axis=0))
            looks.bad.append(_by_rank(looks.bad[-1], fanout).max(axis=0))
        return looks

    def seen_through(
        self, fanouts: Sequence[int], bindings: Sequence[Numbers], doomed: int
    ) -> "Looks":
        """What virtual cells look like through the physical cells that they are bound to.

        :param bindings: per level, leaf cells first: each virtual cell's physical cell; -1: none.
        :param doomed: how many unbound top cells are bad: the last ones.
        """
        fanouts = fanouts[: len(bindings) - 1]
        leaf = _through(bindings[0], self.priorities[0], NO_GROUP)
        virtual = Looks.of_leaves(fanouts, leaf, leaf, np.zeros_like(leaf))
        states = [
            _through(cells, states, FREE)
            for cells, states in zip(bindings, self.states, strict=False)
        ]
        bad = virtual.bad
        if self.bad[-1].any():
            bad = [
                _through(cells, bad, 0)
                for cells, bad in zip(self._shown(fanouts, bindings), self.bad, strict=False)
            ]
            roots = len(bad[-1])
            unbound = np.flatnonzero(bindings[-1] < 0)
            for cells in bad:
                cells.reshape(roots, -1)[unbound[len(unbound) - doomed :]] = 1
        return Looks(states, virtual.priorities, bad)

    def _shown(self, fanouts: Sequence[int], bindings: Sequence[Numbers]) -> list[Numbers]:
        """The physical cells whose health is shown.

        These are the bindings, and for the unbound children of bound cells with bad hardware the
        other children of their physical cells, bad ones last.
        """
        shown = [bindings[-1]]
        for row in range(len(fanouts) - 1, -1, -1):
            fanout, parents = fanouts[row], shown[-1]
            bound = bindings[row + 1] >= 0
            cells = bindings[row].copy()
            children = cells.reshape(-1, fanout)
            as_is = np.flatnonzero(~bound & (parents >= 0))
            children[as_is] = parents[as_is, None] * fanout + np.arange(fanout)
            torn = np.flatnonzero(bound & (_through(parents, self.bad[row + 1], 0) > 0))
            others = parents[torn, None] * fanout + np.arange(fanout)
            children[torn] = _filled(children[torn], others, self.bad[row])
            shown.append(cells)
        return shown[::-1]


def _by_rank(values: Numbers, fanout: int) -> Numbers:
    """One row for all first children, one for all second ones, ...: NumPy goes by long rows."""
    return np.ascontiguousarray(values.reshape(-1, fanout).T)


def _through(cells: Numbers, values: Numbers, otherwise: int) -> Numbers:
    """The values of these cells; ``otherwise`` where there is none (-1)."""
    return np.where(cells >= 0, values[cells], otherwise)


def _filled(mine: Numbers, others: Numbers, bad: Numbers) -> Numbers:
    """Rows of cells, where -1 stands for those of ``others`` that are not in the row, bad last."""
    places, columns = np.nonzero(mine >= 0)
    taken = np.zeros_like(mine)
    taken[places, mine[places, columns] - others[places, 0]] = 1
    left = np.argsort(2 * taken + bad[others], axis=1, kind="stable")
    empty = np.argsort(mine >= 0, axis=1, kind="stable")
    filled = mine.copy()
    places, ranks = np.nonzero(np.arange(mine.shape[1]) < (mine < 0).sum(axis=1)[:, None])
    filled[places, empty[places, ranks]] = others[places, left[places, ranks]]
    return filled
