"""What all cells look like at one moment, in numbers.

One row of four numbers per cell says all that is drawn of it beside what never changes:

    look      state, health and priority in one number, see `look_of`
    tenant    number of the virtual cluster that a physical cell is shown with, -1: of none
    partner   number of the cell that it is bound to, -1: it is not bound
    its look

Two trees with equal rows are drawn alike. Everything is derived from facts of the cluster: which
groups use and have reserved each leaf cell, what each virtual cell is bound to, and which nodes are
bad.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.cells import CellCluster, ClusterSpec, VirtualTree
from hivecore.interop.hived.inspection.forests import Atlas, Forest
from hivecore.interop.hived.inspection.looks import (
    FREE,
    NO_GROUP,
    OPPORTUNISTIC,
    RESERVED,
    RESERVING,
    USED,
    Looks,
    Numbers,
)
from hivecore.interop.hived.placed_groups import PlacedGroup

__all__ = [
    "LOOK",
    "PARTNER",
    "PARTNER_LOOK",
    "TENANT",
    "Rows",
    "Scene",
    "look_of",
    "scene_of",
    "strays",
]

Rows = npt.NDArray[np.int32]

LOOK, TENANT, PARTNER, PARTNER_LOOK = range(4)

_STATES = ("Free", "Used", "Reserving", "Reserved")
_HEALTH = ("Healthy", "Bad")


@cache
def look_of(number: int) -> Mapping[str, Any]:
    """State, health and priority that the number of a look stands for."""
    above, bad = divmod(number, 2)
    priority, state = divmod(above, len(_STATES))
    return {
        "cellState": _STATES[state],
        "cellHealthiness": _HEALTH[bad],
        "cellPriority": priority + NO_GROUP,
    }


def _numbers(looks: Looks) -> list[Rows]:
    """The numbers of looks, per level."""
    return [
        (((priorities - NO_GROUP) * len(_STATES) + states) * 2 + bad).astype(np.int32)
        for states, priorities, bad in zip(*looks, strict=True)
    ]


class Scene(NamedTuple):
    """What is to be drawn."""

    tenants: tuple[str, ...]
    """The virtual clusters by number: those of the configuration, then others of live groups."""
    rows: dict[Forest, list[Rows]]
    """Per level, leaf cells first: an array of the shape (cells, 4)."""


def strays(leaves: Rows) -> npt.NDArray[np.intp]:
    """Those of a chain's leaf cells that opportunistic groups are on."""
    return np.flatnonzero(leaves[:, LOOK] // (2 * len(_STATES)) == OPPORTUNISTIC - NO_GROUP)


class _Groups:
    """The live groups by number, their place in the cluster: priorities and virtual clusters."""

    def __init__(
        self, cluster: CellCluster, placed: Mapping[str, PlacedGroup], tenants: Iterable[str]
    ) -> None:
        declared = [placed[name].declared for name in cluster.groups()]
        names = [request.virtual_cluster for request in declared]
        known = tuple(tenants)
        self.tenants = (*known, *sorted(set(names).difference(known)))
        place = {vc: i for i, vc in enumerate(self.tenants)}
        # The last entry is what the number -1 finds: no group.
        self.tenant = np.array([*map(place.__getitem__, names), -1], np.int32)
        self.priority = np.array([*(request.priority for request in declared), NO_GROUP], np.int64)


def scene_of(
    atlas: Atlas, spec: ClusterSpec, cluster: CellCluster, placed: Mapping[str, PlacedGroup]
) -> Scene:
    """What the cells of a cluster with these groups look like. O(cells)."""
    groups = _Groups(cluster, placed, spec.virtual_clusters)
    owned = {vc: cluster.virtual_trees(vc) for vc in spec.virtual_clusters}
    doomed, bad_nodes = cluster.doomed(), set(cluster.bad_nodes())
    scene = Scene(groups.tenants, {})
    for chain, forest in atlas.chains.items():
        trees = [(vc, tree) for vc in owned for tree in owned[vc] if tree.chain == chain]
        holders, looks = _look(cluster, groups, spec, chain, [t for _, t in trees], bad_nodes)
        physical = [_blank(numbers) for numbers in _numbers(looks)]
        for vc, tree in trees:
            own = atlas.owned[vc][chain, tree.level, tree.pin]
            bindings = [tree.bindings[level] for level in own.levels]
            lost = doomed.get(vc, {}).get(chain, {}).get(tree.level, 0)
            seen = looks.seen_through(spec.chains[chain].fanouts, bindings, lost)
            virtual = [_blank(numbers) for numbers in _numbers(seen)]
            for row, cells in enumerate(virtual):
                bound = np.flatnonzero(bindings[row] >= 0)
                partners = bindings[row][bound]
                others = physical[row]
                cells[bound, PARTNER] = forest.first[row] + partners
                cells[bound, PARTNER_LOOK] = others[partners, LOOK]
                others[partners, TENANT] = groups.tenants.index(vc)
                others[partners, PARTNER] = own.first[row] + bound
                others[partners, PARTNER_LOOK] = cells[bound, LOOK]
            scene.rows[own] = virtual
        which = strays(physical[0])
        physical[0][which, TENANT] = groups.tenant[holders[which]]
        scene.rows[forest] = physical
    return scene


def _blank(looks: Rows) -> Rows:
    """Rows of cells that are not bound."""
    rows = np.full((len(looks), 4), -1, np.int32)
    rows[:, LOOK] = looks
    return rows


def _look(
    cluster: CellCluster,
    groups: _Groups,
    spec: ClusterSpec,
    chain: str,
    trees: Iterable[VirtualTree],
    bad_nodes: set[str],
) -> tuple[Numbers, Looks]:
    """Which group each leaf cell of a chain is booked for, and what its cells look like."""
    shape = spec.chains[chain]
    users, reservers = cluster.leaf_group_numbers(chain)
    used, reserved = users >= 0, reservers >= 0
    holders = np.where(reserved, reservers, users)  # the one to come, if there is one
    priorities = groups.priority[holders]
    opportunistic = priorities != NO_GROUP
    for tree in trees:
        leaves = tree.bindings[shape.levels[0]]
        opportunistic[leaves[leaves >= 0]] = False
    priorities[opportunistic] = OPPORTUNISTIC
    states = np.select([used & reserved, used, reserved], [RESERVING, USED, RESERVED], FREE)
    nodes = np.array([node in bad_nodes for node in shape.nodes or ()], np.int64)
    bad = nodes.repeat(shape.leaves // len(nodes))
    return holders, Looks.of_leaves(shape.fanouts, states, priorities, bad)
