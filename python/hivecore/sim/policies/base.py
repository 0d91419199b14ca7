"""What the event loop asks of a policy: start a job if it can start now, and take it back.

A policy decides on one job at a time and never looks at queues or at the clock; the loop owns both.
"""

from typing import Protocol

__all__ = ["Policy"]


class Policy(Protocol):
    """A way to share the cluster, bound to one workload; jobs are the workload's rows."""

    #: Whether a job that ends can make room for another tenant's job.
    shared: bool

    def try_start(self, job: int) -> bool:
        """Start the job, or return False if it cannot start now and nothing has changed."""

    def finish(self, job: int) -> None:
        """Give the cells of a running job back."""

    def free_gpus(self) -> tuple[int, int]:
        """Return how many GPUs are free, and how many of these are not in wholly free nodes."""
