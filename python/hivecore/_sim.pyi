from typing import Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

_Floats: TypeAlias = npt.NDArray[np.float64]

@final
class FluidClock:
    def __new__(
        cls,
        sizes: npt.ArrayLike,
        cache_of: npt.ArrayLike,
        totals: npt.ArrayLike,
        capacity: float,
        bandwidth: float,
        *,
        io_mode: str = "priority",
        policy: str = "uniform",
        shrink: str = "random",
        lazy: bool = True,
        private: bool = False,
        warm_up: bool = False,
    ) -> Self: ...
    def allocate(
        self,
        jobs: npt.ArrayLike,
        rates: npt.ArrayLike,
        quota: npt.ArrayLike | None = None,
        reclaim: npt.ArrayLike = (),
        wanted: npt.ArrayLike = (),
        again: npt.ArrayLike = (),
        *,
        reference: npt.ArrayLike | None = None,
    ) -> None: ...
    def advance(self, until: float = ..., events: int = 1000000) -> npt.NDArray[np.int64]: ...
    @property
    def now(self) -> float: ...
    @property
    def events(self) -> int: ...
    @property
    def fetched(self) -> float: ...
    @property
    def warming(self) -> float: ...
    @property
    def jobs(self) -> npt.NDArray[np.int64]: ...
    @property
    def rates(self) -> _Floats: ...
    @property
    def misses(self) -> _Floats: ...
    @property
    def cached(self) -> _Floats: ...
    @property
    def last_use(self) -> _Floats: ...
    @property
    def left(self) -> _Floats: ...
    def check(self) -> None: ...
