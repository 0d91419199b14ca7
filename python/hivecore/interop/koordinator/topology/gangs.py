"""What a gang asks of the network, by its annotation, and which of its pods goes where."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hivecore._arguments import as_instance, as_mapping
from hivecore.interop.koordinator.topology.names import (
    POD_INDEX,
    SELECTOR,
    SPEC,
)
from hivecore.interop.koordinator.topology.rules import GatherRules, read_rules, wishes_of
from hivecore.interop.kubernetes.documents import Objects, named_object, objects_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import has_ended, natural_order, node_of, owner_name
from hivecore.topology import NetworkTopology, TopologyDecision, TopologyRequest

__all__ = ["TopologyGang", "read_topology_gang"]

_MOST = 2**31
_Said = TypeVar("_Said", str, GatherRules)


@dataclass(frozen=True, slots=True)
class TopologyGang:
    """A gang as a request, and its pods.

    :param request: for `NetworkTopology.schedule`.
    :param pods: their names, "namespace/name", by rank.
    """

    request: TopologyRequest
    pods: tuple[str, ...]

    def nodes(self, decision: TopologyDecision) -> dict[str, str]:
        """By pod the node that it goes to; nothing if the decision is not to bind.

        :raises ValueError: the decision is another gang's.
        :raises TypeError: ``decision`` is none.
        """
        as_instance(decision, "decision", TopologyDecision)
        if decision.request != self.request:
            raise ValueError(f"decision: is of {decision.request.name!r}, or of another request")
        if decision.outcome != "bind":
            return {}
        return dict(zip(self.pods, decision.ranks, strict=True))


def read_topology_gang(
    gang: Mapping[str, Any],
    pods: Objects,
    network: NetworkTopology,
    *,
    amounts: Mapping[str, int] | None = None,
    others: Objects = (),
) -> TopologyGang:
    """What a gang asks of the network.

    :param gang: the PodGroup, or the pod, that has the annotation
        ``gang.scheduling.koordinator.sh/network-topology-spec``; without it that of the pods
        counts, and without any nothing is asked for. The name of the object is that of the request.
    :param pods: all pods of the gang that are to be placed, taken to be alike.
    :param network: whose layers the annotation names.
    :param amounts: what a pod takes of a node; ``None``: a slot.
    :param others: pods of the cluster. The gang wants to be near to those that run and have the
        selector of its pods.
    :raises ValueError: a layer is not in the network or there twice, a strategy is none of
        MustGather and PreferGather, a multiple is negative, a key is unknown; there is no pod, or a
        pod has other rules or another selector than its gang. The message has the path.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: it is text, and PyYAML is not there.

    The narrowest layer with MustGather is ``must``, the narrowest with PreferGather ``prefer``,
    which is of no use if it is wider. Pods are in the order of their annotation
    ``network-topology-index``, then those without one by name, with numbers in it as numbers.
    Source: Koordinator, ``apis/extension/network_topology.go``.

    >>> from hivecore.interop.koordinator import read_topology_gang
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["rack"], {"n1": {"rack": "r1"}})
    >>> rules = '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
    >>> spec = {"gang.scheduling.koordinator.sh/network-topology-spec": rules}
    >>> gang = {"metadata": {"name": "train", "annotations": spec}}
    >>> pods = [{"metadata": {"name": f"train-{i}"}} for i in (10, 9)]
    >>> found = read_topology_gang(gang, pods, network)
    >>> found.request.name, found.request.must, found.pods
    ('default/train', 'rack', ('default/train-9', 'default/train-10'))
    """
    as_instance(network, "network", NetworkTopology)
    field = Field(as_mapping(gang, "gang"))
    with named_object(field, "the gang"):
        name = owner_name(field)
        rules = read_rules(field["metadata"]["annotations"][SPEC], network.layers)
    ranked = _ranked(pods)
    if not ranked:
        raise ValueError("pods: there is none")
    selector = ""
    for pod in ranked.values():
        with named_object(pod, "Pod"):
            notes = pod["metadata"]["annotations"]
            rules = _same(notes[SPEC], read_rules(notes[SPEC], network.layers), rules)
            selector = _same(notes[SELECTOR], notes[SELECTOR].text(), selector)
    wishes = dict(wishes_of(rules, network.layers))
    if amounts is not None:
        wishes["amounts"] = dict(as_mapping(amounts, "amounts"))
    if selector:
        wishes["existing"] = _near(others, selector, network)
    return TopologyGang(TopologyRequest(name, len(ranked), **wishes), tuple(ranked))


def _same(field: Field, own: _Said, others: _Said) -> _Said:
    """What a pod says, or what the gang and the pods before it said."""
    if field.absent:
        return others
    if any(others) and own != others:
        raise field.error("differs from that of its gang")
    return own


def _ranked(pods: Objects) -> dict[str, Field]:
    """By name the pods, by rank."""
    found = {}
    for field in objects_of(pods, "pods"):
        with named_object(field, "Pod"):
            name = owner_name(field)
            if name in found:
                raise field["metadata"]["name"].error("there are two pods of this name")
            index = field["metadata"]["annotations"][POD_INDEX]
            rank = _MOST if index.absent else index.integer_text(0, _MOST - 1)
            found[name] = (rank, natural_order(name), name), field
    return {name: field for name, (_, field) in sorted(found.items(), key=lambda one: one[1][0])}


def _near(others: Objects, selector: str, network: NetworkTopology) -> dict[str, int]:
    found: Counter[str] = Counter()
    known = set(network.nodes)
    for field in objects_of(others, "others"):
        with named_object(field, "Pod"):
            same = field["metadata"]["annotations"][SELECTOR].text() == selector
            if same and node_of(field) in known and not has_ended(field):
                found[node_of(field)] += 1
    return dict(found)
