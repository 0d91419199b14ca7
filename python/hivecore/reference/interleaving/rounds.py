"""Twin of `hivecore.interleaving.rounds`: how jobs take turns on shared GPUs.

An iteration of a job uses k resources one after another. The jobs of a group are shifted against
each other so that each is on another resource, and all do one iteration per round. Source: Muri
(SIGCOMM'22), equations 1 to 4; model "artifact" follows the authors' published simulator.

Rows are the stage durations of a job, in any common unit of time.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import inf

__all__ = ["FOUR", "TIE", "Row", "efficiencies", "efficiency_of", "interleave", "total"]

Row = tuple[float, ...]

#: Round times with a smaller relative difference are equal.
TIE = 1e-12

#: Slots of the models with three columns.
FOUR = 4
_STEADY = 1e-3


def interleave(
    rows: Sequence[Row], model: str = "barrier", order: str = "best"
) -> tuple[tuple[int, ...], float, float]:
    """Return the offsets, round time and efficiency of a group.

    Offsets are tried in lexicographic order, with 0 for the first job; a later order must be better
    by more than a tie.

    >>> interleave([(2.0, 1.0), (3.0, 1.0)])
    ((0, 1), 5.0, 0.7)
    """
    slots = len(rows[0]) if model == "barrier" else FOUR
    tie = 0.0 if model == "artifact" else TIE
    best = inf if order == "best" else -inf
    chosen: tuple[int, ...] = ()
    for rest in permutations(range(1, slots), len(rows) - 1):
        offsets = (0, *rest)
        time = _ROUND_TIMES[model](rows, offsets, order)
        if time < best * (1 - tie) if order == "best" else time > best * (1 + tie):
            best, chosen = time, offsets
    return chosen, best, efficiency_of(_busy(rows), best, slots, model)


def efficiencies(
    rows: Sequence[Row],
    groups: Sequence[Sequence[int]] | None = None,
    model: str = "barrier",
    order: str = "best",
) -> list[list[float]] | list[float]:
    """Return the efficiency of all pairs, or of groups of job numbers.

    >>> efficiencies([(2.0, 1.0), (1.0, 2.0)])
    [[0.5, 1.0], [1.0, 0.5]]
    """
    if groups is not None:
        return [interleave([rows[job] for job in group], model, order)[2] for group in groups]
    n = len(rows)
    pairs = [[0.0] * n for _ in rows]
    for i in range(n):
        pairs[i][i] = interleave([rows[i]], model, order)[2]
        for j in range(i):
            pairs[i][j] = pairs[j][i] = interleave([rows[j], rows[i]], model, order)[2]
    return pairs


def total(values: Iterable[float]) -> float:
    """Return the sum from the left, like the kernel (`sum` compensates since Python 3.12).

    >>> total([0.1, 0.2, 0.3])
    0.6000000000000001
    """
    added = 0.0
    for value in values:
        added += value
    return added


# --- one round ---------------------------------------------------------------------------------


def _barrier(rows: Sequence[Row], offsets: Sequence[int], _order: str) -> float:
    """Equation 3: each slot lasts as long as its longest stage."""
    k = len(rows[0])
    return total(
        max(row[(slot - offset) % k] for row, offset in zip(rows, offsets, strict=True))
        for slot in range(k)
    )


def _data_of_two_slots(rows: Sequence[Row], offsets: Sequence[int], _order: str) -> float:
    """Loading data spans two of four slots: the longest path, in slots and data stages.

    A job with offset o uses the network in slot o and the GPU in the slot before; its data stage
    ends with the slot before that.
    """
    slots, stages = [0.0] * FOUR, [0.0] * FOUR
    for (data, gpu, net), o in zip(rows, offsets, strict=True):
        slots[o] = max(slots[o], net)
        slots[o - 1] = max(slots[o - 1], gpu)
        stages[o - 2] = data
    ways = [slots[0] + slots[1] + slots[2] + slots[3], stages[0] + stages[2], stages[1] + stages[3]]
    ways += [stages[s] + slots[(s + 1) % FOUR] + slots[(s + 2) % FOUR] for s in range(FOUR)]
    return max(ways)


def _artifact(rows: Sequence[Row], offsets: Sequence[int], order: str) -> float:
    """The authors' recurrence, from each stage in which the group can begin."""
    jobs = len(rows)
    if jobs == 1:
        return total(rows[0])
    if jobs == 2 and offsets[1] == 2:
        (data, gpu, net), (data_2, gpu_2, net_2) = rows
        return max(data, gpu_2 + net_2) + max(data_2, gpu + net)
    times = []
    for turn in range(FOUR):
        places = [(offset + turn) % FOUR for offset in offsets]
        if max(places) < jobs:
            times.append(_recurrence([rows[places.index(place)] for place in range(jobs)]))
    return min(times) if order == "best" else max(times)


def _recurrence(rows: Sequence[Row]) -> float:
    """Iterate `end[i]`, the end of slot i, from a cold start; data that ends with a slot began two
    before.

    A slot without a stage ends at 0. The iteration stops when two rounds take nearly the same time.
    """
    jobs = len(rows)
    end = [0.0]
    for i in range(2 * FOUR):
        net, gpu, data = (i + 1) % FOUR, (i + 2) % FOUR, (i + 3) % FOUR
        latest = 0.0
        if net < jobs:
            latest = max(latest, end[i] + rows[net][2])
        if gpu < jobs:
            latest = max(latest, end[i] + rows[gpu][1])
        if data < jobs and i > 0:
            latest = max(latest, end[i - 1] + rows[data][0])
        end.append(latest)
        if i >= FOUR:
            this, before = latest - end[i + 1 - FOUR], end[i] - end[i - FOUR]
            if this > 0 and abs(this - before) <= _STEADY * max(abs(this), abs(before)):
                return this
    return end[2 * FOUR] - end[FOUR]


_ROUND_TIMES = {"barrier": _barrier, "data2": _data_of_two_slots, "artifact": _artifact}


def _busy(rows: Sequence[Row]) -> float:
    return total(map(total, rows))


def efficiency_of(busy: float, time: float, slots: int, model: str) -> float:
    """Return the efficiency, equation 4.

    The artifact may stop before the steady state, so that it can exceed 1.
    """
    share = busy / (time * slots)
    return share if model == "artifact" else min(share, 1.0)
