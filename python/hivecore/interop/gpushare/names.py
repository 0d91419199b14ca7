"""gpushare's names of resources and annotations.

Source: gpushare-scheduler-extender, ``pkg/utils/const.go``.
"""

from typing import Literal

from hivecore._arguments import as_choice

__all__ = [
    "ASSIGNED",
    "ASSUME_TIME",
    "CARD_MEMORY",
    "GPU_COUNT",
    "GPU_MEM",
    "INDEX",
    "POD_MEMORY",
    "Unit",
    "bytes_of",
]

GPU_MEM = "aliyun.com/gpu-mem"
GPU_COUNT = "aliyun.com/gpu-count"

# Annotations of a pod that has a card.
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD_MEMORY = "ALIYUN_COM_GPU_MEM_DEV"
POD_MEMORY = "ALIYUN_COM_GPU_MEM_POD"
ASSIGNED = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUME_TIME = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"

#: The unit of ``aliyun.com/gpu-mem``, the same in the whole cluster.
Unit = Literal["MiB", "GiB"]
_BYTES = {"MiB": 2**20, "GiB": 2**30}


def bytes_of(unit: Unit) -> int:
    """Return the bytes of a unit.

    >>> bytes_of("MiB")
    1048576
    """
    return _BYTES[as_choice(unit, "unit", tuple(_BYTES))]
