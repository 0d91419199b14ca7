"""HiveD's inspect API: the trees of physical and virtual cells, and the groups, as plain data.

Everything is derived from facts of the cluster: who uses and who has reserved each leaf cell,
which physical cell each virtual one is bound to, and which nodes are bad. `cell_looks` turns them
into arrays, and here each cell becomes one mapping.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hivecore.cells import CellCluster, ClusterSpec, GroupStatus, VirtualTree
from hivecore.gangs import Gang
from hivecore.interop.hived.cell_looks import (
    FREE,
    NOBODY,
    OPPORTUNISTIC,
    RESERVED,
    RESERVING,
    USED,
    Looks,
)
from hivecore.interop.hived.configuration.config import HivedConfig

__all__ = ["Inspector", "describe"]

_Cell = dict[str, Any]
_STATES = ("Free", "Used", "Reserving", "Reserved")
_HEALTH = ("Healthy", "Bad")


class _Pool(NamedTuple):
    """Addresses of a tenant's equal cells, per level, and the place of each root in its list."""

    places: list[int]
    names: list[list[str]]


class Inspector:
    """Draws the clusters of one configuration; keeps the addresses of its cells."""

    def __init__(self, config: HivedConfig, spec: ClusterSpec) -> None:
        self._config = config
        self._spec = spec
        self._chains: dict[str, list[list[str]]] = {}
        self._pools: dict[tuple[str, str, str, str | None], _Pool] = {}

    # --- the cells

    def trees(
        self, cluster: CellCluster, gangs: Mapping[str, Gang]
    ) -> tuple[list[_Cell], dict[str, list[_Cell]]]:
        """The physical trees, chain by chain, and the virtual trees of every virtual cluster.

        Opportunistic leaf cells follow after the trees of their virtual cluster.
        """
        owned = {vc: cluster.virtual_trees(vc) for vc in self._spec.virtual_clusters}
        doomed = cluster.doomed()
        bad_nodes = set(cluster.bad_nodes())
        clusters: dict[str, list[_Cell]] = {
            vc: [{}] * sum(tree.roots for tree in trees) for vc, trees in owned.items()
        }
        opportunistic: dict[str, list[_Cell]] = {}
        roots: list[_Cell] = []
        for chain, shape in self._spec.chains.items():
            trees = [(vc, tree) for vc in owned for tree in owned[vc] if tree.chain == chain]
            holders, looks = self._look(cluster, gangs, chain, [t for _, t in trees], bad_nodes)
            rows = self._draw(chain, self._chain_names(chain), looks)
            for vc, tree in trees:
                lost = doomed.get(vc, {}).get(chain, {}).get(tree.level, 0)
                seen = looks.seen_through(
                    shape.fanouts,
                    [tree.bindings[level] for level in shape.levels[: len(tree.bindings)]],
                    lost,
                )
                self._draw_virtual(vc, tree, seen, rows, clusters[vc])
            for leaf in np.flatnonzero(looks.priorities[0] == OPPORTUNISTIC).tolist():
                vc = gangs[holders[leaf]].declared.virtual_cluster
                cell = rows[0][leaf]
                shallow = cell.copy()
                shallow.pop("vc", None)  # a pinned leaf cell has a partner, used or not
                shallow.pop("virtualCell", None)
                cell["vc"] = vc
                drawn = {**shallow, "cellAddress": f"{cell['cellAddress']}-opp"}
                opportunistic.setdefault(vc, []).append({**drawn, "physicalCell": shallow})
            roots += _plant(rows, shape.fanouts)
        for vc, cells in opportunistic.items():
            clusters.setdefault(vc, []).extend(cells)
        return roots, clusters

    def _look(
        self,
        cluster: CellCluster,
        gangs: Mapping[str, Gang],
        chain: str,
        trees: Iterable[VirtualTree],
        bad_nodes: set[str],
    ) -> tuple[list[Any], Looks]:
        """Who holds each leaf cell of a chain, and what its cells look like."""
        shape = self._spec.chains[chain]
        users, reservers = cluster.leaf_groups(chain)
        holders = _holders(users, reservers)
        priority: dict[str | None, int] = {
            name: gang.declared.priority for name, gang in gangs.items()
        }
        priorities = np.array([priority.get(name, NOBODY) for name in holders], np.int64)
        opportunistic = priorities != NOBODY
        for tree in trees:
            leaves = tree.bindings[shape.levels[0]]
            opportunistic[leaves[leaves >= 0]] = False
        priorities[opportunistic] = OPPORTUNISTIC
        used, reserved = (
            np.array([name is not None for name in names]) for names in (users, reservers)
        )
        states = np.select([used & reserved, used, reserved], [RESERVING, USED, RESERVED], FREE)
        nodes = np.array([node in bad_nodes for node in shape.nodes or ()], np.int64)
        bad = nodes.repeat(shape.leaves // len(nodes))
        return holders, Looks.of_leaves(shape.fanouts, states, priorities, bad)

    def _draw(self, chain: str, names: list[list[str]], looks: Looks) -> list[list[_Cell]]:
        """The cells of each level, without children."""
        shape = self._spec.chains[chain]
        rows = []
        for row, addresses in enumerate(names):
            kind = shape.levels[row]
            cells: list[_Cell] = [
                {
                    "cellType": kind,
                    "cellAddress": address,
                    "cellState": _STATES[state],
                    "cellHealthiness": _HEALTH[bad],
                    "cellPriority": priority,
                }
                for address, state, bad, priority in zip(
                    addresses,
                    looks.states[row].tolist(),
                    looks.bad[row].tolist(),
                    looks.priorities[row].tolist(),
                    strict=True,
                )
            ]
            if kind == shape.node_level:
                for cell in cells:
                    cell["isNodeLevel"] = True
            rows.append(cells)
        for cell in rows[-1]:
            cell["leafCellType"] = shape.levels[0]
        return rows

    def _draw_virtual(
        self,
        vc: str,
        tree: VirtualTree,
        looks: Looks,
        physical: list[list[_Cell]],
        cluster: list[_Cell],
    ) -> None:
        """Draw a tenant's equal cells, beside the physical ones that they are bound to."""
        shape = self._spec.chains[tree.chain]
        pool = self._pool(vc, tree)
        rows = self._draw(tree.chain, pool.names, looks)
        for row, cells in enumerate(rows):
            others = physical[row]
            bindings = tree.bindings[shape.levels[row]]
            bound = np.flatnonzero(bindings >= 0)
            for virtual, partner in zip(bound.tolist(), bindings[bound].tolist(), strict=True):
                mine, other = cells[virtual], others[partner]
                shallow = other.copy()
                other["vc"] = vc
                other["virtualCell"] = mine.copy()
                mine["physicalCell"] = shallow
        for place, root in zip(pool.places, _plant(rows, shape.fanouts), strict=True):
            cluster[place] = root

    # --- the groups

    def groups(self, cluster: CellCluster, gangs: Mapping[str, Gang]) -> list[_Cell]:
        """The status of these gangs, in the order of the cluster's groups."""
        virtual = self._virtual_leaves(cluster)
        return [
            {
                "metadata": {"name": name},
                "status": _group(gangs[name], cluster.group(name), virtual.get(name)),
            }
            for name in cluster.groups()
            if name in gangs
        ]

    def _virtual_leaves(self, cluster: CellCluster) -> dict[str, dict[str, list[str]]]:
        """Group -> address of a preassigned cell -> addresses of the leaf cells that it holds."""
        found: dict[str, dict[str, list[str]]] = {}
        holders = {chain: _holders(*cluster.leaf_groups(chain)) for chain in self._spec.chains}
        for vc in self._spec.virtual_clusters:
            for tree in cluster.virtual_trees(vc):
                names = self._pool(vc, tree).names
                leaves = tree.bindings[self._spec.chains[tree.chain].levels[0]]
                per_root = len(leaves) // tree.roots
                held = np.flatnonzero(leaves >= 0)
                for virtual, leaf in zip(held.tolist(), leaves[held].tolist(), strict=True):
                    name = holders[tree.chain][leaf]
                    if name is not None:
                        cells = found.setdefault(name, {})
                        root = names[-1][virtual // per_root]
                        cells.setdefault(root, []).append(names[0][virtual])
        return found

    # --- addresses

    def _chain_names(self, chain: str) -> list[list[str]]:
        names = self._chains.get(chain)
        if names is None:
            levels = self._spec.chains[chain].levels
            names = [self._config.addresses(chain, level) for level in levels]
            self._chains[chain] = names
        return names

    def _pool(self, vc: str, tree: VirtualTree) -> _Pool:
        key = vc, tree.chain, tree.level, tree.pin
        pool = self._pools.get(key)
        if pool is None:
            places = [0] * tree.roots
            for place, (*kind, root) in enumerate(self._config.preassigned(vc)):
                if kind == list(key[1:]):
                    places[root] = place
            names = [[f"{vc}/{place}" for place in places]]
            per_root = 1
            for fanout in self._spec.chains[tree.chain].fanouts[: len(tree.bindings) - 1][::-1]:
                per_root *= fanout
                ranks = [str(rank) for rank in range(per_root)] * tree.roots
                parents = names[-1]
                names.append([f"{parents[i // fanout]}/{rank}" for i, rank in enumerate(ranks)])
            pool = self._pools[key] = _Pool(places, names[::-1])
        return pool


def _holders(users: list[str | None], reservers: list[str | None]) -> list[str | None]:
    """The group that each leaf is booked for: the one to come, if there is one."""
    return [
        user if reserver is None else reserver
        for user, reserver in zip(users, reservers, strict=True)
    ]


def _plant(rows: list[list[_Cell]], fanouts: Sequence[int]) -> list[_Cell]:
    """Hang each level's cells into those of the next; the roots."""
    for cells, parents, fanout in zip(rows, rows[1:], fanouts, strict=False):
        for first, parent in zip(range(0, len(cells), fanout), parents, strict=True):
            parent["cellChildren"] = cells[first : first + fanout]
    return rows[-1]


def describe(gang: Gang, status: GroupStatus) -> dict[str, Any]:
    """A group in the words of this library."""
    return {
        "name": gang.name,
        "virtual_cluster": gang.declared.virtual_cluster,
        "priority": gang.declared.priority,
        "state": status.state,
        "guaranteed": status.guaranteed,
        "lazy_preempted_by": status.lazy_preempted_by,
        "placements": [
            {
                "leaf_cell_number": role.name,
                "pods": [
                    {"node": slot.node, "leaf_cells": list(slot.leaf_indices), "pod": pod}
                    for slot, pod in zip(role.slots, role.pods, strict=True)
                ],
            }
            for role in gang.roles.values()
        ],
        "allocated_pods": gang.pods(),
        "preempting_pods": sorted(gang.preempting or ()),
    }


def _group(gang: Gang, status: GroupStatus, virtual: dict[str, list[str]] | None) -> dict[str, Any]:
    physical: dict[str, list[int]] = {}
    for slot, _ in gang.seats():
        physical.setdefault(slot.node, []).extend(slot.leaf_indices)
    drawn: dict[str, Any] = {
        "vc": gang.declared.virtual_cluster,
        "priority": gang.declared.priority,
        "state": status.state,
        "physicalPlacement": physical,
    }
    if status.guaranteed and virtual:
        drawn["virtualPlacement"] = virtual
    if gang.bound:
        drawn["allocatedPods"] = gang.pods()
    if gang.preempting:
        drawn["preemptingPods"] = sorted(gang.preempting)
    if status.lazy_preempted_by is not None:
        drawn["lazyPreemptionStatus"] = {"preemptor": status.lazy_preempted_by}
    return drawn
