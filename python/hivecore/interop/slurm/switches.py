"""Switches and blocks as a network, and a network as switches or blocks.

A switch without switches below it is of level 0, any other one of one level more than the highest
of these, as Slurm counts. Levels are the layers of the network: "level1", "level0". Where a switch
leaves out a level, its nodes have no label there. Blocks are the layer "block"; so many of them in
a row as make up a larger size are a domain of the layer "block" and the size.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hivecore.topology import NetworkTopology

__all__ = [
    "Block",
    "Switch",
    "blocks_of",
    "network_of_blocks",
    "network_of_switches",
    "switches_of",
]

_MOST_LEVELS = 60


class Switch(NamedTuple):
    """A switch with either switches or nodes below it."""

    name: str
    switches: tuple[str, ...]
    nodes: tuple[str, ...]


class Block(NamedTuple):
    """A block of nodes."""

    name: str
    nodes: tuple[str, ...]


def network_of_switches(switches: Sequence[Switch]) -> NetworkTopology:
    """The network below switches; ValueError: they are no tree."""
    known = {one.name: one for one in switches}
    if len(known) != len(switches):
        raise ValueError("a switch is there twice")
    parent: dict[str, str] = {}
    for one in switches:
        if bool(one.switches) == bool(one.nodes):
            raise ValueError(f"switch {one.name!r} must have either switches or nodes")
        for below in one.switches:
            if below not in known:
                raise ValueError(f"switch {one.name!r}: there is no switch {below!r}")
            if below in parent:
                raise ValueError(f"switch {below!r} is below two others")
            parent[below] = one.name
    levels = _levels(known, parent)
    nodes: dict[str, dict[str, str]] = {}
    for one in switches:
        labels, above = {}, one.name if one.nodes else ""
        while above:
            labels[f"level{levels[above]}"] = above
            above = parent.get(above, "")
        for node in one.nodes:
            if node in nodes:
                raise ValueError(f"node {node!r} is below two switches")
            nodes[node] = labels
    top = max(levels.values(), default=-1)
    return NetworkTopology([f"level{level}" for level in range(top, -1, -1)], nodes)


def _levels(known: dict[str, Switch], parent: dict[str, str]) -> dict[str, int]:
    """Of each switch, from the lowest ones up."""
    levels: dict[str, int] = {}
    waiting = {name: len(one.switches) for name, one in known.items()}
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        below = known[name].switches
        levels[name] = 1 + max((levels[one] for one in below), default=-1)
        if levels[name] >= _MOST_LEVELS:
            raise ValueError(f"there are more than {_MOST_LEVELS} levels of switches")
        above = parent.get(name)
        if above is not None:
            waiting[above] -= 1
            if not waiting[above]:
                ready.append(above)
    for name in known:
        if name not in levels:
            raise ValueError(f"switch {name!r} is below itself")
    return levels


def switches_of(network: NetworkTopology) -> list[Switch]:
    """The switches of a network, the widest first; equal names in different domains get those of
    the domains around them.
    """
    paths: dict[tuple[str, ...], None] = {}
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node in network.nodes:
        labels = network.labels(node)
        path = tuple(labels.get(layer, "") for layer in network.layers)
        if not path or not path[-1]:
            path = (*path[:-1], f"{node}-switch")
        nodes.setdefault(path, []).append(node)
        for level in range(1, len(path) + 1):
            if path[level - 1]:
                paths.setdefault(tuple(one for one in path[:level] if one), None)
    called = Counter(path[-1] for path in paths)
    nodes_named = set(network.nodes)
    taken = {*called, *nodes_named}
    names: dict[tuple[str, ...], str] = {}
    for path in paths:
        name = path[-1]
        if called[name] > 1 or name in nodes_named:
            name = "-".join(path)
            while name in taken:
                name += "-switch"
            taken.add(name)
        names[path] = name
    below: dict[tuple[str, ...], list[str]] = {}
    for path, name in names.items():
        if len(path) > 1:
            below.setdefault(path[:-1], []).append(name)
    leaves = {tuple(one for one in path if one): some for path, some in nodes.items()}
    ordered = sorted(names, key=len)
    return [
        Switch(names[one], tuple(below.get(one, ())), tuple(leaves.get(one, ()))) for one in ordered
    ]


def network_of_blocks(blocks: Sequence[Block], sizes: Sequence[int]) -> NetworkTopology:
    """The network of blocks; ValueError: they or the sizes are not right."""
    if len({one.name for one in blocks}) != len(blocks):
        raise ValueError("a block is there twice")
    base = sizes[0] if sizes else min((len(one.nodes) for one in blocks), default=0)
    for size, before in zip(sizes[1:], sizes, strict=False):
        if size <= before or size % base:
            raise ValueError(f"block sizes must go up and be multiples of {base}, not {size}")
    layers = [*(f"block{size}" for size in reversed(sizes[1:])), "block"]
    nodes: dict[str, dict[str, str]] = {}
    for place, one in enumerate(blocks):
        labels = {f"block{size}": f"{place * base // size}" for size in sizes[1:]}
        for node in one.nodes:
            if node in nodes:
                raise ValueError(f"node {node!r} is in two blocks")
            nodes[node] = {**labels, "block": one.name}
    return NetworkTopology(layers, nodes)


def blocks_of(network: NetworkTopology, layer: str) -> list[Block]:
    """The domains of a layer as blocks; ValueError: a node has no label there."""
    if layer not in network.layers:
        raise ValueError(f"blocks: there is no layer {layer!r}")
    place = network.layers.index(layer)
    found: dict[tuple[str, ...], list[str]] = {}
    for node in network.nodes:
        if layer not in network.labels(node):
            raise ValueError(f"blocks: node {node!r} is in no {layer!r}")
        found.setdefault(network.domain(node)[: place + 1], []).append(node)
    called = Counter(path[-1] for path in found)
    return [
        Block(path[-1] if called[path[-1]] == 1 else "-".join(path), tuple(nodes))
        for path, nodes in found.items()
    ]
