"""What a pod set asks of a topology, and where it was placed."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_int, as_mapping
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kueue.topology import HOSTNAME
from hivecore.topology import NetworkTopology, TopologyDecision, TopologyRequest

__all__ = ["pod_selectors", "read_pod_set", "topology_assignment"]

_KUEUE = "kueue.x-k8s.io"
_REQUIRED = f"{_KUEUE}/podset-required-topology"
_PREFERRED = f"{_KUEUE}/podset-preferred-topology"
_UNCONSTRAINED = f"{_KUEUE}/podset-unconstrained-topology"
_SLICE = f"{_KUEUE}/podset-slice-required-topology"
_SLICE_SIZE = f"{_KUEUE}/podset-slice-size"
_MOST = 2**31


def read_pod_set(
    template: Mapping[str, Any], network: NetworkTopology, name: str, pods: int, **wishes: Any
) -> TopologyRequest:
    """What a pod set asks of a network.

    :param template: its pod template as plain data.
    :param network: as `read_topology` gives it.
    :param name: the owner, such as "namespace/workload/podset".
    :param pods: how many it has.
    :param wishes: more of `hivecore.topology.TopologyRequest`, such as ``amounts``.
    :raises ValueError: a level is none of the topology; two of "required", "preferred" and
        "unconstrained" are asked for; slices are without a size, or it does not divide the pods, or
        they are wider than what is required. The message has the path.
    :raises TypeError: something is of a wrong type.

    A preferred level is tried first, then wider ones; a slice is so many pods in one domain of its
    level. Source: Kueue, ``apis/kueue/v1beta1/workload_types.go``.

    >>> from hivecore.interop.kueue import read_pod_set
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["example.com/rack"], {"n1": {"example.com/rack": "r1"}})
    >>> note = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    >>> template = {"metadata": {"annotations": note}}
    >>> read_pod_set(template, network, "ml/train/main", 8).must
    'example.com/rack'
    """
    annotations = Field(as_mapping(template, "template"))["metadata"]["annotations"]
    count = as_int(pods, "pods", 1, _MOST)
    asked = [key for key in (_REQUIRED, _PREFERRED, _UNCONSTRAINED) if not annotations[key].absent]
    if len(asked) > 1:
        raise annotations.error(f"has {asked[0]} and {asked[1]}")
    must = _level(annotations[_REQUIRED], network)
    prefer = _level(annotations[_PREFERRED], network)
    unconstrained = annotations[_UNCONSTRAINED]
    if not unconstrained.absent and unconstrained.text() not in ("true", "false"):
        raise unconstrained.error("must be 'true' or 'false'")
    multiple: dict[str, int] = {}
    slices, size = annotations[_SLICE], annotations[_SLICE_SIZE]
    if slices.absent != size.absent:
        raise annotations.error(f"{_SLICE} and {_SLICE_SIZE} belong together")
    if not slices.absent:
        level, per_slice = _level(slices, network), size.integer_text(1, _MOST)
        if count % per_slice:
            raise size.error(f"{count} pods are no multiple of {per_slice}")
        order = ["", *network.layers, "node"]
        if order.index(level) < order.index(must):
            raise slices.error(f"{level!r} is wider than {must!r}")
        if per_slice > 1:
            multiple = {level: per_slice}
    return TopologyRequest(name, count, must=must, prefer=prefer, multiple=multiple, **wishes)


def _level(field: Field, network: NetworkTopology) -> str:
    """The layer that an annotation names; "": it is not there."""
    label = field.text()
    if label in ("", HOSTNAME):
        return "node" if label else ""
    if label not in network.layers:
        raise field.error(f"the topology has no level {label!r}")
    return label


def topology_assignment(
    decision: TopologyDecision, network: NetworkTopology, levels: tuple[str, ...] = (HOSTNAME,)
) -> dict[str, Any]:
    """A placement as the TopologyAssignment of a workload's status (v1beta1).

    :param decision: one that binds.
    :param network: in which it was made.
    :param levels: which levels to write: the last ones of the topology. Kueue writes the nodes
        alone where these are a level.
    :raises ValueError: there is no such level, or the decision does not bind.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.kueue import topology_assignment
    >>> from hivecore.topology import NetworkTopology, TopologyRequest
    >>> network = NetworkTopology(["rack"], {"n1": {"rack": "r"}, "n2": {"rack": "r"}})
    >>> network.set_slots([2, 2])
    >>> decision = network.schedule(TopologyRequest("main", 3))
    >>> topology_assignment(decision, network)["domains"]
    [{'values': ['n1'], 'count': 2}, {'values': ['n2'], 'count': 1}]
    """
    counts: dict[tuple[str, ...], int] = {}
    for selector, count in _by_domain(decision, network, levels):
        values = tuple(selector.values())
        counts[values] = counts.get(values, 0) + count
    domains = [{"values": list(values), "count": count} for values, count in counts.items()]
    return {"levels": list(levels), "domains": domains}


def pod_selectors(
    decision: TopologyDecision, network: NetworkTopology, levels: tuple[str, ...] = (HOSTNAME,)
) -> list[dict[str, str]]:
    """The node selector of each pod, in the order of their ranks; as of `topology_assignment`."""
    found = _by_domain(decision, network, levels)
    return [dict(selector) for selector, count in found for _ in range(count)]


def _by_domain(
    decision: TopologyDecision, network: NetworkTopology, levels: tuple[str, ...]
) -> list[tuple[dict[str, str], int]]:
    if not isinstance(decision, TopologyDecision):
        raise TypeError(f"decision must be a TopologyDecision, not {type(decision).__name__}")
    if decision.outcome != "bind":
        raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
    known = (*network.layers, HOSTNAME)
    for level in levels:
        if level not in known:
            raise ValueError(f"levels: the topology has no level {level!r}")
    return [
        (
            {
                level: dict(zip(known, network.domain(one.node), strict=True))[level]
                for level in levels
            },
            one.pods,
        )
        for one in decision.placement
    ]
