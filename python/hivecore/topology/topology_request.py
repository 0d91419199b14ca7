"""The request of a gang to a network."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from hivecore._arguments import as_amounts
from hivecore._record import Named, amounts, within
from hivecore._thousandths import Amounts, AmountsLike, as_fractions

__all__ = ["MOST", "Pairs", "PairsLike", "TopologyRequest", "TopologyRole"]

Pairs = tuple[tuple[str, int], ...]
PairsLike = Mapping[str, int] | Iterable[tuple[str, int]]

#: The largest number of pods, or of slots of a node, and the largest sum of costs.
MOST = 2**31


def _amounts_of_pod(value: Any, name: str) -> Amounts:
    checked = as_fractions(value, name, 1, 2**62)
    if not checked:
        raise ValueError(f"{name}: is empty")
    return checked


def _by_node(value: Any, name: str) -> Pairs:
    checked = as_amounts(value, name, 0, MOST)
    total = sum(number for _, number in checked)
    if total > MOST:
        raise ValueError(f"{name}: is {total} in all, allowed are up to {MOST}")
    return checked


class _Pods(Named, frozen=True):
    pods: Annotated[int, within(1, MOST)]


class TopologyRole(_Pods, frozen=True):
    """Pods of a gang that take other amounts than its other pods, such as a leader.

    :param name: of the role.
    :param pods: the number of pods, 1 to 2**31.
    :param amounts: what each takes of a node, by resource: whole units or thousandths, such as
        0.25.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.topology import TopologyRole
    >>> TopologyRole("leader", 1, {"cpu": 32}).pods
    1
    """

    amounts: Annotated[Amounts, _amounts_of_pod]

    if TYPE_CHECKING:

        def __init__(self, name: str, pods: int, amounts: AmountsLike) -> None: ...

    def __post_init__(self) -> None:
        self._check()


class TopologyRequest(_Pods, frozen=True, kw_only=True):
    """A gang whose pods are to be near to each other.

    :param name: the owner, unique in the network.
    :param pods: the number of pods, all alike, 1 to 2**31.
    :param must: the layer of which one domain has to hold all of them; "": the whole network may.
    :param prefer: the layer of which one domain is to hold all of them; wider layers are tried if
        none can, narrower ones are not. "": as narrow as possible, a single node first.
    :param multiple: by layer, "node" for the nodes: each domain that is used gets a multiple of so
        many pods, so that segments are equal. This holds for the domain that holds all pods and for
        those in it, not for domains around it: a gang that fits into one domain of a narrower layer
        is not divided between domains of this one, and may have any number of pods.
    :param per_domain: by layer, "node" for the nodes: each domain gets at most so many pods.
    :param balance: the layer among whose domains the pods are as even as can be: no more of them
        are used than otherwise, and the most pods in one of them are the fewest; "": none. This
        counts after the layer that holds all, and the domains used of this layer and wider ones.
    :param amounts: what a pod takes of a node, by resource: whole units or thousandths, such as
        0.25; by default a slot.
    :param existing: how many pods that it wants to be near to are on a node, by node.
    :param cost: of using a node, by node.
    :param role: more pods of the gang, which take other amounts; not with ``multiple``,
        ``per_domain`` or ``balance``.
    :raises ValueError: a number is out of range, or ``role`` is given with one of these.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.topology import TopologyRequest
    >>> request = TopologyRequest("train", 16, must="spine", multiple={"rack": 4})
    >>> request.amounts, request.replace(must="").must
    ((('slots', 1),), '')
    """

    must: str = ""
    prefer: str = ""
    multiple: Annotated[Pairs, amounts(1, MOST)] = ()
    per_domain: Annotated[Pairs, amounts(1, MOST)] = ()
    balance: str = ""
    amounts: Annotated[Amounts, _amounts_of_pod] = (("slots", 1),)
    existing: Annotated[Pairs, _by_node] = ()
    cost: Annotated[Pairs, _by_node] = ()
    role: TopologyRole | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            pods: int,
            *,
            must: str = "",
            prefer: str = "",
            multiple: PairsLike = (),
            per_domain: PairsLike = (),
            balance: str = "",
            amounts: AmountsLike = (("slots", 1),),
            existing: PairsLike = (),
            cost: PairsLike = (),
            role: TopologyRole | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        for name in ("multiple", "per_domain", "balance"):
            if self.role is not None and getattr(self, name):
                raise ValueError(f"role: is not with {name}")
