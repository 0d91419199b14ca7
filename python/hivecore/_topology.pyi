from collections.abc import Iterable, Sequence
from typing import NoReturn, Self, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

_Placement = tuple[int, int, list[tuple[int, int, int]], bool, list[int]]

@disjoint_base
class KernelObject:
    def check(self) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    def __sizeof__(self) -> int: ...

@final
class TopologyKernel(KernelObject):
    def __new__(cls, counts: Iterable[Sequence[int]]) -> Self: ...
    def set_slots(self, nodes: npt.ArrayLike, slots: npt.ArrayLike) -> None: ...
    def slots(self, level: int) -> npt.NDArray[np.int64]: ...
    def place(
        self,
        pods: int,
        widest: int,
        narrowest: int,
        multiples: Iterable[int],
        existing: npt.ArrayLike | None,
        cost: npt.ArrayLike | None,
        work: int,
        limits: Iterable[int] = (),
    ) -> _Placement: ...
    def place_roles(
        self,
        pods: int,
        widest: int,
        narrowest: int,
        existing: npt.ArrayLike | None,
        cost: npt.ArrayLike | None,
        work: int,
        other: TopologyKernel,
        others: int,
        begins: npt.ArrayLike,
        option_pods: npt.ArrayLike,
        option_others: npt.ArrayLike,
    ) -> _Placement: ...
    def copy(self) -> Self: ...
    def __reduce__(self) -> NoReturn: ...
