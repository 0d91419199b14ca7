"""What a scheduler of HiveD's pods knows, and how it looks to users."""

import threading
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, Self

from hivecore._arguments import as_bool, as_text
from hivecore._sealed import corrupt_if_it_fails
from hivecore._stateful import Stateful
from hivecore.cells import CellCluster, ClusterSpec, NodeSet
from hivecore.cells.affinity_group import Evictions
from hivecore.errors import CorruptStateError
from hivecore.interop.hived import catalog, saved
from hivecore.interop.hived.configuration.config import HivedConfig
from hivecore.interop.hived.inspection.groups import describe
from hivecore.interop.hived.inspection.inspector import Inspector
from hivecore.interop.hived.inspection.text import StatusText
from hivecore.interop.hived.placed_groups import PlacedGroup, PlacedGroups
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import RequestError

__all__ = ["HivedLedger"]

_PARTS = {
    None: StatusText.status,
    "physical": StatusText.physical_cluster,
    "virtual": StatusText.virtual_clusters,
}


class HivedLedger(Stateful):
    """The part of a `HivedScheduler` that decides nothing: what there is, and saved states."""

    def __init__(
        self,
        config: Any,
        chain_order: Iterable[str] | None = None,
        *,
        initially_healthy: bool = True,
        evictions: Evictions = "packing",
    ) -> None:
        self._initially_healthy = as_bool(initially_healthy, "initially_healthy")
        self._config, spec = catalog.read(config, chain_order)
        self._cluster = CellCluster(spec, evictions=evictions)
        self._groups = PlacedGroups(self._cluster)
        self._reported: dict[str, bool] = {}
        self._lock = threading.RLock()
        #: nodes that are offered again and again
        self._offered: NodeSet | None = None
        self._ends: tuple[str, ...] = ()
        self._take_up(spec)

    def _take_up(self, spec: ClusterSpec) -> None:
        """Derive what follows from the configuration, and tell the cluster of its nodes."""
        self._spec = spec
        self._catalog = catalog.Catalog(spec)
        self._inspector = Inspector(self._config, spec)
        for node in self._catalog.nodes:
            if not self._reported.get(node, self._initially_healthy):
                self._cluster.set_health(node, False)

    @property
    def config(self) -> HivedConfig:
        """The configuration in force."""
        with self._lock:
            return self._config

    @property
    def initially_healthy(self) -> bool:
        """Whether nodes are healthy before ``set_node`` says so."""
        with self._lock:
            return self._initially_healthy

    @property
    def given_up(self) -> int:
        """How often reservations were given up: other groups may have their cells."""
        with self._lock:
            return self._groups.given_up

    # --- what there is

    def leaf_cells_by_node(self) -> dict[str, int]:
        """How many leaf cells the configuration has on each node."""
        with self._lock:
            return dict(self._catalog.nodes)

    def is_live(self, name: str) -> bool:
        """Whether a group of this name is allocated or preempting."""
        with self._lock:
            return name in self._groups.live

    def pods(self) -> list[str]:
        """The pods that are bound, and then those that ask for a preemption, by identity."""
        with self._lock:
            return [*self._groups.seats, *self._groups.waiting]

    def used_leaf_cells(self) -> dict[str, tuple[int, int]]:
        """Virtual cluster -> leaf cells in use with a guarantee, and without; O(pods).

        What preempting groups have reserved is not in use yet.
        """
        with self._lock:
            totals = dict.fromkeys(self._spec.virtual_clusters, (0, 0))
            for name, group in self._groups.live.items():
                if group.preempting is None:
                    vc = group.declared.virtual_cluster
                    sure, unsure = totals.get(vc, (0, 0))
                    leaves = sum(len(place.leaf_indices) for place, _ in group.taken())
                    if self._cluster.group(name).guaranteed:
                        totals[vc] = sure + leaves, unsure
                    else:
                        totals[vc] = sure, unsure + leaves
            return totals

    def affinity_group(self, name: str) -> dict[str, Any] | None:
        """A live group, or ``None``.

        Its keys: name, virtual_cluster, priority, state ("Allocated", "Preempting" or
        "BeingPreempted"), guaranteed (whether it holds virtual cells), lazy_preempted_by (the group
        for which it lost them, itself if they are gone; or ``None``), placements (as
        ``PodDecision.group``, and the pod of each slot or ``None``), allocated_pods and
        preempting_pods (sorted).

        :raises TypeError: ``name`` is not a string.
        """
        name = as_text(name, "name")
        with self._lock:
            group = self._groups.live.get(name)
            return None if group is None else describe(group, self._cluster.group(name))

    def free_cells(self) -> dict[str, dict[str, list[str]]]:
        """Chain -> cell type -> addresses of the cells that are free as wholes.

        Free means not given to a virtual cell; opportunistic pods may be on them. Cells inside a
        listed one are not listed.
        """
        with self._lock:
            return {
                chain: {
                    level: [self._config.address(chain, level, int(i)) for i in cells]
                    for level, cells in levels.items()
                }
                for chain, levels in self._cluster.free_cells().items()
            }

    def unused_cells(self) -> dict[str, dict[str, dict[str, int]]]:
        """Virtual cluster -> chain -> cell type -> how many of its cells are not in use.

        These are whole preassigned cells without a physical one; pinned cells do not count.
        """
        with self._lock:
            return self._cluster.unused_cells()

    def status(self) -> dict[str, Any]:
        """HiveD's cluster status: every physical and virtual cell, as plain data for JSON.

        As all that shows cells, it looks at a snapshot: only while that is taken, others wait.
        """
        physical, virtual = self._trees()
        return {"physicalCluster": physical, "virtualClusters": virtual}

    def physical_cluster(self) -> list[dict[str, Any]]:
        """The physical part of ``status()``: the trees of all chains."""
        return self._trees()[0]

    def virtual_clusters(self) -> dict[str, list[dict[str, Any]]]:
        """The virtual part of ``status()``: virtual cluster -> its trees."""
        return self._trees()[1]

    def virtual_cluster(self, name: str) -> list[dict[str, Any]]:
        """The trees of one virtual cluster; raises `RequestError` where there is none."""
        name = as_text(name, "name")
        trees = self.virtual_clusters()
        if name not in trees:
            raise _unknown(name, trees)
        return trees[name]

    def status_json(self, part: Literal["physical", "virtual"] | None = None) -> bytes:
        """The JSON of ``status()`` as bytes, much faster, the more so when it is asked again.

        :param part: ``None``: all; "physical": that of ``physical_cluster()``; "virtual": that of
            ``virtual_clusters()``.
        :raises ValueError: ``part`` is none of these.

        What is drawn is kept for the next call, and only subtrees that have changed since are drawn
        again: O(cells) with a small factor. That takes about a kilobyte per leaf cell, which copies
        of the scheduler do not share. ASCII only; the order of an object's members may change.

        >>> from hivecore.interop.hived import HivedScheduler
        >>> node = {"childCellType": "GPU", "childCellNumber": 1, "isNodeLevel": True}
        >>> scheduler = HivedScheduler({
        ...     "physicalCluster": {
        ...         "cellTypes": {"NODE": node},
        ...         "physicalCells": [{"cellType": "NODE", "cellAddress": "n0"}],
        ...     },
        ...     "virtualClusters": {"A": {"virtualCells": []}},
        ... })
        >>> scheduler.status_json("virtual")
        b'{"A":[]}'
        """
        wanted: Any = part
        if not isinstance(wanted, str | None) or wanted not in _PARTS:
            raise ValueError(f"part={show(wanted)}: allowed are {list(_PARTS)}")
        inspector, cluster, groups = self._snapshot()
        return inspector.write(cluster, groups, _PARTS[wanted])

    def virtual_cluster_json(self, name: str) -> bytes:
        """The JSON of ``virtual_cluster(name)`` as bytes, with what ``status_json`` keeps.

        :raises RequestError: there is no such virtual cluster.
        :raises TypeError: ``name`` is not a string.
        """
        name = as_text(name, "name")
        inspector, cluster, groups = self._snapshot()
        trees = inspector.write(cluster, groups, partial(StatusText.virtual_cluster, name=name))
        if trees is None:
            raise _unknown(name, cluster.spec.virtual_clusters)
        return trees

    def _trees(self) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
        inspector, cluster, groups = self._snapshot()
        return inspector.trees(cluster, groups)

    def _snapshot(self) -> tuple[Inspector, CellCluster, dict[str, PlacedGroup]]:
        """A state to draw that does not change; of groups only what they have declared."""
        with self._lock:
            return self._inspector, self._cluster.copy(), dict(self._groups.live)

    def affinity_groups(self) -> dict[str, Any]:
        """HiveD's list of all groups: ``{"items": [...]}`` in the order of their commits."""
        with self._lock:
            return {"items": self._inspector.groups(self._cluster, self._groups.live)}

    def affinity_group_status(self, name: str) -> dict[str, Any] | None:
        """HiveD's status of one group, or ``None``."""
        name = as_text(name, "name")
        with self._lock:
            group = self._groups.live.get(name)
            if group is None:
                return None
            return self._inspector.groups(self._cluster, {name: group})[0]

    # --- state

    def copy(self) -> Self:
        """An independent what-if branch. Decisions that are not allocated are left behind."""
        with self._lock:
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__)
            other._reported = dict(self._reported)
            other._lock = threading.RLock()
            other._groups = self._groups.copy()
            other._cluster = other._groups.cluster
            other._inspector = self._inspector.copy()
            return other

    def to_bytes(self) -> bytes:
        """Configuration, groups, pods and health as bytes, for ``from_bytes``.

        Decisions that are not allocated are left out.
        """
        with self._lock:
            return saved.encode(
                saved.SavedState(
                    self._config.document,
                    list(self._spec.chains),
                    self._initially_healthy,
                    self._reported,
                    self._cluster.to_bytes(),
                    [saved.SavedGroup.of(group) for group in self._groups.live.values()],
                )
            )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The scheduler whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        state = saved.decode(data)
        with corrupt_if_it_fails():
            scheduler = cls(state.config, state.chains, initially_healthy=state.initially_healthy)
            cluster = CellCluster.from_bytes(state.cluster)
            spec = cluster.spec
            if spec != scheduler._spec or list(spec.chains) != state.chains:
                raise CorruptStateError("data: the cluster is not that of the configuration")
            scheduler._cluster = cluster
            scheduler._reported = state.reported
            scheduler._groups = PlacedGroups(cluster, state.groups)
            scheduler.check()
        return scheduler

    def check(self) -> None:
        """Audit the cluster, and that groups and pods agree with it.

        :raises InvariantError: something is inconsistent. Cost: O(cells + pods).
        """
        with self._lock:
            self._cluster.check()
            self._groups.check()


def _unknown(virtual_cluster: str, known: Iterable[str]) -> RequestError:
    return RequestError(f"virtual cluster {virtual_cluster!r}: known are {sorted(known)}")
