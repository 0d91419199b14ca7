"""Chooses the GPUs on which a group is drawn; a policy only counts them."""

from collections.abc import Iterable, Sequence

from hivecore.sim.preemptive.history import Span
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["bars"]

#: (span, first GPU, number of GPUs); GPUs are numbered through all nodes.
_Bar = tuple[Span, int, int]


def bars(spans: Iterable[Span], gpus: Sequence[int], nodes: int) -> list[_Bar]:
    """Return each span as bars of neighbouring GPUs, without overlap.

    :param spans: of one history, in any order.
    :param gpus: per job.
    :param nodes: of 8 GPUs each.

    A group keeps its GPUs throughout its span: neighbours if possible, otherwise the first free
    ones.

    >>> pair, late = Span(0.0, 9.0, (0, 1), (0,)), Span(5.0, 9.0, (2,), (0,))
    >>> [(first, length) for _, first, length in bars([late, pair], [4, 4, 2], nodes=1)]
    [(0, 4), (4, 2)]
    """
    free_from = [[0.0] * GPUS_PER_NODE for _ in range(nodes)]
    drawn: list[_Bar] = []
    for span in sorted(spans, key=lambda span: (span.begin, span.nodes)):
        left = gpus[span.jobs[0]]
        for node in span.nodes:
            part = min(left, GPUS_PER_NODE)
            left -= part
            slots = free_from[node]
            taken = _choose([slot for slot, time in enumerate(slots) if time <= span.begin], part)
            for slot in taken:
                slots[slot] = span.end
            drawn += [(span, GPUS_PER_NODE * node + at, size) for at, size in _runs(taken)]
    return drawn


def _choose(free: list[int], part: int) -> list[int]:
    for at in range(len(free) - part + 1):
        if free[at + part - 1] - free[at] == part - 1:
            return free[at : at + part]
    return free[:part]


def _runs(slots: list[int]) -> list[tuple[int, int]]:
    """Return (first, length) of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and sum(runs[-1]) == slot:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs
