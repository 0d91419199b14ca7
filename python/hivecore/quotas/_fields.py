"""The fields of a quota in the kernel, in its order."""

from enum import IntEnum

__all__ = ["Field"]


class Field(IntEnum):
    """See quotas/quota_tree.hpp."""

    MAX = 0
    MIN = 1
    WEIGHT = 2
    OWN_REQUEST = 3
    CHILD_REQUEST = 4
    LIMITED = 5
    OWN_USED = 6
    USED = 7
    OWN_FIRM = 8
    FIRM = 9
    ALLOCATED = 10
    SCALED_MIN = 11
    RUNTIME = 12
    REACH = 13
