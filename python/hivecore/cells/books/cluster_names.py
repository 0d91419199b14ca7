"""Names and numbers of a `CellCluster`: chains, levels, nodes, leaves, tenants and their pools.

Leaves are numbered over all chains, in the order of the chains. A *pool* is what a tenant owns of
one level of one chain, or one pinned cell; pools are ordered by tenant, chain and level, pinned
cells come last in the order of the specification.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore._cells import NameTable, PodNames
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.pod_placement import PodPlacement

__all__ = ["ClusterNames", "Pool", "Suggested"]

#: Per chain the nodes that may be used, as int32; None: all of the chain.
Suggested = list[npt.NDArray[np.int32] | None]


class Pool(NamedTuple):
    """Equal owned cells of one tenant, or one pinned cell."""

    tenant: int
    chain: int
    level: int
    roots: int
    pin: str | None


class ClusterNames:
    """Translates between what users say and what the core counts."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.chains = tuple(spec.chains)
        shapes = tuple(spec.chains.values())
        self.levels = tuple(tuple(chain.levels) for chain in shapes)
        self.level_numbers = tuple({name: i for i, name in enumerate(row)} for row in self.levels)
        self.leaves_per_cell = tuple(chain.leaves_per_cell() for chain in shapes)
        self.node_levels = tuple(
            numbers[str(chain.node_level)]
            for chain, numbers in zip(shapes, self.level_numbers, strict=True)
        )
        self.per_node = tuple(
            leaves[level]
            for leaves, level in zip(self.leaves_per_cell, self.node_levels, strict=True)
        )
        self.smallest_node = min(self.per_node, default=0)
        self.leaf_indices = tuple(chain.leaf_indices for chain in shapes)
        self.offsets = tuple(accumulate((chain.leaves for chain in shapes), initial=0))
        self.node_names = tuple(
            tuple(chain.nodes)
            if chain.nodes is not None
            else tuple(f"{name}/{i}" for i in range(chain.leaves // per_node))
            for (name, chain), per_node in zip(spec.chains.items(), self.per_node, strict=True)
        )
        self.nodes: dict[str, tuple[tuple[int, int], ...]] = {}
        self._table: NameTable | None = None  # when first asked for, and so is:
        self._positions: list[npt.NDArray[np.int64]] | None = None
        self._collect_nodes()
        self.tenants = {name: i for i, name in enumerate(spec.virtual_clusters)}
        self.pools = self._pools()
        self.pins = {pool.pin: i for i, pool in enumerate(self.pools) if pool.pin is not None}
        self.pool_numbers = {
            (pool.tenant, pool.chain, pool.level): i
            for i, pool in enumerate(self.pools)
            if pool.pin is None
        }
        #: describes pods
        self.pods = PodNames(
            PodPlacement,
            self.chains,
            self.node_names,
            self.leaf_indices,
            tuple([self.levels[pool.chain][pool.level] for pool in self.pools]),
            self.offsets,
            self.per_node,
        )
        self.searches: dict[tuple[str | None, int], tuple[tuple[int, bool], ...]] = {}

    def _collect_nodes(self) -> None:
        shared: dict[str, list[tuple[int, int]]] = defaultdict(list)
        nodes = self.nodes
        for chain, names in enumerate(self.node_names):
            for index, name in enumerate(names):
                if name in nodes:
                    shared[name].append((chain, index))
                else:
                    nodes[name] = ((chain, index),)
        for name, places in shared.items():
            nodes[name] += tuple(places)
        torn = [
            name for name in shared if len({chain for chain, _ in nodes[name]}) < len(nodes[name])
        ]
        rows = [
            (name, [d for place in nodes[name] if place[0] == chain for d in self._devices(*place)])
            for name in torn
            for chain in {chain for chain, _ in nodes[name]}
        ]
        for chain, indices in enumerate(self.leaf_indices):
            rows += zip(self.node_names[chain], map(list, indices or ()), strict=False)
        for name, devices in rows:
            if len(set(devices)) != len(devices):
                raise ValueError(f"spec: node {name!r} has one leaf index twice in a chain")

    def _pools(self) -> tuple[Pool, ...]:
        owned = sorted(
            (tenant, self.chains.index(chain), level, count)
            for name, tenant in self.tenants.items()
            for chain, by_level in self.spec.virtual_clusters[name].items()
            for level, count in (
                (self.level_numbers[self.chains.index(chain)][level], count)
                for level, count in by_level.items()
            )
            if count > 0
        )
        pinned = [
            Pool(
                self.tenants[tenant],
                (number := self.chains.index(chain)),
                self.level_numbers[number][level],
                1,
                pin,
            )
            for tenant, pins in self.spec.pinned_cells.items()
            for pin, (chain, level, _) in pins.items()
        ]
        return tuple([Pool(*pool, None) for pool in owned] + pinned)

    def core_arguments(self) -> tuple[list[Any], int, list[Any], list[Any]]:
        """Chains, tenants, pools and pins as the core takes them."""
        chains = [
            (list(chain.fanouts), chain.roots, level)
            for chain, level in zip(self.spec.chains.values(), self.node_levels, strict=True)
        ]
        cells = {
            pin: index
            for pins in self.spec.pinned_cells.values()
            for pin, (_, _, index) in pins.items()
        }
        return (
            chains,
            # One tenant more: the owner of groups whose own tenant is gone.
            len(self.tenants) + 1,
            [pool[:4] for pool in self.pools if pool.pin is None],
            [(*pool[:3], cells[pool.pin]) for pool in self.pools if pool.pin is not None],
        )

    # --- leaves

    def _devices(self, chain: int, node: int) -> Sequence[int]:
        rows = self.leaf_indices[chain]
        return range(self.per_node[chain]) if rows is None else rows[node]

    def node_leaves(self, chain: int, node: int) -> range:
        """The leaves of a node, over all chains."""
        per_node = self.per_node[chain]
        first = self.offsets[chain] + node * per_node
        return range(first, first + per_node)

    def find_leaves(self, name: str, device: int) -> list[int]:
        """The leaves with this device index on a node; each of another chain."""
        leaves = []
        for place in self.nodes.get(name, ()):
            devices = self._devices(*place)
            if device in devices:
                leaves.append(self.node_leaves(*place)[devices.index(device)])
        return leaves

    def find_leaf(self, name: str, device: int, chain: str) -> int | None:
        """The one of this chain, else the first of another; None: there is none."""
        leaves = self.find_leaves(name, device)
        if len(leaves) > 1:
            leaves.sort(key=lambda leaf: self.chains[self.chain_of(leaf)] != chain)
        return leaves[0] if leaves else None

    def find_pod(self, pod: PodPlacement) -> list[int]:
        """The leaf of each of a pod's device indices; -1: there is none."""
        for chain, index in self.nodes.get(pod.node, ()):
            if self.chains[chain] == pod.chain and self.leaf_indices[chain] is None:
                per_node = self.per_node[chain]
                if all(0 <= device < per_node for device in pod.leaf_indices):
                    first = self.offsets[chain] + index * per_node
                    return [first + device for device in pod.leaf_indices]
        leaves = (self.find_leaf(pod.node, device, pod.chain) for device in pod.leaf_indices)
        return [-1 if leaf is None else leaf for leaf in leaves]

    def chain_of(self, leaf: int) -> int:
        """The chain of a leaf."""
        return bisect_right(self.offsets, leaf) - 1

    def place(self, leaf: int) -> tuple[str, int]:
        """The node of a leaf and its device index there."""
        chain = self.chain_of(leaf)
        node, position = divmod(leaf - self.offsets[chain], self.per_node[chain])
        rows = self.leaf_indices[chain]
        return self.node_names[chain][node], position if rows is None else rows[node][position]

    def describe_pods(self, pods: Any, virtual: Any) -> tuple[PodPlacement, ...]:
        """Names of pods' leaves, and of the tenant's cells by pool and leaf; None: no cells."""
        if virtual is None:
            return tuple([self.pods.of_pod(leaves, None) for leaves in pods])
        owned = ([pool for pool, _ in cells] for cells in virtual)
        return tuple(map(self.pods.of_pod, pods, owned))

    def pools_of(
        self, group: AffinityGroup, leaves: Sequence[int], preassigned: Sequence[str]
    ) -> list[int]:
        """The pool of each leaf by its owned cell's level; -1: there is none."""
        tenant = self.tenants.get(group.virtual_cluster, -1)
        pin = self.pins.get(group.pinned_cell or "", -1)
        pools = []
        end, chain = -1, 0
        for leaf, level in zip(leaves, preassigned, strict=True):
            if leaf >= end:  # leaves ascend
                chain = self.chain_of(leaf)
                end = self.offsets[chain + 1]
            if group.pinned_cell is None:
                row = self.level_numbers[chain].get(level, -1)
                pools.append(self.pool_numbers.get((tenant, chain, row), -1))
            else:
                is_pinned = pin >= 0 and self.pools[pin][:2] == (tenant, chain)
                pools.append(pin if is_pinned and level else -1)
        return pools

    # --- searches

    def search(self, leaf_type: str | None, tenant: int) -> tuple[tuple[int, bool], ...]:
        """The chains of a leaf type, and whether the tenant owns unpinned cells there."""
        owned = {pool.chain for pool in self.pools if pool.tenant == tenant and not pool.pin}
        numbers = tuple(
            (chain, chain in owned)
            for chain, levels in enumerate(self.levels)
            if leaf_type is None or levels[0] == leaf_type
        )
        if not numbers:
            known = sorted({levels[0] for levels in self.levels})
            raise KeyError(f"leaf_type={leaf_type!r}: known are {known}")
        self.searches[leaf_type, tenant] = numbers
        return numbers

    def by_chain(self, most: npt.ArrayLike) -> list[Any]:
        """Per chain how many pods each of its nodes may get, from int[nodes] of all nodes."""
        given = np.asarray(most)
        if given.dtype.kind not in "iu" and given.size:
            raise TypeError(f"most must hold integers, not {given.dtype}")
        if given.shape != (len(self.nodes),):
            raise ValueError(f"most must have shape {(len(self.nodes),)}, not {given.shape}")
        limits = np.clip(given, 0, 2**31 - 1).astype(np.int32)
        return [limits[positions] for positions in self._numbers()]

    def _numbers(self) -> list[npt.NDArray[np.int64]]:
        """Per chain the numbers of its nodes among all."""
        if self._positions is None:
            numbers = {name: i for i, name in enumerate(self.nodes)}
            self._positions = [
                np.array([numbers[name] for name in names], np.int64) for names in self.node_names
            ]
        return self._positions

    def suggested(self, nodes: tuple[str, ...] | bytes) -> Suggested:
        """Per chain its nodes of these names (see `NameTable.among`); others are ignored."""
        if self._table is None:
            self._table = NameTable(tuple(self.nodes))
        places = self._table.among(nodes)
        if places.all():  # as mostly
            return [None] * len(self.chains)
        chains = [places[numbers] for numbers in self._numbers()]
        return [None if of.all() else np.flatnonzero(of).astype(np.int32) for of in chains]
