"""A decision is checked by the domains of nodes and by what is free on them, by name."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hivecore.errors import CertificateError

if TYPE_CHECKING:
    from hivecore.topology.network_topology import NetworkTopology
    from hivecore.topology.topology_decision import TopologyDecision

__all__ = ["check_decision"]


def check_decision(
    decision: "TopologyDecision", network: "NetworkTopology", most: npt.ArrayLike | None
) -> None:
    """Raise `CertificateError` with the first rule that a decision breaks.

    :param most: how many pods each node may get, as of `NetworkTopology.schedule`.
    """
    if decision.outcome != "bind":
        return
    request = decision.request
    _check_names(decision, network)
    pods = {one.node: one.pods for one in decision.placement}
    others = {one.node: one.others for one in decision.placement}
    if len(pods) != len(decision.placement) or sum(pods.values()) != request.pods:
        raise CertificateError(f"{sum(pods.values())} pods are placed, not {request.pods}")
    wanted = request.role.pods if request.role else 0
    if sum(others.values()) != wanted:
        raise CertificateError(f"{sum(others.values())} others are placed, not {wanted}")
    allowed = None if decision.nodes is None else set(decision.nodes)
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
            raise CertificateError(f"node {node!r} has no room for {count + others[node]} pods")
    layers = ["", *network.layers, "node"]
    held = layers.index(decision.layer)
    if held < layers.index(request.must):
        raise CertificateError(f"{decision.layer!r} is wider than {request.must!r}")
    if len(pods) not in _sums(network, dict.fromkeys(pods, 1), decision.layer):
        raise CertificateError(f"no domain of layer {decision.layer!r} holds all pods")
    for layer, multiple in request.multiple:
        for count in _sums(network, pods, layer):
            if layers.index(layer) >= held and count % multiple:
                raise CertificateError(f"{count} pods in a {layer}, no multiple of {multiple}")
    narrowest = layers.index(request.prefer or "node")
    if held > narrowest:
        raise CertificateError(f"{decision.layer!r} is narrower than {request.prefer!r}")
    if request.multiple or request.role or not decision.optimal:
        return
    room = {
        node: min(int(network.free(node).get(key, 0) // amount) for key, amount in request.amounts)
        for node in network.nodes
        if allowed is None or node in allowed
    }
    room |= {node: min(room.get(node, 0), int(most)) for node, most in limits.items()}
    for layer in layers[held + 1 : narrowest + 1]:
        if max(_sums(network, room, layer)) >= request.pods:
            raise CertificateError(f"a domain of layer {layer!r} has room for all")


def _most_beside(limit: npt.NDArray[Any], others: int) -> int:
    """How many pods a node may get beside so many others."""
    if limit.ndim == 0:
        return int(limit) - others
    return int(max(limit[others:], default=-1))


def _check_names(decision: "TopologyDecision", network: "NetworkTopology") -> None:
    """Raise `CertificateError` where the network has no such node or layer, or a number is none."""
    request = decision.request
    layers = {"", *network.layers, "node"}
    for layer in (decision.layer, request.must, request.prefer, *dict(request.multiple)):
        if layer not in layers:
            raise CertificateError(f"there is no layer {layer!r}")
    nodes = network.nodes
    for one in decision.placement:
        if one.node not in nodes:
            raise CertificateError(f"there is no node {one.node!r}")
        for count in (one.pods, one.others):
            if type(count) is not int:
                raise CertificateError(f"node {one.node!r} has {count!r} pods, which is no integer")


def _sums(network: "NetworkTopology", counts: dict[str, int], layer: str) -> list[int]:
    """Of each domain of a layer what its nodes have."""
    return [sum(counts.get(node, 0) for node in nodes) for nodes in network.domains(layer)]
