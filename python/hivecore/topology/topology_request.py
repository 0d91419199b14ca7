"""What a gang asks of a network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from hivecore._arguments import as_amounts, as_int, as_name
from hivecore._thousandths import Amounts, AmountsLike, as_fractions

__all__ = ["MOST", "Pairs", "PairsLike", "TopologyRequest", "TopologyRole"]

Pairs = tuple[tuple[str, int], ...]
PairsLike = Mapping[str, int] | Iterable[tuple[str, int]]

#: The largest number of pods, or of slots of a node, and the largest sum of costs.
MOST = 2**31


@dataclass(frozen=True, slots=True, init=False)
class TopologyRole:
    """Pods of a gang that take something else than its others, such as a leader.

    :param name: of the role.
    :param pods: how many there are, 1 to 2**31.
    :param amounts: what each takes of a node, by resource: whole units or thousandths, such as
        0.25.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.topology import TopologyRole
    >>> TopologyRole("leader", 1, {"cpu": 32}).pods
    1
    """

    name: str
    pods: int
    amounts: Amounts

    def __init__(self, name: str, pods: int, amounts: AmountsLike) -> None:
        set_field = object.__setattr__
        set_field(self, "name", as_name(name, "name"))
        set_field(self, "pods", as_int(pods, "pods", 1, MOST))
        set_field(self, "amounts", as_fractions(amounts, "amounts", 1, 2**62))
        if not self.amounts:
            raise ValueError("amounts: is empty")


@dataclass(frozen=True, slots=True, init=False)
class TopologyRequest:
    """A gang whose pods are to be near to each other.

    :param name: the owner, unique in the network.
    :param pods: how many there are, all alike, 1 to 2**31.
    :param must: the layer of which one domain has to hold all of them; "": the whole network may.
    :param prefer: the layer of which one domain is to hold all of them; wider layers are tried if
        none can, narrower ones are not. "": as narrow as can be, a single node first.
    :param multiple: by layer, "node" for the nodes: each domain that is used gets a multiple of so
        many pods, so that segments are equal. This holds for the domain that holds all pods and for
        those in it, not for domains around it: a gang that fits into one domain of a narrower layer
        is not divided between domains of this one, and may have any number of pods.
    :param amounts: what a pod takes of a node, by resource: whole units or thousandths, such as
        0.25; a slot if nothing else is said.
    :param existing: how many pods that it wants to be near to are on a node, by node.
    :param cost: of using a node, by node.
    :param role: more pods of the gang, which take something else; not with ``multiple``.
    :raises ValueError: a number is out of range, or ``role`` and ``multiple`` are both given.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.topology import TopologyRequest
    >>> TopologyRequest("train", 16, must="spine", multiple={"rack": 4}).amounts
    (('slots', 1),)
    """

    name: str
    pods: int
    must: str
    prefer: str
    multiple: Pairs
    amounts: Amounts
    existing: Pairs
    cost: Pairs
    role: TopologyRole | None

    def __init__(
        self,
        name: str,
        pods: int,
        *,
        must: str = "",
        prefer: str = "",
        multiple: PairsLike = (),
        amounts: AmountsLike = (("slots", 1),),
        existing: PairsLike = (),
        cost: PairsLike = (),
        role: TopologyRole | None = None,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "name", as_name(name, "name"))
        set_field(self, "pods", as_int(pods, "pods", 1, MOST))
        set_field(self, "must", must if must == "" else as_name(must, "must"))
        set_field(self, "prefer", prefer if prefer == "" else as_name(prefer, "prefer"))
        set_field(self, "multiple", as_amounts(multiple, "multiple", 1, MOST))
        set_field(self, "amounts", as_fractions(amounts, "amounts", 1, 2**62))
        set_field(self, "existing", as_amounts(existing, "existing", 0, MOST))
        set_field(self, "cost", as_amounts(cost, "cost", 0, MOST))
        if role is not None and not isinstance(role, TopologyRole):
            raise TypeError(f"role must be a TopologyRole, not {type(role).__name__}")
        if role is not None and self.multiple:
            raise ValueError("role: is not with multiple")
        set_field(self, "role", role)
        if not self.amounts:
            raise ValueError("amounts: is empty")
        for field in ("existing", "cost"):
            total = sum(amount for _, amount in getattr(self, field))
            if total > MOST:
                raise ValueError(f"{field}: is {total} in all, allowed are up to {MOST}")

    def replace(self, **changes: Any) -> Self:
        """The same request with other arguments.

        >>> from hivecore.topology import TopologyRequest
        >>> TopologyRequest("train", 16, must="rack").replace(must="").must
        ''
        """
        if len(changes) == 1 and "name" in changes:
            return self._renamed(as_name(changes["name"], "name"))
        mine = {name: getattr(self, name) for name in self.__slots__}
        return type(self)(**{**mine, **changes})

    def _renamed(self, name: str) -> Self:
        """The same for another owner; all else has been checked."""
        other = object.__new__(type(self))
        for put, get in _CONTENT:
            put(other, get(self))
        _put_name(other, name)
        return other


#: How fields are written and read past the checks; a request is renamed for every gang.
_FIELDS = [TopologyRequest.__dict__[name] for name in TopologyRequest.__slots__]
_CONTENT = [(field.__set__, field.__get__) for field in _FIELDS if field.__name__ != "name"]
_put_name = TopologyRequest.__dict__["name"].__set__
