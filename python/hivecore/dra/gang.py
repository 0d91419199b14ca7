"""Distributes pods with device claims that start together over the nodes of a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from hivecore.dra._within import Vector, is_within
from hivecore.dra.decision import ClaimDecision

__all__ = ["DraGangDecision", "share_out"]

_C = TypeVar("_C")
#: (group, number of its nodes in use, remaining pods of each kind, rest of each limit)
_State = tuple[int, int, Vector, Vector]
#: (pods of each kind on a node, what they take of each limit)
_Move = tuple[Vector, Vector]
_NO_MORE: _Move = (), ()


class DraGangDecision(NamedTuple):
    """Where the pods of a gang go.

    :param nodes: of each pod.
    :param decisions: of each node with pods, for the claims of all its pods.
    """

    nodes: tuple[str, ...]
    decisions: tuple[ClaimDecision, ...]


def share_out(
    wanted: Sequence[int],
    groups: Sequence[tuple[_C, int]],
    holds: Callable[[_C, Vector], bool],
    takes: Callable[[_C, Vector], Iterable[Vector]] = lambda *_: [()],
    limits: Vector = (),
) -> list[list[_Move]] | None:
    """Divide pods of several kinds among nodes, trying fuller nodes first.

    :param wanted: pods of each kind.
    :param groups: (kind of node, how many), preferred ones first.
    :param holds: whether a node can serve these numbers of pods together; if so, also fewer.
    :param takes: the ways to serve them: what each takes of each limit.
    :param limits: the most that all pods together may take.
    :returns: for each group, the pods of each node in use and what they take; ``None`` if
        impossible.

    Exact. Without limits, each node takes a maximal set of pods, and each remainder is tried once
    for each group. Cost: O(vectors of pods that fit a node) calls of ``holds`` for each group.
    """
    failed: set[_State] = set()

    def moves(state: _State) -> Iterator[_Move | None]:
        """Yield what the next node may take, then None for the next group."""
        group, used, remaining, left = state
        if group == len(groups) or state in failed:
            return
        kind, count = groups[group]
        if used < count:
            for vector in _vectors(remaining, lambda of: holds(kind, of), bool(limits)):
                for taken in takes(kind, vector):
                    if is_within(taken, left):
                        yield vector, taken
            failed.add(state)
        yield None

    state: _State = 0, 0, tuple(wanted), limits
    path: list[tuple[_State, Iterator[_Move | None], _Move | None]]
    path = [(state, moves(state), None)]
    while any(path[-1][0][2]):
        (group, used, remaining, left), untried, _ = path[-1]
        move = next(untried, _NO_MORE)
        if move is _NO_MORE:
            path.pop()
            if not path:
                return None
            continue
        state = (group + 1, 0, remaining, left)
        if move is not None:
            state = (group, used + 1, _less(remaining, move[0]), _less(left, move[1]))
        path.append((state, moves(state), move))
    answer: list[list[_Move]] = [[] for _ in groups]
    for (group, *_), _, move in path:
        if move is not None:
            answer[group].append(move)
    return answer


def _less(whole: Vector, other: Vector) -> Vector:
    return tuple(a - b for a, b in zip(whole, other, strict=True))


def _vectors(most: Vector, holds: Callable[[Vector], bool], every: bool) -> Iterable[Vector]:
    """Yield the vectors for which ``holds`` is true, those with the most pods first.

    :param every: include those that another one contains.
    """
    able: list[Vector] = []

    def extend(prefix: Vector) -> Iterator[Vector]:
        """Yield all extensions of a prefix."""
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
        contained = any(is_within(vector, other) for other in able)
        if any(vector) and (every or not contained):
            able.append(vector)
    return able
