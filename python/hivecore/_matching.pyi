import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_T = TypeVar("_T")
_Numbers = npt.NDArray[Any]
_Int64 = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Matcher = object  # a capsule
_Solution = tuple[_Int64, _Int64, _Int64, _Int64, _Int64]

def survey_dense(
    weights: _Numbers, positive: bool = False
) -> tuple[tuple[int, int] | None, int, int | float, int | float, int]: ...
def extent_of(
    weights: _Numbers, positive: bool = False
) -> tuple[int | float, int | float, int]: ...
def rows(
    n: int, u: _Numbers, v: _Numbers, weights: _Numbers | None, lightest: bool = False
) -> tuple[int, int, int, _Int64, npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
def entries_of(
    offsets: _Int64, neighbours: npt.NDArray[np.int32], u: _Int64, v: _Int64
) -> _Int64: ...
def scaled(
    weights: _Numbers,
    exponent: int = 0,
    sense: int = 1,
    offset: int = 0,
    heaviest: int = 2**59,
    floor: int = -(2**63),
) -> _Int64: ...
def scaled_exactly(
    weights: npt.NDArray[np.float64], exponent: int, heaviest: int
) -> _Int64 | None: ...
def solve_small(
    cls: type[_T],
    graph: object,
    sense: int,
    most_edges: object,
    perfect: object,
    certificate: object,
) -> _T | None: ...
def edges_in(
    adjacency: dict[Any, Any], number: dict[Any, int], weight: object
) -> tuple[_Int64, list[Any]] | None: ...
def plain_numbers(values: list[Any]) -> _Numbers | None: ...
def solve_dense(
    weights: _Numbers,
    exponent: int = 0,
    sense: int = 1,
    offset: int = 0,
    heaviest: int = 2**59,
    floor: int = -(2**63),
    duals: _Int64 | None = None,
    mate: _Int64 | None = None,
    time_limit: float = math.inf,
) -> _Solution: ...
def solve_sparse(
    n: int,
    offsets: _Int64,
    neighbours: npt.NDArray[np.int32],
    weights: _Int64,
    duals: _Int64 | None = None,
    mate: _Int64 | None = None,
    threads: int = 1,
    time_limit: float = math.inf,
) -> _Solution: ...
def solve_wide(
    n: int,
    offsets: _Int64,
    neighbours: npt.NDArray[np.int32],
    weights: _Numbers,
    exponent: int = 0,
    sense: int = 1,
    *,
    offset: npt.NDArray[np.uint64],
    threads: int = 1,
    time_limit: float = math.inf,
) -> tuple[_Int64, _Words, _Int64, _Int64, _Words]: ...
def matcher(capacity: int, weights: _Int64) -> _Matcher: ...
def matcher_set_row(matcher: _Matcher, v: int, weights: _Int64) -> None: ...
def matcher_set_edge(matcher: _Matcher, u: int, v: int, weight: int) -> None: ...
def matcher_solve(matcher: _Matcher) -> _Solution: ...
def matcher_passes(matcher: _Matcher) -> int: ...
def matcher_heaviest(matcher: _Matcher) -> int: ...
