"""The decision of a network on a gang."""

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
    """Holds what no copy of a decision has: which nodes it means, also if they are renamed."""

    __slots__ = ("_marks",)

    _marks: Mapping[str, object]
    """By node, an object that a later node of the same name does not have."""


class TopologyDecision(_Marked, Record, frozen=True):
    """What `NetworkTopology.schedule` decided; nothing has changed yet.

    :param request: the request.
    :param outcome: "bind" or "wait".
    :param placement: pods by node, in the order of the network, so that neighbours are close to
        each other; empty unless the outcome is "bind".
    :param layer: the layer of which one domain holds all pods; "node", or "": the whole network.
    :param domain: the names of the domains around this domain and its own, from wide to narrow.
    :param refusal: why it waits; codes: "slots", "layer", "multiple", "per_domain", "role", "work".
    :param optimal: whether no placement is better; if not, the search reached its limit.
    :param victims: always empty.
    :param nodes: the only nodes that were allowed; ``None``: all.
    :param fewest: if not optimal, a lower bound of the number of domains, for each layer below.
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
        """Why it waits, in one line; empty if it binds."""
        return self.refusal.reason if self.refusal else ""

    @property
    def ranks(self) -> tuple[str, ...]:
        """The node of each pod, in the order of their ranks: pods of neighbouring ranks are close
        to each other. Pods of the other role are left out.

        >>> from hivecore.topology import NetworkTopology, TopologyRequest
        >>> network = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
        >>> network.set_slots([2, 2])
        >>> network.schedule(TopologyRequest("train", 3)).ranks
        ('a', 'a', 'b')
        """
        return tuple(part.node for part in self.placement for _ in range(part.pods))

    def verify(self, network: NetworkLedger, *, most: npt.ArrayLike | None = None) -> None:
        """Check, without the kernel, that the gang fits and that one domain of ``layer`` holds all
        pods.

        For an optimal decision without multiples and roles, also that no domain of an allowed
        narrower layer has room for all.

        :param network: as it was when the decision was made.
        :param most: as given to ``schedule``.
        :raises CertificateError: a check fails; the message says which.
        """
        given: Iterable[object] = self.placement  # decisions may be made by hand
        for part in given:
            if not isinstance(part, NodePods):
                raise CertificateError(f"the placement has {part!r}, which is no NodePods")
        if self.outcome == "bind":
            where = self.layer, self.placement, self.nodes and frozenset(self.nodes)
            check_placement(self.request, *where, self.optimal, network.copy(), most)


#: Writes the marks of a frozen decision.
_put_marks = _Marked.__dict__["_marks"].__set__


def made_decision(decision: TopologyDecision, marks: Mapping[str, object]) -> TopologyDecision:
    """The decision with the marks of the nodes in its placement.

    :param marks: of all nodes of the network.
    """
    _put_marks(decision, {part.node: marks[part.node] for part in decision.placement})
    return decision


def placement_to_commit(decision: object) -> tuple[NodePods, ...]:
    """The checked placement of a decision that binds; decisions may be made by hand.

    :raises ValueError: its outcome is not "bind", a node occurs twice or has no pod, a number is
        out of range, or the numbers of pods differ from the request's.
    :raises TypeError: a value is of a wrong type.
    """
    if not isinstance(decision, TopologyDecision):
        raise TypeError(f"decision must be a TopologyDecision, not {type(decision).__name__}")
    if decision.outcome != "bind":
        raise ValueError(f"decision.outcome must be 'bind', not {decision.outcome!r}")
    request = decision.request
    if not isinstance(request, TopologyRequest):
        raise TypeError(f"decision.request must be a TopologyRequest, not {type(request).__name__}")
    given = as_tuple(decision.placement, "decision.placement")
    placed = tuple([_as_node_pods(part) for part in given])
    if len({part.node for part in placed}) < len(placed):
        raise ValueError("decision.placement: a node is named twice")
    role = request.role
    for kind, pods, wanted in (
        ("pods", sum(part.pods for part in placed), request.pods),
        ("others", sum(part.others for part in placed), role.pods if role else 0),
    ):
        if pods != wanted:
            raise ValueError(f"decision.placement: has {pods} {kind}, not {wanted}")
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
