"""What a gang's annotations ask of the network, and which of its pods goes where."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_int, as_mapping
from hivecore.interop.koordinator.topology.cluster_network_topology import CLUSTER, NODE
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name
from hivecore.topology import NetworkTopology, TopologyDecision, TopologyRequest

__all__ = ["assign_pods", "read_gathering"]

_RULES = "gang.scheduling.koordinator.sh/network-topology-spec"
_INDEX = "gang.scheduling.koordinator.sh/network-topology-index"
_STRATEGIES = {"MustGather": "must", "PreferGather": "prefer"}
_MOST = 2**31


def read_gathering(
    record: Mapping[str, Any], network: NetworkTopology, pods: int, **wishes: Any
) -> TopologyRequest:
    """What a gang asks of a network.

    :param record: its PodGroup, or one of its pods, as plain data.
    :param network: whose layers its rules name.
    :param pods: how many it has.
    :param wishes: more of `hivecore.topology.TopologyRequest`, such as ``amounts``.
    :raises ValueError: the annotation is no JSON, or a rule names a layer that is not there, twice,
        or something else than MustGather and PreferGather. The message has the path.
    :raises TypeError: something is of a wrong type.

    The narrowest layer of MustGather must hold all, the narrowest one of PreferGather should, which
    Koordinator does not read; wider ones follow from these. ``podCountMultiple`` asks for equal
    segments.

    >>> import json
    >>> from hivecore.interop.koordinator import read_gathering
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["SpineLayer"], {"n1": {"SpineLayer": "s1"}})
    >>> rules = {"gatherStrategy": [{"layer": "SpineLayer", "strategy": "MustGather"}]}
    >>> note = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(rules)}
    >>> gang = {"metadata": {"name": "train", "annotations": note}}
    >>> read_gathering(gang, network, 4).must
    'SpineLayer'
    """
    document = Field(as_mapping(record, "record"))
    with named_object(document, document["kind"].text() or "PodGroup"):
        name = owner_name(document)
        note = document["metadata"]["annotations"][_RULES]
        levels = {CLUSTER: "", **{layer: layer for layer in network.layers}, NODE: "node"}
        order = list(levels)
        chosen = {"must": -1, "prefer": -1}
        multiple: dict[str, int] = {}
        for rule in [] if note.absent else note.json()["gatherStrategy"].entries():
            layer = rule["layer"].name()
            if layer not in levels:
                raise rule["layer"].error(f"there is no layer {layer!r}")
            wish = rule["strategy"].choice(_STRATEGIES)
            if wish is None:
                raise rule["strategy"].error("is missing")
            chosen[wish] = max(chosen[wish], order.index(layer))
            count = rule["podCountMultiple"]
            if count.value is not None and count.integer(0, _MOST) > 1:
                if levels[layer] in multiple or not levels[layer]:
                    raise count.error(f"{layer} cannot have one, or not two")
                multiple[levels[layer]] = count.value
        must, prefer = chosen["must"], chosen["prefer"]
        return TopologyRequest(
            name,
            as_int(pods, "pods", 1, _MOST),
            must=levels[order[must]] if must >= 0 else "",
            prefer=levels[order[prefer]] if prefer > must else "",
            multiple=multiple,
            **wishes,
        )


def assign_pods(decision: TopologyDecision, pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The node of each pod, "namespace/name", so that neighbours in rank are near to each other.

    :param decision: one that binds.
    :param pods: the gang's, as plain data.
    :raises ValueError: they are more or fewer than were placed, or one is there twice.
    :raises TypeError: something is of a wrong type.

    Pods go by their index, an annotation; those without a readable one come last, by name, of which
    numbers count as numbers: pod-2 is before pod-10.

    >>> from hivecore.interop.koordinator import assign_pods
    >>> from hivecore.topology import NetworkTopology, TopologyRequest
    >>> network = NetworkTopology([], {"n1": {}, "n2": {}})
    >>> network.set_slots([1, 2])
    >>> pods = [{"metadata": {"name": f"pod-{i}"}} for i in (10, 2, 1)]
    >>> assign_pods(network.schedule(TopologyRequest("gang", 3)), pods)
    {'default/pod-1': 'n1', 'default/pod-2': 'n2', 'default/pod-10': 'n2'}
    """
    if not isinstance(decision, TopologyDecision):
        raise TypeError(f"decision must be a TopologyDecision, not {type(decision).__name__}")
    ranked = []
    for pod in Field(list(pods), "pods").entries():
        index = pod["metadata"]["annotations"][_INDEX].text()
        number = int(index) if index.isascii() and index.isdigit() and len(index) < 19 else None
        name = owner_name(pod)
        ranked.append((number is None, number or 0, _natural(name), name))
    names = [name for *_, name in sorted(ranked)]
    if len(set(names)) != len(names):
        raise ValueError("pods: one is there twice")
    ranks = decision.ranks
    if len(names) != len(ranks):
        raise ValueError(f"pods: there are {len(names)}, and {len(ranks)} were placed")
    return dict(zip(names, ranks, strict=True))


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key by which numbers in names count as numbers."""
    parts: list[str] = []
    for sign in name:
        is_digit = sign.isascii() and sign.isdigit()
        if parts and (parts[-1][-1].isascii() and parts[-1][-1].isdigit()) == is_digit:
            parts[-1] += sign
        else:
            parts.append(sign)
    return [
        (False, int(part), "")
        if part.isascii() and part.isdigit() and len(part) < 4000
        else (True, 0, part)
        for part in parts
    ]
