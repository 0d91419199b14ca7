from typing import Any, Self, SupportsFloat, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

def solve_storage(
    dataset: npt.NDArray[np.int64],
    rate: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64] | None,
    running: npt.NDArray[np.bool_] | None,
    effective: npt.NDArray[np.float64] | None,
    remaining: npt.NDArray[np.float64] | None,
    gpus: npt.NDArray[np.float64] | None,
    elapsed: npt.NDArray[np.float64] | None,
    elapsed_alone: npt.NDArray[np.float64] | None,
    size: npt.NDArray[np.float64],
    current: npt.NDArray[np.float64] | None,
    cache: float,
    bandwidth: float,
    gpu_capacity: float,
    objective: str,
    io_mode: str,
    eps: float,
) -> tuple[
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.float64],
    npt.NDArray[np.bool_],
    npt.NDArray[np.int64],
    float,
    float,
    float,
    int,
    list[float],
    list[int],
    npt.NDArray[np.int64],
    npt.NDArray[np.float64],
]: ...
def greedy_cache(
    efficiency: npt.ArrayLike,
    datasets: npt.ArrayLike,
    capacity: SupportsFloat,
    current: npt.ArrayLike | None = None,
    eps: SupportsFloat = 0.1,
) -> npt.NDArray[np.float64]: ...

@disjoint_base
class KernelObject:
    def check(self) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __sizeof__(self) -> int: ...

@final
class RemoteIOLimiter(KernelObject):
    def __new__(
        cls, rate_bytes: SupportsIndex, burst_bytes: SupportsIndex, *, lend: bool = False
    ) -> Self: ...
    @property
    def rate_bytes(self) -> int: ...
    @property
    def burst_bytes(self) -> int: ...
    @property
    def lend(self) -> bool: ...
    @property
    def free_rate_bytes(self) -> int: ...
    @property
    def free_burst_bytes(self) -> int: ...
    @property
    def now_ns(self) -> int: ...
    def __len__(self) -> int: ...
    def add_job(
        self, rate_bytes: SupportsIndex, burst_bytes: SupportsIndex, now_ns: SupportsIndex
    ) -> int: ...
    def remove_job(self, job: SupportsIndex, now_ns: SupportsIndex) -> None: ...
    def set_rate(
        self,
        job: SupportsIndex,
        rate_bytes: SupportsIndex,
        burst_bytes: SupportsIndex | None = None,
        *,
        now_ns: SupportsIndex,
    ) -> None: ...
    def job_rate(self, job: SupportsIndex, /) -> tuple[int, int]: ...
    def take(self, job: SupportsIndex, bytes: SupportsIndex, now_ns: SupportsIndex) -> int: ...
    def take_many(
        self, jobs: npt.ArrayLike, bytes: npt.ArrayLike, now_ns: SupportsIndex
    ) -> npt.NDArray[np.int64]: ...
    def tokens(self, job: SupportsIndex, now_ns: SupportsIndex) -> int: ...
    def spare(self, now_ns: SupportsIndex) -> int: ...
    def copy(self) -> RemoteIOLimiter: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes, /) -> RemoteIOLimiter: ...
