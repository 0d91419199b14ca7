from collections.abc import Iterable, Sequence
from typing import final

_Charge = tuple[int, int, Sequence[tuple[int, int]]]

@final
class Node:
    def __init__(
        self,
        devices: Iterable[tuple[int, int, Sequence[_Charge], Sequence[int]]],
        left: Sequence[int],
        common: Sequence[int],
    ) -> None: ...

@final
class Claims:
    def __init__(
        self,
        alternatives: Sequence[tuple[int, int, int, bool]],
        constraints: Sequence[tuple[bool, Sequence[int]]],
        profiles: Sequence[
            tuple[Sequence[int], Sequence[bool], Sequence[int], Sequence[Sequence[int]]]
        ],
    ) -> None: ...

def search(
    node: Node, claims: Claims, mode: int, limit: int, few: int
) -> tuple[int, list[tuple[int, int]], bool, int, int, list[int], int, int]: ...
