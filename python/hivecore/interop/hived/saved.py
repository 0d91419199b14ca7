"""The saved state of a `HivedScheduler`: configuration, cluster, groups and pods, as JSON."""

import json
from typing import Any

from msgspec import Struct, convert, to_builtins

from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore.cells import PodPlacement
from hivecore.interop.hived.placed_groups import PlacedGroup
from hivecore.interop.hived.pods import PodRequest

__all__ = ["SavedGroup", "SavedState", "decode", "encode"]

_MAGIC, _VERSION = b"HCHV", 2


class SavedGroup(Struct, frozen=True, array_like=True):
    """A `PlacedGroup`."""

    declared: PodRequest
    slots: list[tuple[int, list[PodPlacement], list[str | None]]]
    """Leaf cells per pod, the places, and the pod of each."""
    preempting: list[str] | None

    @classmethod
    def of(cls, group: PlacedGroup) -> "SavedGroup":
        """The record of a group."""
        slots = [(number, list(slots.places), slots.pods) for number, slots in group.slots.items()]
        waiting = None if group.preempting is None else list(group.preempting)
        return cls(group.declared, slots, waiting)

    def restored(self) -> PlacedGroup:
        """The group of a record."""
        places = {number: placed for number, placed, _ in self.slots}
        group = PlacedGroup(self.declared, self.declared.as_group(), places)
        for number, placed, pods in self.slots:
            if len(pods) != len(placed):
                raise ValueError(f"group {group.name!r} has more pods than slots")
            group.slots[number].pods = pods
        group.bound = len(group.pods())
        if self.preempting is not None:
            group.preempting = dict.fromkeys(self.preempting)
        return group


class SavedState(Struct, frozen=True):
    """The parts of a scheduler."""

    config: dict[str, Any]
    """The configuration as `HivedConfig.read` takes it; a text would be the path of a file."""
    chains: list[str]
    """The order of the chains."""
    initially_healthy: bool
    reported: dict[str, bool]
    """Node -> its health as last reported."""
    cluster: bytes
    gangs: list[SavedGroup]

    @property
    def groups(self) -> dict[str, PlacedGroup]:
        """The groups by name."""
        return {saved.declared.gang: saved.restored() for saved in self.gangs}


def encode(state: SavedState) -> bytes:
    """The state as bytes."""
    return seal(_MAGIC, _VERSION, json.dumps(to_builtins(state), separators=(",", ":")).encode())


def decode(data: object) -> SavedState:
    """The state of such bytes; raises `CorruptStateError` where they are not."""
    text = unseal(_MAGIC, _VERSION, data)
    with corrupt_if_it_fails():
        return convert(json.loads(text), SavedState)
