"""What a pod set asks of the network, by its annotations or its topology request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hivecore._arguments import as_mapping, as_name
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kueue.names import (
    PREFERRED,
    REQUIRED,
    SLICE_REQUIRED,
    SLICE_SIZE,
    SLICES,
    UNCONSTRAINED,
)
from hivecore.interop.kueue.topologies import KueueTopology
from hivecore.topology import TopologyRequest

__all__ = ["read_pod_set"]

_MOST = 2**31


def read_pod_set(
    pod_set: Mapping[str, Any],
    topology: KueueTopology,
    *,
    name: str,
    amounts: Mapping[str, int] | None = None,
) -> TopologyRequest:
    """What a pod set of a Workload asks of the network.

    :param pod_set: an entry of ``spec.podSets``, with ``count`` and either ``topologyRequest`` or
        the annotations of ``template``; if both are there, the former counts.
    :param name: of the request.
    :param amounts: what a pod takes of a node; ``None``: a slot.
    :raises ValueError: a level is not in the topology, both a required and a preferred one are
        there, or slices do not go with each other or with the count. The message has the path.
    :raises TypeError: something is of a wrong type.

    The required level is ``must``; the preferred one ``prefer``, from which wider ones are tried,
    at last all of the network. Unconstrained, and nothing at all, is a request without a wish,
    which is placed as narrowly as can be. Slices of a size within a level are its ``multiple``:
    several slices may share a domain, none is split. The count has to be a multiple as well:
    Kueue's slice that is smaller than others is not read. Source: Kueue, ``apis/kueue/v1beta2``.

    >>> from hivecore.interop.kueue import read_pod_set, read_topology
    >>> levels = [{"nodeLabel": "example.com/block"}, {"nodeLabel": "example.com/rack"}]
    >>> labels = {"example.com/block": "b1", "example.com/rack": "r1"}
    >>> topology = read_topology(
    ...     {"metadata": {"name": "gpus"}, "spec": {"levels": levels}},
    ...     [{"metadata": {"name": "n1", "labels": labels}}],
    ... )
    >>> wishes = {
    ...     "kueue.x-k8s.io/podset-required-topology": "example.com/block",
    ...     "kueue.x-k8s.io/podset-slice-required-topology": "example.com/rack",
    ...     "kueue.x-k8s.io/podset-slice-size": "4",
    ... }
    >>> pods = {"count": 8, "template": {"metadata": {"annotations": wishes}}}
    >>> request = read_pod_set(pods, topology, name="train")
    >>> request.must, request.multiple
    ('example.com/block', (('example.com/rack', 4),))
    """
    if not isinstance(topology, KueueTopology):
        raise TypeError(f"topology must be a KueueTopology, not {type(topology).__name__}")
    as_name(name, "name")
    field = Field(as_mapping(pod_set, "pod_set"))
    count = field["count"].integer(1, _MOST) if "count" in field else 1
    asked = _of_request(field) if "topologyRequest" in field else _of_annotations(field)
    required, preferred = asked.required, asked.preferred
    if sum((not required.absent, not preferred.absent, asked.unconstrained)) > 1:
        raise required.error("only one of required, preferred and unconstrained may be there")
    layer = "" if required.absent else _layer(required, topology)
    wish = "" if preferred.absent else _layer(preferred, topology)
    multiple = _multiple(asked, topology, count, layer or wish)
    wishes: dict[str, Any] = {"must": layer, "prefer": wish, "multiple": multiple}
    if amounts is not None:
        wishes["amounts"] = dict(as_mapping(amounts, "amounts"))
    return TopologyRequest(name, count, **wishes)


class _Asked(NamedTuple):
    required: Field
    preferred: Field
    unconstrained: bool
    slice_level: Field
    slice_size: Field
    slices: Field


def _of_request(field: Field) -> _Asked:
    asked = field["topologyRequest"]
    return _Asked(
        asked["required"],
        asked["preferred"],
        asked["unconstrained"].flag(),
        asked["podSetSliceRequiredTopology"],
        asked["podSetSliceSize"],
        asked["podsetSliceRequiredTopologyConstraints"],
    )


def _of_annotations(field: Field) -> _Asked:
    notes = field["template"]["metadata"]["annotations"]
    slices = notes[SLICES]
    return _Asked(
        notes[REQUIRED],
        notes[PREFERRED],
        bool(notes[UNCONSTRAINED].choice({"true": True, "false": False})),
        notes[SLICE_REQUIRED],
        notes[SLICE_SIZE],
        Field(None, slices.path) if slices.absent else slices.json(),
    )


def _layer(field: Field, topology: KueueTopology) -> str:
    with field.named():
        return topology.layer(field.text())


def _multiple(asked: _Asked, topology: KueueTopology, count: int, widest: str) -> dict[str, int]:
    """By layer the size of slices, from wide to narrow."""
    pairs = [(one["topology"], one["size"]) for one in asked.slices.entries()]
    if not asked.slice_level.absent or not asked.slice_size.absent:
        if pairs:
            raise asked.slices.error("slices are given in two ways")
        if asked.slice_level.absent:
            raise asked.slice_size.error("there is no level that it is for")
        pairs = [(asked.slice_level, asked.slice_size)]
    layers = ["", *topology.network.layers, "node"]
    level, whole = layers.index(widest), count
    found: dict[str, int] = {}
    for at, (place, size) in enumerate(pairs):
        place.name()
        layer = _layer(place, topology)
        if layers.index(layer) < level or (at and layers.index(layer) == level):
            raise place.error(f"{show(place.text())} is not below the level before it")
        number = size.integer_text(1, _MOST)
        if whole % number:
            raise size.error(f"{whole} pods are no multiple of {number}")
        found[layer] = whole = number
        level = layers.index(layer)
    return found
