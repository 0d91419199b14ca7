"""The trees of a scene as plain data."""

from typing import Any

import numpy as np

from hivecore.interop.hived.inspection.forests import Atlas, Forest
from hivecore.interop.hived.inspection.scene import PARTNER, TENANT, Scene, look_of, strays

__all__ = ["draw"]

_Cell = dict[str, Any]


def draw(atlas: Atlas, scene: Scene) -> tuple[list[_Cell], dict[str, list[_Cell]]]:
    """The physical trees, chain by chain, and the virtual trees of every virtual cluster.

    Opportunistic leaf cells follow after the trees of their virtual cluster.
    """
    physical = [tree for forest in atlas.chains.values() for tree in _trees(atlas, scene, forest)]
    clusters: dict[str, list[_Cell]] = {}
    for vc, kinds in atlas.owned.items():
        placed = {
            place: tree
            for forest in kinds.values()
            for place, tree in zip(forest.places, _trees(atlas, scene, forest), strict=True)
        }
        clusters[vc] = [placed[place] for place in range(len(placed))]
    for forest in atlas.chains.values():
        leaves = scene.rows[forest][0]
        which = strays(leaves)
        for leaf, (look, tenant, _, _) in zip(which.tolist(), leaves[which].tolist(), strict=True):
            cell = _cell(atlas, forest.first[0] + leaf, look)
            stray = {**cell, "cellAddress": f"{cell['cellAddress']}-opp", "physicalCell": cell}
            clusters.setdefault(scene.tenants[tenant], []).append(stray)
    return physical, clusters


def _cell(atlas: Atlas, number: int, look: int) -> _Cell:
    return {**atlas.kinds[number], "cellAddress": atlas.addresses[number], **look_of(look)}


def _trees(atlas: Atlas, scene: Scene, forest: Forest) -> list[_Cell]:
    levels = []
    for first, rows in zip(forest.first, scene.rows[forest], strict=True):
        looks, tenants, partners, others = rows.T.tolist()
        cells = [_cell(atlas, number, look) for number, look in enumerate(looks, first)]
        for i in np.flatnonzero(rows[:, TENANT] >= 0).tolist():
            cells[i]["vc"] = scene.tenants[tenants[i]]
        for i in np.flatnonzero(rows[:, PARTNER] >= 0).tolist():
            cells[i][forest.partner] = _cell(atlas, partners[i], others[i])
        levels.append(cells)
    for cells, parents, fanout in zip(levels, levels[1:], forest.fanouts, strict=False):
        for start, parent in zip(range(0, len(cells), fanout), parents, strict=True):
            parent["cellChildren"] = cells[start : start + fanout]
    return levels[-1]
