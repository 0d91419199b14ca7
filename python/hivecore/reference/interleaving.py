"""Twin of `hivecore.interleaving`: how jobs take turns on shared GPUs, and which ones should.

An iteration of a job holds its k resources one after another, and the jobs of a group are shifted
against each other, so that each is on another resource. All of them do one iteration per round.
Source: Muri (SIGCOMM'22), equations 1 to 4 and section 4; model "artifact" and merging by index
follow the simulator that its authors published.

Rows are the stage durations of a job, in any one unit of time.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import permutations
from math import inf

__all__ = ["TIE", "Matcher", "Row", "Weight", "efficiencies", "group_jobs", "interleave", "total"]

Row = tuple[float, ...]

#: From weights[n][n] (0: no edge; only those above 0 count) to the partner of each node, -1: none.
Matcher = Callable[[Sequence[Sequence[float]]], Sequence[int]]

#: What a group is worth, for groups of job numbers.
Weight = Callable[[list[list[int]]], Sequence[float]]

#: Times of rounds that differ by less, relatively, are equal.
TIE = 1e-12

_SLOTS = 4  # of the models with three columns
_STEADY = 1e-3


def interleave(
    rows: Sequence[Row], model: str = "barrier", order: str = "best"
) -> tuple[tuple[int, ...], float, float]:
    """Return offsets, the time of a round, and the efficiency of one group.

    Offsets are tried in lexicographic order, the first job's is 0; a later order has to be better
    by more than a tie.

    >>> interleave([(2.0, 1.0), (3.0, 1.0)])
    ((0, 1), 5.0, 0.7)
    """
    slots = len(rows[0]) if model == "barrier" else _SLOTS
    tie = 0.0 if model == "artifact" else TIE
    best = inf if order == "best" else -inf
    chosen: tuple[int, ...] = ()
    for rest in permutations(range(1, slots), len(rows) - 1):
        offsets = (0, *rest)
        time = _ROUND_TIMES[model](rows, offsets, order)
        if time < best * (1 - tie) if order == "best" else time > best * (1 + tie):
            best, chosen = time, offsets
    return chosen, best, _efficiency(_busy(rows), best, slots, model)


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
    """Return the sum, added up from the left as the kernel does (`sum` compensates since 3.12).

    >>> total([0.1, 0.2, 0.3])
    0.6000000000000001
    """
    added = 0.0
    for value in values:
        added += value
    return added


# --- one round ---------------------------------------------------------------------------------


def _barrier(rows: Sequence[Row], offsets: Sequence[int], _order: str) -> float:
    """Equation 3: all wait for the longest stage of each slot."""
    k = len(rows[0])
    return total(
        max(row[(slot - offset) % k] for row, offset in zip(rows, offsets, strict=True))
        for slot in range(k)
    )


def _data_of_two_slots(rows: Sequence[Row], offsets: Sequence[int], _order: str) -> float:
    """Data spans two of four slots: the longest way around, in slots and in data stages.

    A job of offset o is on the network in slot o, on the GPU in the slot before, and its data stage
    ends with the slot before that.
    """
    one, two = [0.0] * _SLOTS, [0.0] * _SLOTS
    for (data, gpu, net), o in zip(rows, offsets, strict=True):
        one[o] = max(one[o], net)
        one[o - 1] = max(one[o - 1], gpu)
        two[o - 2] = data
    ways = [one[0] + one[1] + one[2] + one[3], two[0] + two[2], two[1] + two[3]]
    ways += [two[s] + one[(s + 1) % _SLOTS] + one[(s + 2) % _SLOTS] for s in range(_SLOTS)]
    return max(ways)


def _artifact(rows: Sequence[Row], offsets: Sequence[int], order: str) -> float:
    """The authors' recurrence, from all places in which the group can begin."""
    jobs = len(rows)
    if jobs == 1:
        return total(rows[0])
    if jobs == 2 and offsets[1] == 2:
        (data, gpu, net), (data_2, gpu_2, net_2) = rows
        return max(data, gpu_2 + net_2) + max(data_2, gpu + net)
    times = []
    for turn in range(_SLOTS):
        places = [(offset + turn) % _SLOTS for offset in offsets]
        if max(places) < jobs:
            times.append(_recurrence([rows[places.index(place)] for place in range(jobs)]))
    return min(times) if order == "best" else max(times)


