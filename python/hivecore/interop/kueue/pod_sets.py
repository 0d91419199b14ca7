"""Reads a pod set's rules for the network, from annotations or its topology request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hivecore._arguments import as_instance, as_mapping, as_name
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kueue.names import (
    GROUP_NAME,
    POD_SET,
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
_NOTES = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_REQUIRED, SLICE_SIZE, SLICES, GROUP_NAME)
_OF_REQUEST = (
    *("required", "preferred", "unconstrained", "podSetGroupName"),
    *("podSetSliceRequiredTopology", "podSetSliceSize", "podsetSliceRequiredTopologyConstraints"),
    *("podIndexLabel", "subGroupIndexLabel", "subGroupCount"),
)


def read_pod_set(
    pod_set: Mapping[str, Any],
    topology: KueueTopology,
    *,
    name: str,
    amounts: Mapping[str, int] | None = None,
) -> TopologyRequest | None:
    """Return a pod set's request for the network; ``None`` if it has no pods.

    :param pod_set: an entry of ``spec.podSets`` of a Workload, with ``count`` and
        ``topologyRequest`` or the annotations of ``template``; the former takes precedence.
    :param name: of the request.
    :param amounts: what a pod takes of a node; by default a slot.
    :raises ValueError: a level is not in the topology, a required and a preferred level are both
        set, slices contradict each other or the count, a key is unknown, or the pod set is in a
        group. The message has the path.
    :raises TypeError: a field has a wrong type.

    The required level becomes ``must``. The preferred level becomes ``prefer``: wider levels are
    tried after it, finally the whole network. Without either, the pods are placed in the narrowest
    domain that has room.

    Slices of a size in a level become ``multiple``: a domain may hold several slices, and no slice
    is split. Unlike in Kueue, the count must be a multiple of the size.

    Pod sets with the same ``podset-group-name`` must share a domain: make one request of two such,
    with the smaller one as its ``role``. ``minCount`` is used to choose ``count``.
    ``podIndexLabel``, ``subGroupIndexLabel`` and ``subGroupCount`` only define ranks and have no
    effect. Source: Kueue, ``apis/kueue/v1beta2``.

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
    as_instance(topology, "topology", KueueTopology)
    as_name(name, "name")
    field = Field(as_mapping(pod_set, "pod_set"))
    _check_keys(field)
    count = field["count"].integer(0, _MOST) if "count" in field else 1
    rules = _of_request(field) if "topologyRequest" in field else _of_annotations(field)
    required, preferred = rules.required, rules.preferred
    if sum((not required.absent, not preferred.absent, rules.unconstrained)) > 1:
        raise required.error("only one of required, preferred and unconstrained may be there")
    layer = "" if required.absent else _layer(required, topology)
    wish = "" if preferred.absent else _layer(preferred, topology)
    multiple = _multiple(rules, topology, count, layer or wish)
    if not count:
        return None
    _check_alone(field)
    wishes: dict[str, Any] = {"must": layer, "prefer": wish, "multiple": multiple}
    if amounts is not None:
        wishes["amounts"] = dict(as_mapping(amounts, "amounts"))
    return TopologyRequest(name, count, **wishes)


def _check_keys(field: Field) -> None:
    """Refuse keys without an effect here."""
    if "podSets" in field or (field["kind"].text() and "podSets" in field["spec"]):
        raise field["spec"].error("this is a Workload: give an entry of its podSets")
    field.only("name", "count", "minCount", "template", "topologyRequest")
    request = field["topologyRequest"]
    request.only(*_OF_REQUEST)
    for entry in request["podsetSliceRequiredTopologyConstraints"].entries():
        entry.only("topology", "size")
    metadata = field["template"]["metadata"]
    for key, note in metadata["annotations"].items():
        if key.startswith(POD_SET) and key not in _NOTES:
            raise note.error(f"is unknown, known are {', '.join(_NOTES)}")
    for key, label in metadata["labels"].items():
        if key.startswith(POD_SET):
            raise label.error("is read as an annotation only")


def _check_alone(field: Field) -> None:
    """Refuse a pod set in a group, as its pod sets must share a domain."""
    annotations = field["template"]["metadata"]["annotations"]
    for group in (field["topologyRequest"]["podSetGroupName"], annotations[GROUP_NAME]):
        if not group.absent:
            raise group.error(
                f"is {show(group.text())}: the pod sets of a group go to one domain together; make "
                "one request of them, the smaller one as its role"
            )


class _Asked(NamedTuple):
    required: Field
    preferred: Field
    unconstrained: bool
    slice_level: Field
    slice_size: Field
    slices: Field


def _of_request(field: Field) -> _Asked:
    wishes = field["topologyRequest"]
    return _Asked(
        wishes["required"],
        wishes["preferred"],
        wishes["unconstrained"].flag(),
        wishes["podSetSliceRequiredTopology"],
        wishes["podSetSliceSize"],
        wishes["podsetSliceRequiredTopologyConstraints"],
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


def _multiple(wishes: _Asked, topology: KueueTopology, count: int, widest: str) -> dict[str, int]:
    """Return layer -> size of slices, from wide to narrow."""
    pairs = [(entry["topology"], entry["size"]) for entry in wishes.slices.entries()]
    if not wishes.slice_level.absent or not wishes.slice_size.absent:
        if pairs:
            raise wishes.slices.error("slices are given in two ways")
        if wishes.slice_level.absent:
            raise wishes.slice_size.error("there is no level that it is for")
        pairs = [(wishes.slice_level, wishes.slice_size)]
    layers = ["", *topology.network.layers, "node"]
    level, whole = layers.index(widest), count
    multiple: dict[str, int] = {}
    for at, (place, size) in enumerate(pairs):
        place.name()
        layer = _layer(place, topology)
        if layers.index(layer) < level or (at and layers.index(layer) == level):
            raise place.error(f"{show(place.text())} is not below the level before it")
        number = size.integer_text(1, _MOST)
        if whole % number:
            raise size.error(
                f"{whole} {'pod is' if whole == 1 else 'pods are'} no multiple of {number}"
            )
        multiple[layer] = whole = number
        level = layers.index(layer)
    return multiple
