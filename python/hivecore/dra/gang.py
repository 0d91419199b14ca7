"""Claims of several pods that start together or not at all, over the nodes of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from hivecore.dra.decision import ClaimDecision

__all__ = ["DraGangDecision", "share_out"]

_C = TypeVar("_C")
#: A group, how many of its nodes are used, and the pods of each kind that are left.
_State = tuple[int, int, tuple[int, ...]]


class DraGangDecision(NamedTuple):
    """Where the pods of a gang go.

    :param nodes: of each pod.
    :param decisions: of each node that gets pods, for the claims of all its pods together.
    """

    nodes: tuple[str, ...]
    decisions: tuple[ClaimDecision, ...]


def share_out(
    wanted: Sequence[int],
    groups: Sequence[tuple[_C, int]],
    holds: Callable[[_C, tuple[int, ...]], bool],
) -> list[list[tuple[int, ...]]] | None:
    """How many pods of each kind go to each node, on as few nodes as the first answer needs.

    :param wanted: pods of each kind.
    :param groups: kinds of nodes in the order in which they are preferred, and how many there are.
    :param holds: whether a node can serve so many pods of each kind together; if it can serve
        pods, it can serve some of them.
    :returns: for each group the pods of each of its nodes that gets some; ``None``: there is none.

    Exact. Each node takes as many as nothing more contains; what remains is looked at once for each
    group. Cost: O(vectors of pods that fit a node) questions for each group.
    """
    failed: set[_State] = set()

    def moves(state: _State) -> Iterator[tuple[int, ...] | None]:
        """The pods that the next node may take, and then none, for the next group."""
        group, used, remaining = state
        if group == len(groups) or state in failed:
            return
        kind, count = groups[group]
        if used < count:
            yield from _fullest(remaining, lambda of: holds(kind, of))
            failed.add(state)
        yield None

    state: _State = 0, 0, tuple(wanted)
    path: list[tuple[_State, Iterator[tuple[int, ...] | None], tuple[int, ...] | None]]
    path = [(state, moves(state), None)]
    while any(path[-1][0][2]):
        (group, used, remaining), untried, _ = path[-1]
        move = next(untried, ())
        if move == ():
            path.pop()
            if not path:
                return None
            continue
        state = (group + 1, 0, remaining)
        if move is not None:
            state = (group, used + 1, _less(remaining, move))
        path.append((state, moves(state), move))
    answer: list[list[tuple[int, ...]]] = [[] for _ in groups]
    for (group, _, _), _, move in path:
        if move is not None:
            answer[group].append(move)
    return answer


def _less(whole: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(whole, other, strict=True))


def _fullest(
    most: tuple[int, ...], holds: Callable[[tuple[int, ...]], bool]
) -> Iterable[tuple[int, ...]]:
    """The vectors that hold and that no other contains, those with the most pods first."""
    able: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """All that hold, of the kinds from the end of the prefix on."""
        kind = len(prefix)
        if kind == len(most):
            yield prefix
            return
        for count in range(most[kind] + 1):
            vector = (*prefix, count)
            if count and not holds(vector + (0,) * (len(most) - kind - 1)):
                return
            yield from extend(vector)

    for vector in sorted(extend(()), key=sum, reverse=True):
        contained = any(all(a <= b for a, b in zip(vector, other, strict=True)) for other in able)
        if any(vector) and not contained:
            able.append(vector)
    return able
