"""The speeds of jobs, by what they share with others, for `hivecore.sim.simulate`."""

from hivecore.sim.worlds.base import World
from hivecore.sim.worlds.interleaved import InterleavedGpus

__all__ = ["InterleavedGpus", "World"]
