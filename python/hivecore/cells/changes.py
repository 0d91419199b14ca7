"""The status of live groups, and its changes by a restart or a reconfiguration."""

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
    """Whether it holds cells of its tenant; if not, it was requested or made opportunistic."""
    lazy_preempted_by: str | None
    """The group that it was downgraded for; its own name: its cells no longer exist."""
    placement: tuple[PodPlacement, ...]
    victims: tuple[str, ...]
    """Groups that still use leaves that this group has reserved."""


class Recovery(Record, frozen=True):
    """The state of a recovered group."""

    downgraded: bool
    """Whether it runs as an opportunistic group, because its cells are not available."""
    displaced: tuple[str, ...]
    """Less important groups that were made opportunistic for it."""
    lost: tuple[tuple[str, int], ...]
    """The (node, leaf index) pairs that no longer exist; it keeps the others."""


class Reconfiguration(Record, frozen=True):
    """What a new specification changed for live groups."""

    downgraded: tuple[str, ...]
    """Groups that run on as opportunistic groups, in the order of their commits."""
    lost: dict[str, tuple[tuple[str, int], ...]]
    """By group the (node, leaf index) pairs that no longer exist."""
    cancelled: tuple[str, ...]
    """Preempting groups whose reservations were cancelled."""
    promoted: tuple[str, ...]
    """Groups that hold cells of their tenant again, in the order of their commits."""
