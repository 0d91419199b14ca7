"""Which node's victims are evicted first when the victims of a gang are on several."""

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Evictions"]

_MOST_REMEMBERED = 100_000


class Evictions:
    """Which pod of a gang has had the victims of which node named.

    Kubernetes evicts the victims of one node at a time for a pod. Each pod of a gang gets another
    node, so that all of them are evicted at once: the least by name, and it keeps that while
    victims are on it.

    >>> from hivecore.interop.kubernetes.serving.evictions import Evictions
    >>> evictions = Evictions()
    >>> victims = {"n1": ["a"], "n2": ["b"]}
    >>> [evictions.node("gang", pod, victims) for pod in ("p0", "p1", "p0")]
    ['n1', 'n2', 'n1']
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, str]] = {}

    def node(self, gang: str, pod: str, victims: Mapping[str, Sequence[str]]) -> str | None:
        """The node whose victims are evicted for this pod; ``None``: it has no victims."""
        if not victims:
            self._nodes.pop(gang, None)
            return None
        nodes = self._nodes.setdefault(gang, {})
        if len(self._nodes) > _MOST_REMEMBERED:
            del self._nodes[next(iter(self._nodes))]
        if nodes.get(pod) not in victims:
            nodes.pop(pod, None)
            shared = Counter(nodes.values())
            nodes[pod] = min(victims, key=lambda node: (shared[node], node))
        return nodes[pod]
