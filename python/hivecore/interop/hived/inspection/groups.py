"""The groups as plain data: in HiveD's words, and in those of this library."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hivecore.cells import CellCluster, ClusterSpec, GroupStatus
from hivecore.interop.hived.inspection.forests import Atlas
from hivecore.interop.hived.placed_groups import PlacedGroup

__all__ = ["describe", "group_statuses"]


def group_statuses(
    atlas: Atlas, spec: ClusterSpec, cluster: CellCluster, groups: Mapping[str, PlacedGroup]
) -> list[dict[str, Any]]:
    """HiveD's status of these groups, in the order of the cluster's groups."""
    virtual = _virtual_leaves(atlas, spec, cluster)
    return [
        {
            "metadata": {"name": name},
            "status": _group(groups[name], cluster.group(name), virtual.get(name)),
        }
        for name in cluster.groups()
        if name in groups
    ]


def _virtual_leaves(
    atlas: Atlas, spec: ClusterSpec, cluster: CellCluster
) -> dict[str, dict[str, list[str]]]:
    """Group -> address of a preassigned cell -> addresses of the leaf cells that it holds."""
    placed: dict[str, dict[str, list[str]]] = {}
    holders = {chain: _holders(*cluster.leaf_groups(chain)) for chain in spec.chains}
    for vc in spec.virtual_clusters:
        for tree in cluster.virtual_trees(vc):
            own = atlas.owned[vc][tree.chain, tree.level, tree.pin]
            leaves = tree.bindings[own.levels[0]]
            per_root = own.cells[0] // tree.roots
            held = np.flatnonzero(leaves >= 0)
            for virtual, leaf in zip(held.tolist(), leaves[held].tolist(), strict=True):
                name = holders[tree.chain][leaf]
                if name is not None:
                    cells = placed.setdefault(name, {})
                    root = atlas.addresses[own.first[-1] + virtual // per_root]
                    cells.setdefault(root, []).append(atlas.addresses[own.first[0] + virtual])
    return placed


def _holders(users: list[str | None], reservers: list[str | None]) -> list[str | None]:
    """The group that each leaf is booked for: the one to come, if there is one."""
    return [
        user if reserver is None else reserver
        for user, reserver in zip(users, reservers, strict=True)
    ]


def describe(group: PlacedGroup, status: GroupStatus) -> dict[str, Any]:
    """A group in the words of this library."""
    return {
        "name": group.name,
        "virtual_cluster": group.declared.virtual_cluster,
        "priority": group.declared.priority,
        "state": status.state,
        "guaranteed": status.guaranteed,
        "lazy_preempted_by": status.lazy_preempted_by,
        "placements": [
            {
                "leaf_cell_number": slots.leaf_number,
                "pods": [
                    {"node": place.node, "leaf_cells": list(place.leaf_indices), "pod": pod}
                    for place, pod in zip(slots.places, slots.pods, strict=True)
                ],
            }
            for slots in group.slots.values()
        ],
        "allocated_pods": group.pods(),
        "preempting_pods": sorted(group.preempting or ()),
    }


def _group(
    group: PlacedGroup, status: GroupStatus, virtual: dict[str, list[str]] | None
) -> dict[str, Any]:
    physical: dict[str, list[int]] = {}
    for place, _ in group.taken():
        physical.setdefault(place.node, []).extend(place.leaf_indices)
    drawn: dict[str, Any] = {
        "vc": group.declared.virtual_cluster,
        "priority": group.declared.priority,
        "state": status.state,
        "physicalPlacement": physical,
    }
    if status.guaranteed and virtual:
        drawn["virtualPlacement"] = virtual
    if group.bound:
        drawn["allocatedPods"] = group.pods()
    if group.preempting:
        drawn["preemptingPods"] = sorted(group.preempting)
    if status.lazy_preempted_by is not None:
        drawn["lazyPreemptionStatus"] = {"preemptor": status.lazy_preempted_by}
    return drawn
