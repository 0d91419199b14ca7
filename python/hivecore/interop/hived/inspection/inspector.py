"""What is asked of one configuration's clusters; its atlas is made when something is asked."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from hivecore._stateful import Branching
from hivecore.cells import CellCluster, ClusterSpec
from hivecore.interop.hived.configuration.config import HivedConfig
from hivecore.interop.hived.inspection import plain
from hivecore.interop.hived.inspection.forests import Atlas
from hivecore.interop.hived.inspection.groups import group_statuses
from hivecore.interop.hived.inspection.scene import Scene, scene_of
from hivecore.interop.hived.inspection.text import StatusText
from hivecore.interop.hived.placed_groups import PlacedGroup

__all__ = ["Inspector"]

_T = TypeVar("_T")


class Inspector(Branching):
    """Draws the clusters of one configuration. Any number of threads may use it at once."""

    def __init__(self, config: HivedConfig, spec: ClusterSpec) -> None:
        self._config = config
        self._spec = spec
        self._atlas: Atlas | None = None
        self._text: StatusText | None = None
        self._lock = threading.Lock()

    def copy(self) -> Self:
        """Another one that has drawn nothing yet."""
        other = type(self)(self._config, self._spec)
        other._atlas = self._atlas
        return other

    def trees(
        self, cluster: CellCluster, placed: Mapping[str, PlacedGroup]
    ) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
        """The physical trees, and the trees of every virtual cluster."""
        atlas = self._read()
        return plain.draw(atlas, self._scene(atlas, cluster, placed))

    def groups(
        self, cluster: CellCluster, placed: Mapping[str, PlacedGroup]
    ) -> list[dict[str, Any]]:
        """The status of these groups, in the order of the cluster's groups."""
        return group_statuses(self._read(), self._spec, cluster, placed)

    def write(
        self,
        cluster: CellCluster,
        placed: Mapping[str, PlacedGroup],
        part: Callable[[StatusText, Scene], _T],
    ) -> _T:
        """A part of the trees as JSON. Pieces are kept, so that the next time is faster."""
        atlas = self._read()
        scene = self._scene(atlas, cluster, placed)
        with self._lock:
            if self._text is None:
                self._text = StatusText(atlas)
            return part(self._text, scene)

    def _read(self) -> Atlas:
        """The cells of the configuration; one object for all threads."""
        with self._lock:
            if self._atlas is None:
                self._atlas = Atlas(self._config, self._spec)
            return self._atlas

    def _scene(
        self, atlas: Atlas, cluster: CellCluster, placed: Mapping[str, PlacedGroup]
    ) -> Scene:
        return scene_of(atlas, self._spec, cluster, placed)
