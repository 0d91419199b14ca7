"""What becomes of live groups, in a restart and in a reconfiguration too."""

from typing import Literal

from hivecore._record import Record
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.pod_placement import PodPlacement

__all__ = ["GroupStatus", "Reconfiguration", "Recovery"]


class GroupStatus(Record, frozen=True):
    """A live group of a `CellCluster`."""

    group: AffinityGroup
    state: Literal["Allocated", "Preempting", "BeingPreempted"]
    """BeingPreempted: allocated, and a preempting group has reserved some of its leaves."""
    guaranteed: bool
    """Whether it holds cells of its tenant; else it is opportunistic, asked or by downgrade."""
    lazy_preempted_by: str | None
    """The group for which it was made opportunistic; its own name: its cells are gone."""
    placement: tuple[PodPlacement, ...]
    victims: tuple[str, ...]
    """Groups that are still on leaves which this one has reserved."""


class Recovery(Record, frozen=True):
    """What became of a recovered group."""

    downgraded: bool
    """It runs on, but opportunistically: its cells cannot be had."""
    displaced: tuple[str, ...]
    """Less important groups that were made opportunistic for it."""
    lost: tuple[tuple[str, int], ...]
    """(node, leaf index) that no longer exist; the rest is kept."""


class Reconfiguration(Record, frozen=True):
    """What a new specification has changed for the live groups."""

    downgraded: tuple[str, ...]
    """Groups that run on, but opportunistically, in the order of their commits."""
    lost: dict[str, tuple[tuple[str, int], ...]]
    """Group -> (node, leaf index) that no longer exist."""
    cancelled: tuple[str, ...]
    """Groups that were preempting others: their reservations are gone."""
    promoted: tuple[str, ...]
    """Groups that have the cells of their tenant back, in the order of their commits."""
