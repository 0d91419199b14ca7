"""Reads a gang's rules for the network, and maps its pods to nodes."""

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
    """A gang as a request, with its pods.

    :param request: for `NetworkTopology.schedule`.
    :param pods: their "namespace/name", ordered by rank.
    """

    request: TopologyRequest
    pods: tuple[str, ...]

    def nodes(self, decision: TopologyDecision) -> dict[str, str]:
        """Return the node of each pod; empty unless the decision is to bind.

        :raises ValueError: the decision is of another gang.
        :raises TypeError: ``decision`` is not a TopologyDecision.
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
    """Return a gang's request for the network.

    :param gang: the PodGroup or pod that has the annotation
        ``gang.scheduling.koordinator.sh/network-topology-spec``; otherwise the pods' annotation
        counts. Without one there are no rules. The object's name is the request's.
    :param pods: all pods of the gang to place, taken to be alike.
    :param network: has the layers in the annotation.
    :param amounts: what a pod takes of a node; by default a slot.
    :param others: pods of the cluster. The gang is placed near to those that run and match the
        selector of its pods.
    :raises ValueError: a layer is unknown or listed twice, a strategy is not MustGather or
        PreferGather, a multiple is negative, a key is unknown, there is no pod, or a pod's rules or
        selector differ from the gang's. The message has the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is needed to read text.

    The narrowest layer with MustGather becomes ``must``, the narrowest with PreferGather
    ``prefer``, which has no effect if it is wider. Pods are ordered by their annotation
    ``network-topology-index``; pods without it follow by name, with numbers in names compared as
    numbers. Source: Koordinator, ``apis/extension/network_topology.go``.

    >>> from hivecore.interop.koordinator import read_topology_gang
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["rack"], {"n1": {"rack": "r1"}})
    >>> rules = '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
    >>> spec = {"gang.scheduling.koordinator.sh/network-topology-spec": rules}
    >>> gang = {"metadata": {"name": "train", "annotations": spec}}
    >>> pods = [{"metadata": {"name": f"train-{i}"}} for i in (10, 9)]
    >>> train = read_topology_gang(gang, pods, network)
    >>> train.request.name, train.request.must, train.pods
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
    """Return the pod's value, or that of the gang and the pods before it; refuse a difference."""
    if field.absent:
        return others
    if any(others) and own != others:
        raise field.error("differs from that of its gang")
    return own


def _ranked(pods: Objects) -> dict[str, Field]:
    """Return the pods by name, ordered by rank."""
    fields = {}
    for field in objects_of(pods, "pods"):
        with named_object(field, "Pod"):
            name = owner_name(field)
            if name in fields:
                raise field["metadata"]["name"].error("there are two pods of this name")
            index = field["metadata"]["annotations"][POD_INDEX]
            rank = _MOST if index.absent else index.integer_text(0, _MOST - 1)
            fields[name] = (rank, natural_order(name), name), field
    return {
        name: field for name, (_, field) in sorted(fields.items(), key=lambda entry: entry[1][0])
    }


def _near(others: Objects, selector: str, network: NetworkTopology) -> dict[str, int]:
    counts: Counter[str] = Counter()
    known = set(network.nodes)
    for field in objects_of(others, "others"):
        with named_object(field, "Pod"):
            same = field["metadata"]["annotations"][SELECTOR].text() == selector
            if same and node_of(field) in known and not has_ended(field):
                counts[node_of(field)] += 1
    return dict(counts)
