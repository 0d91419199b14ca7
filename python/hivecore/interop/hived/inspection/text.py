"""The trees of a scene as JSON, of which only what has changed since the last time is drawn.

Trees are cut into pieces. A piece is drawn when a row of its cells is not what it was. Beside what
never changes of a cell the row has all that its text depends on, so that no piece can be out of
date; but the numbers in it mean the names of virtual clusters, and with other names all pieces are
dropped.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from hivecore.interop.hived.inspection.forests import Atlas, Forest
from hivecore.interop.hived.inspection.fragments import Fragments, cell_texts, encode
from hivecore.interop.hived.inspection.pieces import Indices, Layer, layers_of, sequence
from hivecore.interop.hived.inspection.scene import LOOK, Rows, Scene

__all__ = ["StatusText"]

_CELLS_AT_ONCE = 4096  # one call of NumPy keeps other threads waiting for this many
_T = TypeVar("_T")


class _Kept(NamedTuple, Generic[_T]):
    """Pieces, and the rows that they were drawn from."""

    rows: list[Rows]
    pieces: list[_T]


class StatusText:
    """Writes scenes of one atlas and keeps the pieces of the last one. Not for several threads."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._layers = {forest: layers_of(forest) for forest in atlas.forests()}
        self._cells = cell_texts(atlas)
        self._fragments = Fragments(self._cells, (), 0)
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
        looks = 1 + max(int(rows[:, LOOK].max()) for level in scene.rows.values() for rows in level)
        if scene.tenants != self._fragments.tenants or looks > self._fragments.looks:
            self._fragments = Fragments(self._cells, scene.tenants, looks)

    def _physical(self, scene: Scene) -> list[bytes]:
        forests = self._atlas.chains.values()
        return _array([tree for forest in forests for tree in self._trees(scene, forest)])

    def _virtual(self, scene: Scene) -> list[bytes]:
        text = [b"{"]
        for vc, trees in self._clusters(scene, scene.tenants).items():
            text += [encode(vc).encode(), b":", *_array(trees), b","]
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
        order = sequence(layers)
        per_tree = len(order) // len(forest.places)
        return [
            [pieces[piece] for piece in order[start : start + per_tree]]
            for start in range(0, len(order), per_tree)
        ]

    def _strays(self, scene: Scene, forest: Forest) -> list[dict[int, bytes]]:
        """The opportunistic leaf cells of each piece of a chain, by virtual cluster."""
        leaves = scene.rows[forest][0]
        layer = self._layers[forest][0]

        def draw(which: Indices) -> list[dict[int, bytes]]:
            own = leaves.reshape(layer.pieces, -1, 4)[which]
            return [
                self._fragments.write_strays(numbers, rows)
                for numbers, rows in zip(layer.numbers[which], own, strict=True)
            ]

        return self._update((forest, -1), layer, [leaves], draw)

    def _update(
        self,
        key: tuple[Forest, int],
        layer: Layer,
        rows: list[Rows],
        draw: Callable[[Indices], list[_T]],
    ) -> list[_T]:
        """The pieces of a layer, drawn again where its rows have changed."""
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


def _array(trees: list[list[bytes]]) -> list[bytes]:
    text = [b"["]
    for tree in trees:
        text += tree
        text.append(b",")
    text[-1:] = [b"]"] if trees else [b"[]"]
    return text
