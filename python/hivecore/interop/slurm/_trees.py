"""Switches above nodes: Slurm's list of them as a network, and back.

Levels count from the nodes: a switch that nodes are at is of level 0, another one is a level above
the highest of its children. Switches above the same children are one domain, as in a fat tree, of
which Slurm's guide says that one of them suffices.
"""

from typing import NamedTuple

from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._names import checked_name
from hivecore.topology import NetworkTopology

__all__ = ["Switch", "switches_of", "tree_network"]

_LEVELS = 60  # the layers that a network may have


class Switch(NamedTuple):
    """What a line says of a switch: what is below it."""

    name: str
    switches: tuple[str, ...]
    nodes: tuple[str, ...]
    field: Field = Field(None)
    """Where it stands."""


def tree_network(switches: list[Switch], whole: Field) -> NetworkTopology:
    """The network of these switches.

    :param whole: where they stand, for messages.
    :raises ValueError: they make no tree; see the message.
    """
    named = _by_name(switches)
    parents: dict[str, str] = {}
    node_leaf: dict[str, str] = {}
    level: dict[str, int] = {}
    same: dict[object, str] = {}
    stands_for: dict[str, str] = {}
    for name in _from_below(named, whole):
        switch = named[name]
        below = dict.fromkeys(stands_for[one] for one in switch.switches if one in stands_for)
        if not below and not switch.nodes:
            continue  # a switch without nodes is no domain
        first = same.setdefault((frozenset(below), frozenset(switch.nodes)), name)
        stands_for[name] = first
        if first != name:
            continue
        level[name] = 1 + max((level[one] for one in below), default=-1)
        for owner, names, what in ((parents, below, "switch"), (node_leaf, switch.nodes, "node")):
            for one in names:
                if one in owner:
                    other = show(owner[one])
                    message = f"{what} {show(one)} is below {other} and {show(name)}, which differ"
                    raise switch.field.error(message)
                owner[one] = name
    if not node_leaf:
        raise whole.error("there is no node")
    if max(level.values()) >= _LEVELS:
        raise whole.error(f"{max(level.values()) + 1} levels of switches, allowed are {_LEVELS}")
    layers = [f"level{number}" for number in range(max(level.values()), -1, -1)]
    places: dict[str, dict[str, str]] = {}
    for leaf in dict.fromkeys(node_leaf.values()):
        labels, above = {}, leaf
        while above:
            labels[f"level{level[above]}"] = above
            above = parents.get(above, "")
        places[leaf] = labels
    with whole.named():
        return NetworkTopology(layers, {node: places[leaf] for node, leaf in node_leaf.items()})


def _by_name(switches: list[Switch]) -> dict[str, Switch]:
    named: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in named:
            raise switch.field.error(f"switch {show(switch.name)} is there twice")
        if switch.switches and switch.nodes:
            raise switch.field.error(f"switch {show(switch.name)} has both switches and nodes")
        named[switch.name] = switch
    return named


def _from_below(named: dict[str, Switch], whole: Field) -> list[str]:
    """All of them, each after its children; otherwise in their order."""
    waits_for = {}
    above: dict[str, list[str]] = {}
    for name, switch in named.items():
        waits_for[name] = len(switch.switches)
        for one in switch.switches:
            if one not in named:
                raise switch.field.error(f"there is no switch {show(one)}")
            above.setdefault(one, []).append(name)
    order = [name for name, count in waits_for.items() if count == 0]
    for name in order:
        for one in above.get(name, ()):
            waits_for[one] -= 1
            if waits_for[one] == 0:
                order.append(one)
    if len(order) < len(named):
        circle = next(name for name, count in waits_for.items() if count)
        raise whole.error(f"switch {show(circle)} is below itself, or above one that is")
    return order


def switches_of(network: NetworkTopology) -> list[Switch]:
    """The switches of a network, those that nodes are at first.

    A domain that holds but one of its own name is no switch: it stands for a layer that is missing.
    """
    if not network.layers:
        raise ValueError("network: it has no layers, so there are no switches")
    depth = len(network.layers)
    below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for path in paths_of(network).values():
        for end in range(1, depth + 1):
            below.setdefault(path[:end], {})[path[: end + 1]] = None
    stands: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path in sorted(below, key=len, reverse=True):
        children = list(below[path])
        alone = len(path) < depth and len(children) == 1 and children[0][-1] == path[-1]
        stands[path] = stands[children[0]] if alone else path
    kept = dict.fromkeys(path for path in below if stands[path] == path)
    names = distinct_names(kept)
    found = []
    for path in sorted(kept, key=len, reverse=True):
        name = checked_name(names[path], "switch")
        if len(path) == depth:
            nodes = tuple(checked_name(child[-1], "node") for child in below[path])
            found.append(Switch(name, (), nodes))
        else:
            found.append(Switch(name, tuple(names[stands[child]] for child in below[path]), ()))
    return found
