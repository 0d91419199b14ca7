"""Switches above nodes: Slurm's list of them as a network, and back.

Levels count from the nodes: a switch that nodes are at is of level 0, another one is a level above
the highest of its children. Switches above the same children are one domain, as in a fat tree, of
which Slurm's guide says that one of them suffices.
"""

from typing import NamedTuple

from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._names import Note, checked_name, some
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


def tree_network(switches: list[Switch], whole: Field, note: Note) -> NetworkTopology:
    """The network of these switches.

    :param whole: where they stand, for messages.
    :param note: receives switches without nodes, and what is below two switches that differ: of
        leaf switches the first one keeps its nodes, of others the one with the most children.
    :raises ValueError: a switch is there twice, below itself or missing, or there is no node.
    """
    named = _by_name(switches)
    tree = _Tree(note)
    for name in _from_below(named, whole):
        tree.add(named[name])
    if not tree.leaf_of:
        raise whole.error("there is no node")
    height = 1 + max(tree.level.values())
    if height > _LEVELS:
        raise whole.error(f"{height} levels of switches, allowed are {_LEVELS}")
    layers = [f"level{number}" for number in range(height - 1, -1, -1)]
    places = {leaf: tree.place(leaf) for leaf in dict.fromkeys(tree.leaf_of.values())}
    with whole.named():
        return NetworkTopology(layers, {node: places[leaf] for node, leaf in tree.leaf_of.items()})


class _Tree:
    """Switches, each added after its children, as a tree of domains."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._same: dict[object, str] = {}
        self._stands_for: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self.leaf_of: dict[str, str] = {}
        self.level: dict[str, int] = {}

    def add(self, switch: Switch) -> None:
        """Make a domain of a switch, unless another one has the same below it."""
        name, stands_for = switch.name, self._stands_for
        below = dict.fromkeys(stands_for[child] for child in switch.switches if child in stands_for)
        if not below and not switch.nodes:
            self._note(switch.field, f"switch {show(name)} has no nodes")
            return
        first = self._same.setdefault((frozenset(below), frozenset(switch.nodes)), name)
        if first != name:
            stands_for[name] = first
            if switch.nodes:
                self._note(switch.field, f"switch {show(name)} has the nodes of {show(first)}")
            return
        nodes = self._free(switch, self.leaf_of, switch.nodes)
        children = self._free(switch, self._parents, tuple(below))
        if not nodes and not children:
            return
        stands_for[name] = name
        self.level[name] = 1 + max((self.level[child] for child in children), default=-1)
        self.leaf_of |= dict.fromkeys(nodes, name)
        self._parents |= dict.fromkeys(children, name)

    def _free(
        self, switch: Switch, owner: dict[str, str], names: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Those that are below no other switch yet."""
        taken: dict[str, list[str]] = {}
        for name in names:
            if name in owner:
                taken.setdefault(owner[name], []).append(name)
        for other, its in taken.items():
            text = f"below {show(other)} already, and kept there: {some(its)}"
            self._note(switch.field, text)
        return tuple(name for name in names if name not in owner)

    def place(self, leaf: str) -> dict[str, str]:
        """The labels of the nodes of a leaf switch."""
        labels, above = {}, leaf
        while above:
            labels[f"level{self.level[above]}"] = above
            above = self._parents.get(above, "")
        return labels


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
    """All of them, each after its children; of a level, those with the most children first."""
    waits_for, height = {}, dict.fromkeys(named, 0)
    above: dict[str, list[str]] = {}
    for name, switch in named.items():
        waits_for[name] = len(switch.switches)
        for child in switch.switches:
            if child not in named:
                raise switch.field.error(f"there is no switch {show(child)}")
            above.setdefault(child, []).append(name)
    order = [name for name, count in waits_for.items() if count == 0]
    for name in order:
        for parent in above.get(name, ()):
            waits_for[parent] -= 1
            height[parent] = max(height[parent], height[name] + 1)
            if waits_for[parent] == 0:
                order.append(parent)
    if len(order) < len(named):
        circle = next(name for name, count in waits_for.items() if count)
        raise whole.error(f"switch {show(circle)} is below itself, or above one that is")
    return sorted(order, key=lambda name: (height[name], -len(named[name].switches)))


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
    switches = []
    for path in sorted(kept, key=len, reverse=True):
        name = checked_name(names[path], "switch")
        if len(path) == depth:
            nodes = tuple(checked_name(child[-1], "node") for child in below[path])
            switches.append(Switch(name, (), nodes))
        else:
            switches.append(Switch(name, tuple(names[stands[child]] for child in below[path]), ()))
    return switches
