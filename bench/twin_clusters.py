"""`CellCluster` over the pure-Python twin of its kernel, for comparison in the same calls."""

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from hivecore import _cells
from hivecore.cells import AffinityGroup
from hivecore.reference.cells import GroupScheduler


class NamedTwin:
    """As much of the kernel's `NamedGroups` as the calls below need, over the twin."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.live: dict[str, Any] = {}
        self.named: dict[int, str] = {}

    def book(self, group: AffinityGroup, plan: Any, reserve: bool) -> None:
        assert not (reserve or plan.cancels or plan.downgrades)
        handle = self.core.commit(plan, group.lazy_preemption)
        self.live[group.name] = SimpleNamespace(
            group=group, handle=handle, downgraded_by=None, record=None
        )
        self.named[handle] = group.name

    def release(self, name: str) -> None:
        handle = self.live.pop(name).handle
        self.core.release(handle)
        del self.named[handle]

    def names_of(self, handles: list[int]) -> tuple[str, ...]:
        return tuple(self.named[handle] for handle in handles)

    def copy(self) -> "NamedTwin":
        other = NamedTwin(self.core.copy())
        other.live, other.named = dict(self.live), dict(self.named)
        return other


def on_the_twin() -> AbstractContextManager[Any]:
    """Clusters that are made meanwhile run on the twin."""
    return patch.multiple(_cells, GroupScheduler=GroupScheduler, NamedGroups=NamedTwin)
