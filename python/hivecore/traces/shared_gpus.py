"""Nodes with GPUs, and pods that take whole GPUs or shares of one GPU.

A GPU has 1000 thousandths ("milli"). A pod takes `gpu_milli` of each of its `gpus` GPUs, and CPU
and memory of the host; it may be restricted to some models. The arrays are read-only.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore._record import Record, force_setattr
from hivecore._stateful import counted

__all__ = ["MILLI", "GpuNodes", "GpuPods"]

#: Thousandths of one GPU.
MILLI = 1000

_Integers = npt.NDArray[np.int64]
_Names = npt.NDArray[np.str_]


class GpuNodes(Record, frozen=True, eq=False):
    """Nodes, in the order of their source.

    :param name: str[nodes], distinct.
    :param cpu_milli: int64[nodes], thousandths of a CPU, not negative.
    :param memory_mib: int64[nodes], MiB of the host, not negative.
    :param gpus: int64[nodes], not negative.
    :param model: str[nodes], of the GPUs.
    :raises TypeError: a column of another kind, such as floats for integers.
    :raises ValueError: no node, columns of several lengths, a value out of range, or a name twice.
    """

    name: _Names
    cpu_milli: _Integers
    memory_mib: _Integers
    gpus: _Integers
    model: _Names

    def __post_init__(self) -> None:
        _freeze(self, {"name": np.str_, "model": np.str_}, ("cpu_milli", "memory_mib", "gpus"))
        _check_names(self.name)

    def __len__(self) -> int:
        return len(self.name)

    @property
    def gpu_milli(self) -> int:
        """The total of all nodes in thousandths of a GPU."""
        return MILLI * int(self.gpus.sum())

    def select(self, keep: npt.NDArray[Any]) -> Self:
        """Return the nodes at these positions, in this order.

        :param keep: bool[nodes], or node numbers.
        :raises ValueError: no node is left, or one is listed twice.
        """
        columns = (self.name, self.cpu_milli, self.memory_mib, self.gpus, self.model)
        return type(self)(*(column[keep] for column in columns))


class GpuPods(Record, frozen=True, eq=False):
    """Pods, in the order of their source.

    :param name: str[pods], distinct.
    :param cpu_milli: int64[pods], thousandths of a CPU, not negative.
    :param memory_mib: int64[pods], MiB of the host, not negative.
    :param gpus: int64[pods], number of different GPUs, not negative.
    :param gpu_milli: int64[pods], thousandths of each GPU, 1 to 1000; 0 where `gpus` is 0.
    :param models: for each pod the models that it can run on; empty for all.
    :param created: float64[pods], arrival in seconds, nan if unknown; ``None`` if the source has no
        times.
    :param deleted: float64[pods], departure in seconds, likewise.
    :raises TypeError: a column has another kind, such as floats for integers.
    :raises ValueError: there is no pod, columns differ in length, a value is out of range, or a
        name is used twice.
    """

    name: _Names
    cpu_milli: _Integers
    memory_mib: _Integers
    gpus: _Integers
    gpu_milli: _Integers
    models: tuple[frozenset[str], ...]
    created: npt.NDArray[np.float64] | None = None
    deleted: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        times = {
            name: np.float64 for name in ("created", "deleted") if getattr(self, name) is not None
        }
        integers = ("cpu_milli", "memory_mib", "gpus", "gpu_milli")
        _freeze(self, {"name": np.str_, **times}, integers)
        for column in times:
            if np.isinf(getattr(self, column)).any():
                raise ValueError(f"{column} must be finite, or nan")
        _check_names(self.name)
        if len(self.models) != len(self):
            raise ValueError(f"models must have one entry for each of {counted(len(self), 'pod')}")
        faulty = (self.gpu_milli > MILLI) | ((self.gpu_milli == 0) != (self.gpus == 0))
        if faulty.any():
            row = int(faulty.argmax())
            raise ValueError(
                f"gpu_milli must be 1 to {MILLI} with GPUs and 0 without, not "
                f"{self.gpu_milli[row]} of pod {self.name[row]} with {self.gpus[row]}"
            )

    def __len__(self) -> int:
        return len(self.name)

    @property
    def total_milli(self) -> _Integers:
        """int64[pods], thousandths of a GPU that the pod takes in total."""
        return self.gpus * self.gpu_milli


def _freeze(record: Any, types: dict[str, Any], integers: tuple[str, ...]) -> None:
    rows = len(record.name)
    if not rows:
        raise ValueError("name must have one entry at least")
    for column, kind in {**types, **dict.fromkeys(integers, np.int64)}.items():
        # Copied, so that freezing it does not freeze the caller's array.
        given = np.asarray(getattr(record, column))
        if not np.can_cast(given.dtype, kind, "same_kind"):
            raise TypeError(f"{column} must hold {np.dtype(kind).name}, not {given.dtype}")
        values = given.astype(kind)
        if values.shape != (rows,):
            raise ValueError(f"{column} must have shape ({rows},) like name, not {values.shape}")
        values.setflags(write=False)
        force_setattr(record, column, values)
    for column in integers:
        values = getattr(record, column)
        if (values < 0).any():
            row = int((values < 0).argmax())
            raise ValueError(f"{column} must not be negative, not {values[row]} as in row {row}")


def _check_names(names: _Names) -> None:
    unique, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"name {str(unique[counts.argmax()])!r} is there twice")
