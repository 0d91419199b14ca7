from collections.abc import Iterable, Sequence

_Node = object
_Claims = object
_Charge = tuple[int, int, Sequence[tuple[int, int]]]

def node(
    devices: Iterable[tuple[int, int, Sequence[_Charge], Sequence[int]]],
    left: Sequence[int],
    common: Sequence[int],
) -> _Node: ...
def claims(
    alternatives: Sequence[tuple[int, int, int, bool]],
    constraints: Sequence[tuple[bool, Sequence[int]]],
    profiles: Sequence[
        tuple[Sequence[int], Sequence[bool], Sequence[int], Sequence[Sequence[int]]]
    ],
) -> _Claims: ...
def search(
    node: _Node,
    claims: _Claims,
    mode: int,
    limit: int,
    few: int,
    limits: Sequence[int] = (),
    costs: Sequence[int] = (),
) -> tuple[int, list[tuple[int, int]], bool, int, int, list[int], int, int]: ...
