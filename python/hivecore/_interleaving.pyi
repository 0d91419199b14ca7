import numpy as np
import numpy.typing as npt

_Float64 = npt.NDArray[np.float64]
_Int64 = npt.NDArray[np.int64]
_Int32 = npt.NDArray[np.int32]

def rounds(
    durations: _Float64,
    starts: _Int64,
    members: _Int32,
    model: str = "barrier",
    best: bool = True,
) -> tuple[_Float64, _Float64, _Int64]: ...
def pairs(durations: _Float64, model: str = "barrier", best: bool = True) -> _Float64: ...
def group(
    durations: _Float64,
    gpus: _Int64,
    solo: _Float64,
    rank: _Int64,
    memory: _Int64,
    model: str,
    best: bool,
    factors: _Float64,
    gpu_memory: int,
    max_slowdown: float,
    gain: bool,
    capacity: int,
    least_waste_first: bool,
    effort: int,
    starts: _Int64,
    members: _Int32,
    most_in_matrix: int,
) -> tuple[_Int64, _Int32]: ...
def exact_grouper(
    durations: _Float64,
    model: str,
    best: bool,
    factors: _Float64,
    gpu_memory: int,
    max_slowdown: float,
    gain: bool,
) -> object: ...
def group_exactly(
    grouper: object,
    durations: _Float64,
    gpus: _Int64,
    solo: _Float64,
    rank: _Int64,
    memory: _Int64,
    optional: npt.NDArray[np.uint8],
    capacity: int,
    nodes: int,
) -> tuple[_Int64, _Int32, float, float]: ...
