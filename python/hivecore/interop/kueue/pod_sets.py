"""What a pod set asks of the network, by its annotations or its topology request."""

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
    """What a pod set of a Workload asks of the network; ``None``: it has no pods.

    :param pod_set: an entry of ``spec.podSets``, with ``count`` and either ``topologyRequest`` or
        the annotations of ``template``; if both are there, the former counts.
    :param name: of the request.
    :param amounts: what a pod takes of a node; ``None``: a slot.
    :raises ValueError: a level is not in the topology, both a required and a preferred one are
        there, or slices do not go with each other or with the count; a key is unknown, or the pod
        set is of a group, which has to be placed as a whole. The message has the path.
    :raises TypeError: something is of a wrong type.

    The required level is ``must``; the preferred one ``prefer``, from which wider ones are tried,
    at last all of the network. Unconstrained, and nothing at all, is a request without a wish,
    which is placed as narrowly as can be. Slices of a size within a level are its ``multiple``:
    several slices may share a domain, none is split. The count has to be a multiple as well:
    Kueue's slice that is smaller than others is not read.

    A request is for one pod set. Those of one ``podset-group-name`` go to one domain together: make
    one request of two such, the smaller one as its ``role``. ``minCount`` is for the choice of
    ``count``; ``podIndexLabel``, ``subGroupIndexLabel`` and ``subGroupCount`` say which pod has
    which rank, and have no effect. Source: Kueue, ``apis/kueue/v1beta2``.

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
    asked = _of_request(field) if "topologyRequest" in field else _of_annotations(field)
    required, preferred = asked.required, asked.preferred
    if sum((not required.absent, not preferred.absent, asked.unconstrained)) > 1:
        raise required.error("only one of required, preferred and unconstrained may be there")
    layer = "" if required.absent else _layer(required, topology)
    wish = "" if preferred.absent else _layer(preferred, topology)
    multiple = _multiple(asked, topology, count, layer or wish)
    if not count:
        return None
    _check_alone(field)
    wishes: dict[str, Any] = {"must": layer, "prefer": wish, "multiple": multiple}
    if amounts is not None:
        wishes["amounts"] = dict(as_mapping(amounts, "amounts"))
    return TopologyRequest(name, count, **wishes)


def _check_keys(field: Field) -> None:
    """Refuse what would have no effect here."""
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
    """Refuse a pod set of a group: its pod sets go to one domain together."""
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
