"""The domains of a network by name, and their numbers level by level."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from hivecore._arguments import as_dict, as_mapping, as_name, as_tuple

__all__ = ["Domains"]


class Domains:
    """Level 0 is all of the network, then come the layers, the last level are the nodes.

    A domain is what it is called and what it is in: equal names in different domains are different
    domains. A node without a label of a layer has a domain of its own there, with those that share
    its next narrower one.

    :param before: the domains that these follow: a node that is in both is the same node.
    """

    def __init__(self, layers: object, nodes: object, before: "Domains | None" = None) -> None:
        self.layers = tuple(as_name(one, "layers") for one in as_tuple(layers, "layers"))
        if len(set(self.layers)) != len(self.layers) or "node" in self.layers:
            raise ValueError("layers: names must differ from each other and from 'node'")
        if len(self.layers) > 60:
            raise ValueError(f"layers: {len(self.layers)} are more than 60")
        self.levels = ("", *self.layers, "node")
        self._level_numbers = {name: number for number, name in enumerate(self.levels)}
        given = as_mapping(nodes, "nodes")
        paths = {as_name(name, "nodes"): self._path(name, given[name]) for name in given}
        self._tree(paths)
        self.labels = {name: dict(given[name]) for name in self.nodes}
        known = {} if before is None else before.marks
        #: tells a node from another of its name that was there before it
        self.marks: dict[str, object] = {name: known.get(name) or object() for name in self.nodes}

    def _path(self, name: str, labels: object) -> tuple[tuple[str, ...], ...]:
        """What tells each of its domains from others within the one around it."""
        known: Mapping[Any, Any] = as_dict(labels, f"nodes[{name!r}]")
        for layer in known:
            if layer not in self.layers:
                raise ValueError(f"nodes[{name!r}]: {layer!r} is no layer")
        path: list[tuple[str, ...]] = [("", name)]
        for layer in reversed(self.layers):
            if layer in known:
                path.append((as_name(known[layer], f"nodes[{name!r}][{layer!r}]"),))
            else:
                path.append(("", *path[-1]))
        return tuple(reversed(path))

    def _tree(self, paths: Mapping[str, tuple[tuple[str, ...], ...]]) -> None:
        """Number all of them, the children of a domain one after the other."""
        groups = [list(paths)]
        self.counts: list[list[int]] = []
        self.names: list[list[str]] = [[""]]
        for level in range(len(self.layers) + 1):
            counts: list[int] = []
            names: list[str] = []
            below: list[list[str]] = []
            for group in groups:
                children: dict[tuple[str, ...], list[str]] = {}
                for name in group:
                    children.setdefault(paths[name][level], []).append(name)
                counts.append(len(children))
                below.extend(children.values())
                names.extend(key[-1] if key[0] == "" else key[0] for key in children)
            self.counts.append(counts)
            self.names.append(names)
            groups = below
        self.nodes = tuple(self.names[-1])
        self.begins = [[0, *accumulate(counts)] for counts in self.counts]
        self.parents_of = [[], *(self._parents(level) for level in range(len(self.counts)))]
        self.numbers = {name: number for number, name in enumerate(self.nodes)}

    def level(self, layer: str, argument: str) -> int:
        """The number of a level; an error that names the argument."""
        try:
            return self._level_numbers[layer]
        except (KeyError, TypeError):
            raise KeyError(f"{argument}: there is no layer {layer!r}") from None

    def number(self, node: object) -> int:
        try:
            return self.numbers[node]  # type: ignore[index]
        except (KeyError, TypeError):
            raise KeyError(f"there is no node {node!r}") from None

    def around(self, node: object) -> tuple[str, ...]:
        """The names of the domains that a node is in, from wide to narrow, and its own."""
        path = self.path(len(self.layers) + 1, self.number(node))
        return tuple(self.names[level][one] for level, one in enumerate(path) if level)

    def path(self, level: int, domain: int) -> list[int]:
        """The numbers of the domains that one is in, from level 0 to itself."""
        found = [domain]
        for one in range(level, 0, -1):
            found.append(self.parents_of[one][found[-1]])
        return found[::-1]

    def _parents(self, level: int) -> list[int]:
        """Of each domain of the next level, the one around it."""
        return [parent for parent, count in enumerate(self.counts[level]) for _ in range(count)]
