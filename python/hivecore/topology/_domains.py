"""The domains of a network: from names to numbers, level by level."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from hivecore._arguments import as_dict, as_mapping, as_name, as_tuple

__all__ = ["Domains"]


class Domains:
    """Numbers of domains. Level 0 is the whole network, then come the layers, the last level is the
    nodes.

    A domain is identified by its name and the domain around it: equal names inside different
    domains are different domains. Nodes without a label of a layer that share the next narrower
    domain have a domain of their own there.

    :param before: the domains before a change: a node that is in both is the same node.
    :param added: a node that is added to those before, for messages.
    """

    def __init__(
        self, layers: object, nodes: object, before: "Domains | None" = None, added: str = ""
    ) -> None:
        self.layers = tuple(as_name(layer, "layers") for layer in as_tuple(layers, "layers"))
        if len(set(self.layers)) != len(self.layers) or "node" in self.layers:
            raise ValueError("layers: names must differ from each other and from 'node'")
        if len(self.layers) > 60:
            raise ValueError(f"layers: {len(self.layers)} are more than 60")
        self.levels = ("", *self.layers, "node")
        self._level_numbers = {name: number for number, name in enumerate(self.levels)}
        given = as_mapping(nodes, "nodes")
        paths = {}
        for name in given:
            what = "labels" if added and name == added else f"labels in nodes[{name!r}]"
            paths[as_name(name, "nodes")] = self._path(name, given[name], what)
        self._tree(paths)
        self.labels = {name: dict(given[name]) for name in self.nodes}
        known = {} if before is None else before.marks
        #: by node, an object that a removed node of the same name did not have
        self.marks: dict[str, object] = {name: known.get(name) or object() for name in self.nodes}

    def _path(self, name: str, labels: object, what: str) -> tuple[tuple[str, ...], ...]:
        """The key of each domain of a node, unique inside the domain around it.

        :param what: what messages call the labels.
        """
        known: Mapping[Any, Any] = as_dict(labels, what)
        for layer in known:
            if layer not in self.layers:
                raise ValueError(f"{what}: {layer!r} is no layer")
        path: list[tuple[str, ...]] = [("", name)]
        for layer in reversed(self.layers):
            if layer in known:
                path.append((as_name(known[layer], f"{what}[{layer!r}]"),))
            else:
                path.append(("", *path[-1]))
        return tuple(reversed(path))

    def _tree(self, paths: Mapping[str, tuple[tuple[str, ...], ...]]) -> None:
        """Number all domains; the children of a domain have consecutive numbers."""
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
        """The number of a level; a KeyError names the argument."""
        try:
            return self._level_numbers[layer]
        except (KeyError, TypeError):
            known = ", ".join(filter(None, self._level_numbers)) or "none"
            message = f"{argument}: there is no layer {layer!r}; known are {known}"
            raise KeyError(message) from None

    def number(self, node: object) -> int:
        try:
            return self.numbers[node]  # type: ignore[index]
        except (KeyError, TypeError):
            raise KeyError(f"there is no node {node!r}") from None

    def around(self, node: object) -> tuple[str, ...]:
        """The names of the domains around a node, from wide to narrow, and its own."""
        path = self.path(len(self.layers) + 1, self.number(node))
        return tuple(self.names[level][domain] for level, domain in enumerate(path) if level)

    def path(self, level: int, domain: int) -> list[int]:
        """The numbers of the domains around a domain, from level 0, and its own."""
        path = [domain]
        for above in range(level, 0, -1):
            path.append(self.parents_of[above][path[-1]])
        return path[::-1]

    def _parents(self, level: int) -> list[int]:
        """The parent of each domain of the next level."""
        return [parent for parent, count in enumerate(self.counts[level]) for _ in range(count)]
