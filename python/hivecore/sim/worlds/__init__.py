"""How fast jobs run, by what they share with others: to be given to `hivecore.sim.simulate`."""

from hivecore.sim.worlds.base import World
from hivecore.sim.worlds.interleaved import InterleavedGpus

__all__ = ["InterleavedGpus", "World"]
