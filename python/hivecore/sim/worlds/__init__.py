"""How fast jobs run, by what they share with others: to be given to `hivecore.sim.simulate`."""

from hivecore.sim.worlds.allotted_storage import AllottedStorage
from hivecore.sim.worlds.base import World
from hivecore.sim.worlds.interleaved import InterleavedGpus
from hivecore.sim.worlds.unmanaged_storage import UnmanagedStorage

__all__ = ["AllottedStorage", "InterleavedGpus", "UnmanagedStorage", "World"]
