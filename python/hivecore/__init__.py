"""The scheduling core that other GPU-cluster schedulers embed.

Its parts are loaded when they are first used:

>>> import hivecore
>>> hivecore.cells.BuddyAllocator([2, 2], roots=1).levels
3
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from hivecore.errors import HivecoreError

__version__ = "0.1.0"

__all__ = ["HivecoreError", "__version__"]

_PARTS = (
    "caching",
    "cells",
    "decisions",
    "gangs",
    "interleaving",
    "interop",
    "matching",
    "reference",
    "replicas",
    "sim",
    "storage",
    "traces",
)

if TYPE_CHECKING:
    from hivecore import caching as caching
    from hivecore import cells as cells
    from hivecore import decisions as decisions
    from hivecore import gangs as gangs
    from hivecore import interleaving as interleaving
    from hivecore import interop as interop
    from hivecore import matching as matching
    from hivecore import reference as reference
    from hivecore import replicas as replicas
    from hivecore import sim as sim
    from hivecore import storage as storage
    from hivecore import traces as traces
else:

    def __getattr__(name):
        if name in _PARTS:
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS, *(name for name in globals() if name.startswith("_"))})
