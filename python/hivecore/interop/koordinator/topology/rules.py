"""Reads the annotation with a gang's rules for the network, for gangs, PodGroups and jobs.

Only the network knows which of two layers is narrower. So rules are first read without it, and
become ``must`` and ``prefer`` once it is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hivecore.interop.koordinator.topology.names import CLUSTER_LAYER, NODE_LAYER
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show

__all__ = ["NO_RULES", "GatherRules", "read_rules", "wishes_of"]

_MOST = 2**31
_STRATEGIES = {"MustGather": "must", "PreferGather": "prefer"}


class GatherRules(NamedTuple):
    """A gang's rules by layer; "node" is the layer of nodes. The whole cluster is left out.

    :param must: layers with the strategy MustGather.
    :param prefer: layers with the strategy PreferGather.
    :param multiple: layer -> each of its domains in use gets a multiple of so many pods.
    """

    must: tuple[str, ...]
    prefer: tuple[str, ...]
    multiple: tuple[tuple[str, int], ...]


NO_RULES = GatherRules((), (), ())


def read_rules(annotation: Field, layers: Sequence[str] | None = None) -> GatherRules:
    """Return the rules in ``gang.scheduling.koordinator.sh/network-topology-spec``.

    :param layers: of the network, from wide to narrow, if they are known.
    :raises ValueError: a layer is unknown or listed twice, a strategy is not MustGather or
        PreferGather, a multiple is negative, or a key is unknown.
    :raises TypeError: a field has a wrong type.

    >>> rules = '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
    >>> read_rules(Field(rules)).must
    ('rack',)
    """
    if annotation.absent:
        return NO_RULES
    names = None if layers is None else (CLUSTER_LAYER, *layers, NODE_LAYER)
    wanted: dict[str, list[str]] = {"must": [], "prefer": []}
    multiple: dict[str, int] = {}
    seen = set()
    document = annotation.json()
    document.only("gatherStrategy")
    for rule in document["gatherStrategy"].entries():
        rule.only("layer", "strategy", "podCountMultiple")
        layer = rule["layer"].name()
        if layer == "node" or (names is not None and layer not in names):
            known = f"none of {', '.join(names)}" if names else f"no layer: {NODE_LAYER} is"
            raise rule["layer"].error(f"{show(layer)} is {known}")
        if layer in seen:
            raise rule["layer"].error(f"{show(layer)} is there twice")
        seen.add(layer)
        own = "node" if layer == NODE_LAYER else layer
        strategy = rule["strategy"].choice(_STRATEGIES)
        if strategy and layer != CLUSTER_LAYER:
            wanted[strategy].append(own)
        count = rule["podCountMultiple"]
        if count.value is not None and count.integer(0, _MOST) > 1:
            if layer == CLUSTER_LAYER:
                raise count.error("all pods are in the cluster: give it for a layer below")
            multiple[own] = count.integer(0, _MOST)
    must, prefer = sorted(wanted["must"]), sorted(wanted["prefer"])
    return GatherRules(tuple(must), tuple(prefer), tuple(sorted(multiple.items())))


def wishes_of(rules: GatherRules, layers: Sequence[str] | None) -> Mapping[str, Any]:
    """Return the rules as ``must``, ``prefer`` and ``multiple`` of a request or a job.

    :param layers: of the network, from wide to narrow, if they are known.
    :raises ValueError: a layer is not in the network, or only the network could say which of two
        layers is narrower.

    The narrowest layer with MustGather becomes ``must``, the narrowest with PreferGather
    ``prefer``, which has no effect if it is wider.

    >>> wishes_of(GatherRules(("spine", "rack"), (), ()), ["spine", "rack"])["must"]
    'rack'
    """
    for layer in (*rules.must, *rules.prefer, *dict(rules.multiple)):
        if layers is not None and layer not in (*layers, "node"):
            raise ValueError(f"{show(layer)} is none of {', '.join((*layers, 'node'))}")
    must, prefer = _narrowest(rules.must, layers), _narrowest(rules.prefer, layers)
    if must and prefer and _narrowest((must, prefer), layers) != prefer:
        prefer = ""
    return {"must": must, "prefer": prefer, "multiple": rules.multiple}


def _narrowest(names: Iterable[str], layers: Sequence[str] | None) -> str:
    distinct = list(dict.fromkeys(names))
    if len(distinct) < 2 or "node" in distinct:
        return "node" if "node" in distinct else "".join(distinct)
    if layers is None:
        listed = " and ".join(map(show, distinct))
        raise ValueError(f"the network says which of {listed} is narrower, and there is none")
    return max(distinct, key=layers.index)
