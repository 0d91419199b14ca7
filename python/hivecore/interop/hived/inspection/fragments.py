"""The texts of pieces, put together of fragments by their numbers.

Per cell these are what never changes of it, its look, its virtual cluster, the same of its partner,
and what is between it and the next cell: `Layer.ends`.
"""

import json
from collections.abc import Mapping
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.interop.hived.inspection.forests import Atlas, Forest
from hivecore.interop.hived.inspection.pieces import DEEPEST, Indices, Layer
from hivecore.interop.hived.inspection.scene import (
    LOOK,
    PARTNER,
    PARTNER_LOOK,
    TENANT,
    Rows,
    look_of,
    strays,
)

__all__ = ["Fragments", "Texts", "cell_texts", "encode"]

Texts = npt.NDArray[np.object_]

_PARTNERS = ("virtualCell", "physicalCell")

encode = json.JSONEncoder(separators=(",", ":")).encode


def _members(mapping: Mapping[str, Any]) -> str:
    """The members of an object, without its braces."""
    return encode(mapping)[1:-1]


def cell_texts(atlas: Atlas) -> Texts:
    """What never changes of each cell, by its number: the beginning of an object."""
    texts = np.empty(len(atlas.addresses), object)
    for forest in atlas.forests():
        for first, cells in zip(forest.first, forest.cells, strict=True):
            start = f'{{{_members(atlas.kinds[first])},"cellAddress":'
            names = atlas.addresses[first : first + cells]
            texts[first : first + cells] = [f"{start}{encode(name)}".encode() for name in names]
    return texts


class Fragments:
    """The fragments of all texts in one table; the first one is empty.

    :param cells: what `cell_texts` gives.
    :param tenants: the virtual clusters by number.
    :param looks: how many looks there are.
    """

    def __init__(self, cells: Texts, tenants: tuple[str, ...], looks: int) -> None:
        self.tenants, self.looks = tenants, looks
        states = [f",{_members(look_of(look))}".encode() for look in range(looks)]
        parts = [
            [b""],
            [b',"cellChildren":['],
            [b"}" + b"]}" * i + b"," for i in range(DEEPEST)],
            [b"}" + b"]}" * i for i in range(DEEPEST)],
            [f',"{partner}":'.encode() for partner in _PARTNERS],
            [f",{_members({'vc': vc})}".encode() for vc in tenants],
            states,
            [state + b"}" for state in states],
        ]
        starts = list(accumulate(map(len, parts), initial=0))
        self._end, self._partner, self._tenant = starts[1], starts[4], starts[5]
        self._look, self._closed_look, self._cell = starts[6:]
        self._table = np.empty(self._cell + len(cells), object)
        self._table[: self._cell] = list(chain.from_iterable(parts))
        self._table[self._cell :] = cells

    def write(self, forest: Forest, layer: Layer, rows: list[Rows], which: Indices) -> list[bytes]:
        """These pieces of a layer, from its rows."""
        cells = np.concatenate([own.reshape(layer.pieces, -1, 4)[which] for own in rows], axis=1)
        partner = cells[:, :, PARTNER]
        bound = partner >= 0
        key = self._partner + _PARTNERS.index(forest.partner)
        entries = np.stack(
            [
                self._cell + layer.numbers[which],
                self._look + cells[:, :, LOOK],
                np.where(cells[:, :, TENANT] >= 0, self._tenant + cells[:, :, TENANT], 0),
                np.where(bound, key, 0),
                np.where(bound, self._cell + partner, 0),
                np.where(bound, self._closed_look + cells[:, :, PARTNER_LOOK], 0),
                self._end + layer.ends[which],
            ],
            axis=2,
        )
        texts = self._table[entries[:, layer.order].reshape(len(which), -1)]
        return [b"".join(piece) for piece in texts.tolist()]

    def write_strays(self, numbers: Indices, leaves: Rows) -> dict[int, bytes]:
        """The opportunistic ones of these leaf cells, by virtual cluster."""
        which = strays(leaves)
        drawn: dict[int, list[bytes]] = {}
        for number, (look, tenant, _, _) in zip(
            numbers[which].tolist(), leaves[which].tolist(), strict=True
        ):
            cell, state = self._table[self._cell + number], self._table[self._look + look]
            stray = [cell[:-1], b'-opp"', state, b',"physicalCell":', cell, state, b"}}"]
            drawn.setdefault(tenant, []).append(b"".join(stray))
        return {tenant: b",".join(cells) for tenant, cells in drawn.items()}
