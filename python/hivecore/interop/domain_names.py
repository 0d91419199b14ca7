"""Unique names of network domains, for formats that identify a domain by its name."""

from collections import Counter
from collections.abc import Iterable

from hivecore.interop.kubernetes.messages import show
from hivecore.topology import NetworkTopology

__all__ = ["distinct_names", "paths_of"]

_Path = tuple[str, ...]


def distinct_names(paths: Iterable[_Path]) -> dict[_Path, str]:
    """Return each domain's name, with the names of its parents in front where it is not unique.

    :param paths: of each domain, the names from wide to narrow, its own last; all different.

    >>> from hivecore.interop.domain_names import distinct_names
    >>> names = distinct_names([("s1", "b1"), ("s2", "b1"), ("s2", "b2")])
    >>> list(names.values())
    ['s1.b1', 's2.b1', 'b2']
    """
    given = list(paths)
    times = Counter(path[-1] for path in given)
    taken = {name for name, count in times.items() if count == 1}
    names = {}
    for path in given:
        name = path[-1]
        if times[name] > 1:
            long, number = ".".join(path), 1
            name = long
            while name in taken:
                number += 1
                name = f"{long}-{number}"
            taken.add(name)
        names[path] = name
    return names


def paths_of(network: NetworkTopology) -> dict[str, _Path]:
    """Return, for each node, the names of its domains and its own.

    :raises ValueError: two domains have the same path; a domain for a missing label is named after
        its content, which may be taken.

    >>> from hivecore.interop.domain_names import paths_of
    >>> from hivecore.topology import NetworkTopology
    >>> paths_of(NetworkTopology(["rack"], {"n1": {"rack": "r1"}}))
    {'n1': ('r1', 'n1')}
    """
    for end, layer in enumerate(network.layers, 1):
        paths = Counter(network.domain(nodes[0])[:end] for nodes in network.domains(layer))
        path, times = paths.most_common(1)[0]
        if times > 1:
            raise ValueError(f"network: two domains are called {show('/'.join(path))}")
    return {node: network.domain(node) for node in network.nodes}
