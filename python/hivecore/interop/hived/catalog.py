"""What a configuration offers, to tell a user's mistakes from requests that only have to wait."""

from collections.abc import Iterable
from typing import Any

from hivecore.cells import CellCluster, ClusterSpec
from hivecore.interop.hived.configuration.config import HivedConfig
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.kubernetes.pods import RequestError

__all__ = ["Catalog", "read"]


_MOST_REMEMBERED = 10_000


class Catalog:
    """Nodes, virtual clusters, pinned cells and leaf types by name."""

    def __init__(self, spec: ClusterSpec) -> None:
        chains = spec.chains
        self._spec = spec
        self._empty: CellCluster | None = None
        self._possible: dict[PodRequest, bool] = {}
        self.leaves = sum(chain.leaves for chain in chains.values())
        self._largest_node = max(
            chain.leaves_per_cell()[chain.levels.index(str(chain.node_level))]
            for chain in chains.values()
        )
        self.nodes: dict[str, int] = {}
        """Node -> its leaf cells, over all chains."""
        for chain in chains.values():
            for node in chain.nodes or ():
                self.nodes[node] = self.nodes.get(node, 0) + chain.leaves // len(chain.nodes or ())
        self._leaf_types = {chain.levels[0] for chain in chains.values()}
        self._pins = {vc: set(pins) for vc, pins in spec.pinned_cells.items()}
        self._owned_types = {
            vc: {chains[chain].levels[0] for chain, cells in owned.items() if any(cells.values())}
            for vc, owned in spec.virtual_clusters.items()
        }

    def hopeless(self, request: PodRequest) -> str:
        """Why not even the empty, healthy cluster would serve the group; "": it would.

        Answers are remembered by the request without its owner.
        """
        shape = request._replace(gang="anybody", ignore_suggested=True)
        possible = self._possible.get(shape)
        if possible is None:
            if self._empty is None:
                self._empty = CellCluster(self._spec)
            possible = request.leaves <= self.leaves and self._empty.fits(shape.as_group())
            if len(self._possible) == _MOST_REMEMBERED:
                self._possible.clear()
            self._possible[shape] = possible
        if possible:
            return ""
        if request.priority < 0 or request.leaves > self.leaves:
            whose = f"the cluster of {self.leaves} leaf cells"
        else:
            whose = f"virtual cluster {request.virtual_cluster!r}"
        pods = " and ".join(f"{pods} x {number}" for number, pods in request.roles)
        return (
            f"the group asks for {request.leaves} leaf cells ({pods}), which it can never have: "
            f"{whose} is too small for it even when nothing else runs"
        )

    def check(self, request: PodRequest) -> None:
        """Raise `RequestError` where the request names what its virtual cluster can never have."""
        vc = request.virtual_cluster
        if vc not in self._owned_types:
            raise RequestError(
                f"spec: virtualCluster={vc!r}: known are {sorted(self._owned_types)}"
            )
        largest = max(request.roles)[0]
        if largest > self._largest_node:
            raise RequestError(
                f"spec: leafCellNumber={largest}: no node has more than {self._largest_node} leaf "
                "cells"
            )
        if request.pinned_cell is not None:
            pins = self._pins.get(vc, set())
            if request.pinned_cell not in pins:
                raise RequestError(
                    f"spec: pinnedCellId={request.pinned_cell!r}: virtual cluster {vc!r} has "
                    f"{sorted(pins)}"
                )
            return
        wanted = request.leaf_type
        if wanted is None:
            return
        if wanted not in self._leaf_types:
            raise RequestError(
                f"spec: leafCellType={wanted!r}: the cluster has {sorted(self._leaf_types)}"
            )
        if request.priority >= 0 and wanted not in self._owned_types[vc]:
            raise RequestError(
                f"spec: leafCellType={wanted!r}: virtual cluster {vc!r} has "
                f"{sorted(self._owned_types[vc])}; only opportunistic pods (priority -1) can use "
                "others"
            )


def read(config: Any, chain_order: Iterable[str] | None) -> tuple[HivedConfig, ClusterSpec]:
    """The configuration, and its specification with the chains in this order."""
    if not isinstance(config, HivedConfig):
        config = HivedConfig.read(config)
    spec = config.spec
    if chain_order is None:
        return config, spec
    if isinstance(chain_order, (str, bytes)) or not isinstance(chain_order, Iterable):
        raise TypeError(f"chain_order must be a sequence, not {type(chain_order).__name__}")
    order: tuple[Any, ...] = tuple(chain_order)
    named = {name for name in order if isinstance(name, str)}
    if len(order) != len(spec.chains) or named != set(spec.chains):
        raise ValueError(
            f"chain_order={list(order)}: each of {list(spec.chains)} has to be named once"
        )
    return config, spec.replace(chains={name: spec.chains[name] for name in order})
