"""Twin of the simulator's kernel, in plain Python."""

from hivecore.reference.sim.fluid_clock import FluidClock

__all__ = ["FluidClock"]
