"""Which node's victims are evicted first when the victims of a gang are on several."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

__all__ = ["Evictions"]

_MOST_REMEMBERED = 100_000


class Evictions:
    """Which pod of a gang has had the victims of which node named.

    Kubernetes evicts the victims of one node at a time for a pod. Each pod of a gang gets another
    node, so that all of them are evicted at once: the least by name, and it keeps that while
    victims are on it. What is kept under a gang's name ends with the last of its victims.

    >>> from hivecore.interop.kubernetes.serving.evictions import Evictions
    >>> evictions = Evictions()
    >>> victims = {"n1": ["a"], "n2": ["b"]}
    >>> [evictions.node("gang", pod, victims) for pod in ("p0", "p1", "p0")]
    ['n1', 'n2', 'n1']
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, str]] = {}
        self._victims: dict[str, set[str]] = {}
        self._gangs: dict[str, str] = {}

    def node(self, gang: str, pod: str, victims: Mapping[str, Sequence[str]]) -> str | None:
        """The node whose victims are evicted for this pod; ``None``: it has no victims."""
        if not victims:
            self._end(gang)
            return None
        named = set(chain.from_iterable(victims.values()))
        if named.isdisjoint(self._victims.get(gang, ())):
            self._end(gang)  # another preemption under the same name
        self._victims[gang] = named
        nodes = self._nodes.setdefault(gang, {})
        if len(self._nodes) > _MOST_REMEMBERED:
            self._end(next(iter(self._nodes)))
        if nodes.get(pod) not in victims:
            nodes.pop(pod, None)
            shared = Counter(nodes.values())
            self._gangs[pod] = gang
            nodes[pod] = min(victims, key=lambda node: (shared[node], node))
        return nodes[pod]

    def forget(self, pod: str) -> None:
        """The pod is bound, or gone."""
        self._nodes.get(self._gangs.pop(pod, ""), {}).pop(pod, None)

    def _end(self, gang: str) -> None:
        for pod in self._nodes.pop(gang, ()):
            self._gangs.pop(pod, None)
        self._victims.pop(gang, None)
