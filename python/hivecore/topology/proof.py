"""Checks decisions by the domains of nodes and what is free on them, without the kernel."""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._stateful import counted
from hivecore.errors import CertificateError
from hivecore.topology.network_ledger import NetworkLedger
from hivecore.topology.node_pods import NodePods
from hivecore.topology.topology_request import TopologyRequest

__all__ = ["check_placement"]


def check_placement(
    request: TopologyRequest,
    layer: str,
    placement: tuple[NodePods, ...],
    allowed: Collection[str] | None,
    optimal: bool,
    network: NetworkLedger,
    most: npt.ArrayLike | None,
) -> None:
    """Raise `CertificateError` with the first rule that a placement in a domain of a layer breaks.

    :param allowed: the only nodes to use; ``None``: all.
    :param most: the most pods of each node, see `NetworkTopology.schedule`.
    """
    _check_names(request, layer, placement, network)
    pods = {part.node: part.pods for part in placement}
    others = {part.node: part.others for part in placement}
    if len(pods) != len(placement) or sum(pods.values()) != request.pods:
        raise CertificateError(f"{counted(sum(pods.values()), 'pod')} placed, not {request.pods}")
    wanted = request.role.pods if request.role else 0
    if sum(others.values()) != wanted:
        raise CertificateError(f"{counted(sum(others.values()), 'other')} placed, not {wanted}")
    limits = {} if most is None else dict(zip(network.nodes, np.transpose(most), strict=True))
    for node, count in pods.items():
        if allowed is not None and node not in allowed:
            raise CertificateError(f"node {node!r} is not one of those that may be used")
        free = network.free(node)
        taken = {resource: count * amount for resource, amount in request.amounts}
        for resource, amount in request.role.amounts if request.role else ():
            taken[resource] = taken.get(resource, 0) + others[node] * amount
        if node in limits and count > _most_beside(limits[node], others[node]):
            raise CertificateError(f"node {node!r} has more pods than it may get")
        if min(count, others[node]) < 0 or count + others[node] == 0:
            raise CertificateError(f"node {node!r} has {count} and {others[node]} pods")
        if any(amount > free.get(resource, 0) for resource, amount in taken.items()):
            raise CertificateError(
                f"node {node!r} has no room for {counted(count + others[node], 'pod')}"
            )
    layers = ["", *network.layers, "node"]
    held = layers.index(layer)
    if held < layers.index(request.must):
        raise CertificateError(f"{layer!r} is wider than {request.must!r}")
    if len(pods) not in _sums(network, dict.fromkeys(pods, 1), layer):
        raise CertificateError(f"no domain of layer {layer!r} holds all pods")
    for inner, multiple in request.multiple:
        for count in _sums(network, pods, inner):
            if layers.index(inner) >= held and count % multiple:
                raise CertificateError(
                    f"{counted(count, 'pod')} in a {inner}, no multiple of {multiple}"
                )
    for inner, limit in request.per_domain:
        if (largest := max(_sums(network, pods, inner))) > limit:
            raise CertificateError(
                f"{counted(largest, 'pod')} in a {inner}, at most {limit} may be there"
            )
    narrowest = layers.index(request.prefer or "node")
    if held > narrowest:
        raise CertificateError(f"{layer!r} is narrower than {request.prefer!r}")
    if request.multiple or request.per_domain or request.role or not optimal:
        return
    room = {
        node: min(int(network.free(node).get(key, 0) // amount) for key, amount in request.amounts)
        for node in network.nodes
        if allowed is None or node in allowed
    }
    room |= {node: min(room.get(node, 0), int(most)) for node, most in limits.items()}
    for inner in layers[held + 1 : narrowest + 1]:
        if max(_sums(network, room, inner)) >= request.pods:
            raise CertificateError(f"a domain of layer {inner!r} has room for all")


def _most_beside(limit: npt.NDArray[Any], others: int) -> int:
    """The most pods of a node with this number of others."""
    if limit.ndim == 0:
        return int(limit) - others
    return int(max(limit[others:], default=-1))


def _check_names(
    request: TopologyRequest, layer: str, placement: tuple[NodePods, ...], network: NetworkLedger
) -> None:
    """Raise `CertificateError` if a node or layer is unknown, or a number is no integer."""
    layers = {"", *network.layers, "node"}
    rules = *dict(request.multiple), *dict(request.per_domain)
    for name in (layer, request.must, request.prefer, request.balance, *rules):
        if name not in layers:
            raise CertificateError(f"there is no layer {name!r}")
    nodes = network.nodes
    for part in placement:
        if part.node not in nodes:
            raise CertificateError(f"there is no node {part.node!r}")
        for count in (part.pods, part.others):
            if type(count) is not int:
                raise CertificateError(
                    f"node {part.node!r} has {count!r} pods, which is no integer"
                )


def _sums(network: NetworkLedger, counts: dict[str, int], layer: str) -> list[int]:
    """The sum of the counts of the nodes, of each domain of a layer."""
    return [sum(counts.get(node, 0) for node in nodes) for nodes in network.domains(layer)]