def _recurrence(rows: Sequence[Row]) -> float:
    """`end[i]` is when slot i ends, from a cold start; data that ends with a slot began two before.

    A slot of no stage ends at 0, and it all ends when two rounds took nearly the same time.
    """
    jobs = len(rows)
    end = [0.0]
    for i in range(2 * _SLOTS):
        net, gpu, data = (i + 1) % _SLOTS, (i + 2) % _SLOTS, (i + 3) % _SLOTS
        latest = 0.0
        if net < jobs:
            latest = max(latest, end[i] + rows[net][2])
        if gpu < jobs:
            latest = max(latest, end[i] + rows[gpu][1])
        if data < jobs and i > 0:
            latest = max(latest, end[i - 1] + rows[data][0])
        end.append(latest)
        if i >= _SLOTS:
            this, before = latest - end[i + 1 - _SLOTS], end[i] - end[i - _SLOTS]
            if this > 0 and abs(this - before) <= _STEADY * max(abs(this), abs(before)):
                return this
    return end[2 * _SLOTS] - end[_SLOTS]


_ROUND_TIMES = {"barrier": _barrier, "data2": _data_of_two_slots, "artifact": _artifact}


def _busy(rows: Sequence[Row]) -> float:
    return total(map(total, rows))


def _efficiency(busy: float, time: float, slots: int, model: str) -> float:
    """Equation 4. The artifact may end before the steady state: then it can exceed 1."""
    share = busy / (time * slots)
    return share if model == "artifact" else min(share, 1.0)


# --- groups ------------------------------------------------------------------------------------

_Node = list[int]


class _Candidates:
    """The jobs, and what groups of them would be like."""

    def __init__(
        self,
        rows: Sequence[Row],
        model: str,
        order: str,
        interference: Sequence[float],
        solo: Sequence[float],
        priorities: Sequence[float],
        max_slowdown: float,
        memory: Sequence[int],
        gpu_memory: float,
    ) -> None:
        self.rows = rows
        self.slots = len(rows[0]) if model == "barrier" else _SLOTS
        self._model, self._order = model, order
        self._interference = interference
        self._solo = solo
        self._priorities, self._max_slowdown = priorities, max_slowdown
        self._memory, self._gpu_memory = memory, gpu_memory
        self._limited = gpu_memory < inf or max_slowdown < inf
        profiles = {row: number for number, row in enumerate(sorted(set(rows)))}
        self._profile = [profiles[row] for row in rows]
        self._profiles = list(profiles)
        self._busy = [total(row) for row in rows]
        self._times: dict[tuple[int, ...], float] = {}
        self._efficiency: dict[tuple[int, ...], float] = {}

    def time(self, node: _Node) -> float:
        """Return how long a round takes; it does not depend on the order of the jobs."""
        if len(node) == 1:
            return self._solo[node[0]]
        mixture = tuple(sorted([self._profile[job] for job in node]))
        found = self._times.get(mixture)
        if found is None:
            rows = tuple(self._profiles[number] for number in mixture)
            time = _round_time(rows, self._model, self._order)
            found = self._times[mixture] = time * self._interference[len(node) - 1]
        return found

    def may_be(self, node: _Node) -> bool:
        """Whether the jobs fit into memory, and the most urgent one is not slowed down too much."""
        if not self._limited:
            return True
        urgent = min(node, key=lambda job: (self._priorities[job], job))
        return (
            sum(self._memory[job] for job in node) <= self._gpu_memory
            and self.time(node) <= self._max_slowdown * self._solo[urgent]
        )

    def efficiency(self, node: _Node) -> float:
        """Return the share of time that the resources are busy."""
        key = tuple([self._profile[job] for job in node]) if len(node) > 1 else (-1, *node)
        found = self._efficiency.get(key)
        if found is None:
            busy = total([self._busy[job] for job in node])
            found = _efficiency(busy, self.time(node), self.slots, self._model)
            self._efficiency[key] = found
        return found

    def progress(self, node: _Node) -> float:
        """Return how many jobs' worth of progress the group makes: 1 for a single job."""
        return total([self._solo[job] for job in node]) / self.time(node)


