"""The request of a gang to a network."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from hivecore._quantities import as_amounts
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


_by_level = amounts(1, MOST)


class _Pods(Named, frozen=True):
    pods: Annotated[int, within(1, MOST)]


class TopologyRole(_Pods, frozen=True):
    """Pods of a gang that take other amounts than its other pods, such as a leader.

    :param name: the name of the role.
    :param pods: the number of pods, 1 to 2**31.
    :param amounts: what each takes of a node, by resource, in multiples of 0.001.
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
    """A gang whose pods should be close to each other.

    :param name: the owner, unique in the network.
    :param pods: the number of equal pods, 1 to 2**31.
    :param must: one domain of this layer must hold all pods; "": no such limit.
    :param prefer: the narrowest layer to try; if no domain of it has room, wider layers are tried.
        "": a single node is tried first.
    :param multiple: by layer ("node" for nodes): the number of pods in each domain is a multiple of
        this. It applies to the domain that holds all pods and to those in it, not to wider ones: a
        gang that fits into one domain of a narrower layer is not divided, and may have any size.
    :param per_domain: by layer ("node" for nodes): at most so many pods in each domain.
    :param balance: the layer whose domains get pods as evenly as possible: among placements that
        use the fewest domains of this layer and of wider ones, the fullest domain has the fewest
        pods. "": none.
    :param amounts: what a pod takes of a node, by resource, in multiples of 0.001; by default one
        slot.
    :param existing: the number of running pods on each node that the gang should be close to.
    :param cost: the cost of using each node.
    :param role: more pods of the gang, with other amounts; not with ``multiple``, ``per_domain`` or
        ``balance``.
    :raises ValueError: a number is out of range, or ``role`` is given with one of these.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.topology import TopologyRequest
    >>> request = TopologyRequest("train", 16, must="spine", multiple={"rack": 4})
    >>> request.amounts, request.replace(must="").must
    ((('slots', 1),), '')
    """

    must: str = ""
    prefer: str = ""
    multiple: Annotated[Pairs, _by_level] = ()
    per_domain: Annotated[Pairs, _by_level] = ()
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
                raise ValueError(f"role: cannot be combined with {name}")
