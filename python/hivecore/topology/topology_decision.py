"""Where a gang would go."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt

from hivecore._arguments import as_int, as_name, as_tuple
from hivecore._record import Record
from hivecore.decisions import Outcome, Refusal
from hivecore.errors import CertificateError
from hivecore.topology.network_ledger import NetworkLedger
from hivecore.topology.node_pods import NodePods
from hivecore.topology.proof import check_placement
from hivecore.topology.topology_request import MOST, TopologyRequest

__all__ = ["TopologyDecision", "made_decision", "placement_to_commit"]


class _Marked:
    """No field of a decision: a copy is without it, and knows its nodes by their names alone."""

    __slots__ = ("_marks",)

    _marks: Mapping[str, object]
    """By node, what tells it from a later one of its name."""


class TopologyDecision(_Marked, Record, frozen=True):
    """What `NetworkTopology.schedule` would do; nothing has changed yet.

    :param request: what was decided on.
    :param outcome: "bind" or "wait".
    :param placement: nodes in the order of the network, so that neighbours in it are near to each
        other; empty unless it binds.
    :param layer: of which one domain holds all; "node", or "" for the whole network.
    :param domain: the names of that domain and of those around it, from wide to narrow.
    :param refusal: why it waits; codes: "slots", "layer", "multiple", "per_domain", "role", "work".
    :param optimal: whether no placement is better; else the search was cut short.
    :param victims: always empty.
    :param nodes: the only ones that could be used; ``None``: all.
    :param fewest: if it was cut short, by layer below: how many domains have to be used at least.
    """

    request: TopologyRequest
    outcome: Outcome
    placement: tuple[NodePods, ...] = ()
    layer: str = ""
    domain: tuple[str, ...] = ()
    refusal: Refusal | None = None
    optimal: bool = True
    fewest: tuple[tuple[str, int], ...] = ()
    victims: tuple[str, ...] = ()
    nodes: tuple[str, ...] | None = None

    @property
    def reason(self) -> str:
        """Why it waits, in a line; empty when it does not."""
        return self.refusal.reason if self.refusal else ""

    @property
    def ranks(self) -> tuple[str, ...]:
        """The node of each pod, so that neighbours in rank are near to each other; those of the
        other role are left out.

        >>> from hivecore.topology import NetworkTopology, TopologyRequest
        >>> network = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
        >>> network.set_slots([2, 2])
        >>> network.schedule(TopologyRequest("train", 3)).ranks
        ('a', 'a', 'b')
        """
        return tuple(one.node for one in self.placement for _ in range(one.pods))

    def verify(self, network: NetworkLedger, *, most: npt.ArrayLike | None = None) -> None:
        """Check in plain Python that the gang fits where it would go, that one domain of the layer
        holds all, and, of an optimal decision without multiples and roles, that none of a narrower
        one that may be has room for it.

        :param network: as it was when the decision was made.
        :param most: as it was given to ``schedule``.
        :raises CertificateError: something is not so, which the message says.
        """
        given: Iterable[object] = self.placement  # decisions may be made by hand
        for one in given:
            if not isinstance(one, NodePods):
                raise CertificateError(f"the placement has {one!r}, which is no NodePods")
        if self.outcome == "bind":
            where = self.layer, self.placement, self.nodes and frozenset(self.nodes)
            check_placement(self.request, *where, self.optimal, network.copy(), most)


#: How the marks are written past the frozen fields.
_put_marks = _Marked.__dict__["_marks"].__set__


def made_decision(decision: TopologyDecision, marks: Mapping[str, object]) -> TopologyDecision:
    """The decision, for these very nodes.

    :param marks: of the nodes of a network.
    """
    _put_marks(decision, {one.node: marks[one.node] for one in decision.placement})
    return decision


def placement_to_commit(decision: object) -> tuple[NodePods, ...]:
    """Where a decision to bind places all pods of its request; decisions may be made by hand.

    :raises ValueError: its outcome is not "bind", a node is named twice or gets no pod, a number is
        out of range, or the numbers do not add up to those of the request.
    :raises TypeError: something is of a wrong type.
    """
    if not isinstance(decision, TopologyDecision):
        raise TypeError(f"decision must be a TopologyDecision, not {type(decision).__name__}")
    if decision.outcome != "bind":
        raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
    request = decision.request
    if not isinstance(request, TopologyRequest):
        raise TypeError(f"decision.request must be a TopologyRequest, not {type(request).__name__}")
    given = as_tuple(decision.placement, "decision.placement")
    placed = tuple([_as_node_pods(one) for one in given])
    if len({one.node for one in placed}) < len(placed):
        raise ValueError("decision.placement: a node is named twice")
    role = request.role
    for kind, pods, wanted in (
        ("pods", sum(one.pods for one in placed), request.pods),
        ("others", sum(one.others for one in placed), role.pods if role else 0),
    ):
        if pods != wanted:
            raise ValueError(f"decision.placement: {pods} {kind} are placed, not {wanted}")
    return placed


def _as_node_pods(given: object) -> NodePods:
    if not isinstance(given, NodePods):
        raise TypeError(f"decision.placement must hold NodePods, not {type(given).__name__}")
    node = as_name(given.node, "decision.placement: a node")
    what = f"decision.placement: pods of node {node!r}"
    placed = NodePods(node, _as_count(given.pods, what), _as_count(given.others, what))
    if placed.pods + placed.others == 0:
        raise ValueError(f"{what}: there are none")
    return placed


def _as_count(number: Any, name: str) -> int:
    if isinstance(number, bool):
        raise TypeError(f"{name} must be an integer, not bool")
    return as_int(number, name, 0, MOST)
