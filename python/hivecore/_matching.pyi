import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]

def solve_dense(weights: _Int64) -> tuple[_Int64, _Int64, _Int64, _Int64, _Int64]: ...
def solve_sparse(
    n: int, offsets: _Int64, neighbours: npt.NDArray[np.int32], weights: _Int64
) -> tuple[_Int64, _Int64, _Int64, _Int64, _Int64]: ...