@lru_cache(maxsize=2**16)
def _round_time(rows: tuple[Row, ...], model: str, order: str) -> float:
    return interleave(rows, model, order)[1]


def group_jobs(
    rows: Sequence[Row],
    gpus: Sequence[int],
    capacity: int | None = None,
    *,
    matcher: Matcher,
    max_group: int | None = None,
    weight: str | Weight = "efficiency",
    model: str = "barrier",
    order: str = "best",
    merge_order: str = "waste",
    interference: Sequence[float] | None = None,
    solo: Sequence[float] | None = None,
    priorities: Sequence[float] | None = None,
    max_slowdown: float = inf,
    memory: Sequence[int] | None = None,
    gpu_memory: float = inf,
) -> list[list[int]]:
    """Return the groups of Muri's rounds of matchings.

    :param matcher: finds a matching of the greatest weight. It gets each weight twice, with the
        jobs added up in the order of the row before the column, and in the other.

    >>> first_two = lambda weights: [1, 0] + [-1] * (len(weights) - 2)
    >>> group_jobs([(2.0, 1.0), (1.0, 2.0), (1.0, 1.0)], [4, 4, 4], 8, matcher=first_two)
    [[0, 1], [2]]
    """
    n = len(rows)
    jobs = _Candidates(
        rows,
        model,
        order,
        [1.0] * n if interference is None else interference,
        [total(row) for row in rows] if solo is None else solo,
        range(n) if priorities is None else priorities,
        max_slowdown,
        [0] * n if memory is None else memory,
        gpu_memory,
    )
    largest = jobs.slots if max_group is None else max_group
    buckets: dict[int, list[_Node]] = {}
    for job, size in enumerate(gpus):
        buckets.setdefault(size, []).append([job])
    excess = sum(gpus) - (capacity or 0)

    def matched(size: int) -> list[tuple[int, int, int]]:
        """The bucket and the numbers of its nodes, in the order of the second ones."""
        weights = _weights(jobs, buckets[size], largest, weight)
        if not any(map(any, weights)):
            return []
        return [(size, u, v) for v, u in enumerate(matcher(weights)) if 0 <= u < v]

    def waste(pair: tuple[int, int, int]) -> float:
        size, u, v = pair
        return (1 - jobs.efficiency(buckets[size][u] + buckets[size][v])) * size

    def merge(pairs: list[tuple[int, int, int]]) -> bool:
        """Merge the first pairs, as long as GPUs are lacking, each in the place of its second."""
        nonlocal excess
        merged = False
        for size, u, v in pairs:
            if excess > 0:
                nodes = buckets[size]
                nodes[u], nodes[v] = [], nodes[u] + nodes[v]
                excess -= size
                merged = True
        for nodes in buckets.values():
            nodes[:] = [node for node in nodes if node]
        return merged

    for _ in range(largest):
        if excess <= 0:
            break
        if merge_order == "index":
            merges = [merge(matched(size)) for size in buckets if excess > 0]
        else:
            pairs = [pair for size in buckets for pair in matched(size)]
            merges = [merge(sorted(pairs, key=waste))]
        if not any(merges):
            break
    return [node for nodes in buckets.values() for node in nodes]


def _weights(
    jobs: _Candidates, nodes: list[_Node], largest: int, weight: str | Weight
) -> list[list[float]]:
    weights = [[0.0] * len(nodes) for _ in nodes]
    places = [
        (u, v)
        for u, first in enumerate(nodes)
        for v, second in enumerate(nodes)
        if u != v and len(first) + len(second) <= largest and jobs.may_be(first + second)
    ]
    if callable(weight):
        places = [(u, v) for u, v in places if u < v]
        values = weight([nodes[u] + nodes[v] for u, v in places])
        for (u, v), value in zip(places, values, strict=True):
            weights[u][v] = weights[v][u] = value
    for u, v in places if isinstance(weight, str) else []:
        both = nodes[u] + nodes[v]
        if weight == "efficiency":
            weights[u][v] = jobs.efficiency(both)
        else:
            in_turns = (jobs.progress(nodes[u]) + jobs.progress(nodes[v])) / 2
            weights[u][v] = jobs.progress(both) - in_turns
    return weights
