"""The trees of a scene as JSON, of which only what has changed since the last time is drawn.

Trees are cut into pieces: subtrees of at most some hundred cells, and single cells above those. A
piece is drawn when a row of its cells is not what it was. Beside what never changes of a cell the
row has all that its text depends on, so that no piece can be out of date; but the numbers in it
mean the names of virtual clusters, and with other names all pieces are dropped.

The text of a piece is put together of fragments, by their numbers: for each cell what never changes
of it, its look, its virtual cluster, the same of its partner, and what is between it and the next.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hivecore.interop.hived.inspection.forests import Atlas, Forest
from hivecore.interop.hived.inspection.scene import (
    LOOK,
    PARTNER,
    PARTNER_LOOK,
    TENANT,
    Rows,
    Scene,
    look_of,
    strays,
)

__all__ = ["StatusText"]

_CELLS_OF_A_PIECE = 256
_CELLS_AT_ONCE = 4096  # one call of NumPy keeps other threads waiting for this many
_DEEPEST = 16  # levels that a chain can have
_PARTNERS = ("virtualCell", "physicalCell")

_encode = json.JSONEncoder(separators=(",", ":")).encode
_Indices = npt.NDArray[np.intp]
_T = TypeVar("_T")


def _members(mapping: Mapping[str, Any]) -> str:
    """The members of an object, without its braces."""
    return _encode(mapping)[1:-1]


class StatusText:
    """Writes scenes of one atlas and keeps the pieces of the last one. Not for several threads."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._layers = {forest: _layers(forest) for forest in atlas.forests()}
        self._fragments = _Fragments(atlas)
        self._kept: dict[Any, _Kept[Any]] = {}

    def status(self, scene: Scene) -> bytes:
        """Both parts as the members physicalCluster and virtualClusters of one object."""
        self._go_over_to(scene)
        text = [b'{"physicalCluster":', *self._physical(scene), b',"virtualClusters":']
        return b"".join([*text, *self._virtual(scene), b"}"])

    def physical_cluster(self, scene: Scene) -> bytes:
        """The array of the physical trees."""
        self._go_over_to(scene)
        return b"".join(self._physical(scene))

    def virtual_clusters(self, scene: Scene) -> bytes:
        """The object of all virtual clusters."""
        self._go_over_to(scene)
        return b"".join(self._virtual(scene))

    def virtual_cluster(self, scene: Scene, name: str) -> bytes | None:
        """The array of the trees of one virtual cluster; ``None``: there is none of that name."""
        self._go_over_to(scene)
        trees = self._clusters(scene, [name]).get(name)
        return None if trees is None else b"".join(_array(trees))

    def _go_over_to(self, scene: Scene) -> None:
        if scene.tenants != self._fragments.tenants:
            self._kept = {}
        looks = max(int(rows[:, LOOK].max()) for forest in scene.rows.values() for rows in forest)
        self._fragments.prepare(scene.tenants, looks + 1)

    def _physical(self, scene: Scene) -> list[bytes]:
        forests = self._atlas.chains.values()
        return _array([tree for forest in forests for tree in self._trees(scene, forest)])

    def _virtual(self, scene: Scene) -> list[bytes]:
        text = [b"{"]
        for vc, trees in self._clusters(scene, scene.tenants).items():
            text += [_encode(vc).encode(), b":", *_array(trees), b","]
        text[-1:] = [b"}"] if len(text) > 1 else [b"{}"]
        return text

    def _clusters(self, scene: Scene, tenants: Iterable[str]) -> dict[str, list[list[bytes]]]:
        """The trees of these virtual clusters, then their opportunistic leaf cells."""
        clusters: dict[str, list[list[bytes]]] = {}
        for vc in tenants:
            if vc in self._atlas.owned:
                placed: dict[int, list[bytes]] = {}
                for forest in self._atlas.owned[vc].values():
                    placed.update(zip(forest.places, self._trees(scene, forest), strict=True))
                clusters[vc] = [placed[place] for place in range(len(placed))]
        wanted = {scene.tenants.index(vc): vc for vc in tenants if vc in scene.tenants}
        for forest in self._atlas.chains.values():
            for piece in self._strays(scene, forest):
                for tenant, text in piece.items():
                    if tenant in wanted:
                        clusters.setdefault(wanted[tenant], []).append([text])
        return clusters

    # --- pieces

    def _trees(self, scene: Scene, forest: Forest) -> list[list[bytes]]:
        """The pieces of each tree."""
        rows = scene.rows[forest]
        layers = self._layers[forest]
        pieces: list[bytes] = []
        for layer in layers:
            own = rows[layer.bottom : layer.top + 1]
            draw = partial(self._fragments.write, forest, layer, own)
            pieces += self._update((forest, layer.top), layer, own, draw)
        if len(layers) == 1:
            return [[piece] for piece in pieces]
        order = _sequence(layers)
        per_tree = len(order) // len(forest.places)
        return [
            [pieces[piece] for piece in order[start : start + per_tree]]
            for start in range(0, len(order), per_tree)
        ]

    def _strays(self, scene: Scene, forest: Forest) -> list[dict[int, bytes]]:
        """The opportunistic leaf cells of each piece of a chain, by virtual cluster."""
        leaves = scene.rows[forest][0]
        layer = self._layers[forest][0]

        def draw(which: _Indices) -> list[dict[int, bytes]]:
            own = leaves.reshape(layer.pieces, -1, 4)[which]
            return [
                self._fragments.write_strays(numbers, rows)
                for numbers, rows in zip(layer.numbers[which], own, strict=True)
            ]

        return self._update((forest, -1), layer, [leaves], draw)

    def _update(
        self,
        key: tuple[Forest, int],
        layer: "_Layer",
        rows: list[Rows],
        draw: Callable[[_Indices], list[_T]],
    ) -> list[_T]:
        """The pieces of a layer, those drawn anew whose rows have changed."""
        kept: _Kept[_T] | None = self._kept.get(key)
        if kept is None:
            pieces: list[Any] = [None] * layer.pieces
            changed = np.ones(layer.pieces, bool)
        else:
            pieces = kept.pieces.copy()
            changed = np.zeros(layer.pieces, bool)
            for new, old in zip(rows, kept.rows, strict=True):
                changed |= (new != old).reshape(layer.pieces, -1).any(axis=1)
        which = np.flatnonzero(changed)
        step = max(1, _CELLS_AT_ONCE // len(layer.order))
        for start in range(0, len(which), step):
            some = which[start : start + step]
            for piece, text in zip(some.tolist(), draw(some), strict=True):
                pieces[piece] = text
        # In one step, so that a poll that is interrupted leaves all as it was.
        self._kept[key] = _Kept(rows, pieces)
        return pieces


class _Kept(NamedTuple, Generic[_T]):
    """Pieces, and the rows that they were drawn from."""

    rows: list[Rows]
    pieces: list[_T]


def _array(trees: list[list[bytes]]) -> list[bytes]:
    text = [b"["]
    for tree in trees:
        text += tree
        text.append(b",")
    text[-1:] = [b"]"] if trees else [b"[]"]
    return text


# --- how trees are cut


class _Layer:
    """The pieces of a forest whose top cells are of one level."""

    def __init__(self, forest: Forest, bottom: int, top: int) -> None:
        self.bottom, self.top = bottom, top
        self.pieces = forest.cells[top]
        levels = range(bottom, top + 1)
        numbers = [np.arange(forest.cells[row]).reshape(self.pieces, -1) for row in levels]
        leaf = [numbers[i] * _leaves(forest, row) for i, row in enumerate(levels)]
        self.numbers = np.concatenate(
            [forest.first[row] + cells for row, cells in zip(levels, numbers, strict=True)], axis=1
        )
        """The cells of each piece, level by level."""
        depths = [np.full(cells.shape[1], row) for row, cells in zip(levels, numbers, strict=True)]
        self.order = _parents_first(np.concatenate([at[0] for at in leaf]), np.concatenate(depths))
        self.ends = np.concatenate(
            [_ends(forest, row).reshape(self.pieces, -1) for row in levels], axis=1
        )
        """Per cell what follows it, see `_Fragments`."""
        self.first_leaves = leaf[-1][:, 0]


def _layers(forest: Forest) -> list[_Layer]:
    top = 0
    while (
        top + 1 < len(forest.cells)
        and sum(forest.cells[: top + 2]) <= _CELLS_OF_A_PIECE * forest.cells[top + 1]
    ):
        top += 1
    above = range(top + 1, len(forest.cells))
    return [_Layer(forest, 0, top), *(_Layer(forest, row, row) for row in above)]


def _sequence(layers: list[_Layer]) -> list[int]:
    """The pieces of all layers as they follow each other in the text."""
    leaves = np.concatenate([layer.first_leaves for layer in layers])
    tops = np.concatenate([np.full(layer.pieces, layer.top) for layer in layers])
    order: list[int] = _parents_first(leaves, tops).tolist()
    return order


def _parents_first(leaves: _Indices, levels: _Indices) -> _Indices:
    """The order of cells with these first leaf cells in which each is before its children."""
    return np.lexsort((-levels, leaves))


def _leaves(forest: Forest, row: int) -> int:
    return forest.cells[0] // forest.cells[row]


def _ends(forest: Forest, row: int) -> _Indices:
    """What follows each cell of a level: 0 its children; else how many cells end with it.

    Where the tree itself ends, no comma follows: then it is `_DEEPEST` more.
    """
    cells = np.arange(1, forest.cells[row] + 1)
    if row > 0:
        return np.zeros_like(cells)
    ends = sum(cells % _leaves(forest, above) == 0 for above in range(len(forest.cells)))
    return np.where(ends == len(forest.cells), ends + _DEEPEST, ends)


# --- what they are put together of


class _Fragments:
    """The fragments of all texts in one table; the first one is empty."""

    def __init__(self, atlas: Atlas) -> None:
        self.tenants: tuple[str, ...] = ()
        self._looks = 0
        self._cells = np.empty(len(atlas.addresses), object)
        for forest in atlas.forests():
            for first, cells in zip(forest.first, forest.cells, strict=True):
                start = f'{{{_members(atlas.kinds[first])},"cellAddress":'
                names = atlas.addresses[first : first + cells]
                self._cells[first : first + cells] = [
                    f"{start}{_encode(name)}".encode() for name in names
                ]

    def prepare(self, tenants: tuple[str, ...], looks: int) -> None:
        """Have fragments for these virtual clusters and for at least so many looks."""
        if tenants == self.tenants and looks <= self._looks:
            return
        self.tenants, self._looks = tenants, max(looks, self._looks)
        states = [f",{_members(look_of(look))}".encode() for look in range(self._looks)]
        parts = [
            [b""],
            [b',"cellChildren":['],
            [b"}" + b"]}" * i + b"," for i in range(_DEEPEST)],
            [b"}" + b"]}" * i for i in range(_DEEPEST)],
            [f',"{partner}":'.encode() for partner in _PARTNERS],
            [f",{_members({'vc': vc})}".encode() for vc in tenants],
            states,
            [state + b"}" for state in states],
        ]
        _, self._end, _, _, self._partner, self._tenant, self._look, self._other, self._cell = (
            accumulate(map(len, parts), initial=0)
        )
        few = sum(parts, [])
        self._table = np.empty(self._cell + len(self._cells), object)
        self._table[: self._cell] = few
        self._table[self._cell :] = self._cells

    def write(
        self, forest: Forest, layer: _Layer, rows: list[Rows], which: _Indices
    ) -> list[bytes]:
        """These pieces of a layer, from its rows."""
        cells = np.concatenate([own.reshape(layer.pieces, -1, 4)[which] for own in rows], axis=1)
        partner = cells[:, :, PARTNER]
        bound = partner >= 0
        key = self._partner + _PARTNERS.index(forest.partner)
        found = np.stack(
            [
                self._cell + layer.numbers[which],
                self._look + cells[:, :, LOOK],
                np.where(cells[:, :, TENANT] >= 0, self._tenant + cells[:, :, TENANT], 0),
                np.where(bound, key, 0),
                np.where(bound, self._cell + partner, 0),
                np.where(bound, self._other + cells[:, :, PARTNER_LOOK], 0),
                self._end + layer.ends[which],
            ],
            axis=2,
        )
        texts = self._table[found[:, layer.order].reshape(len(which), -1)]
        return [b"".join(piece) for piece in texts.tolist()]

    def write_strays(self, numbers: _Indices, leaves: Rows) -> dict[int, bytes]:
        """The opportunistic ones of these leaf cells, by virtual cluster."""
        found = strays(leaves)
        drawn: dict[int, list[bytes]] = {}
        for number, (look, tenant, _, _) in zip(
            numbers[found].tolist(), leaves[found].tolist(), strict=True
        ):
            cell, state = self._cells[number], self._table[self._look + look]
            stray = [cell[:-1], b'-opp"', state, b',"physicalCell":', cell, state, b"}}"]
            drawn.setdefault(tenant, []).append(b"".join(stray))
        return {tenant: b",".join(cells) for tenant, cells in drawn.items()}
