"""What is free on the nodes of a network, by resource, and what owners take."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hivecore._thousandths import THOUSAND, Amount, Amounts, counted, of_thousandths
from hivecore.topology.topology_request import MOST, Pairs

__all__ = ["Free", "Ints", "Owner", "together"]

Ints = npt.NDArray[np.int64]
_MOST = 2**62


class Owner(NamedTuple):
    """A placed owner: what each pod takes, what each pod of its role takes, and where they are."""

    amounts: Amounts
    more: Amounts
    pods: tuple[tuple[int, int, int], ...]
    """(node, pods, pods of the role)."""

    def wanted(self) -> Iterator[tuple[str, Any, int]]:
        """(resource, amount of each pod, index of the number of these pods in ``pods``)."""
        for at, amounts in ((1, self.amounts), (2, self.more)):
            for resource, amount in amounts:
                yield resource, amount, at

    def by_node(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """What it takes of each of its nodes, by resource."""
        for node, pods, others in self.pods:
            yield node, together(self.amounts, pods, self.more, others)


def together(amounts: Amounts, pods: int, more: Amounts, others: int) -> dict[str, Any]:
    """What these numbers of pods take in all, by resource; not limited to 64 bits."""
    taken: dict[str, Any] = {resource: pods * amount for resource, amount in amounts}
    for resource, amount in more:
        taken[resource] = taken.get(resource, 0) + others * amount
    return taken


class Free:
    """Amounts by resource and node, 0 to 2**62; a resource that was never set is 0 everywhere.

    A resource is counted in thousandths after the first fraction of it. An unusable node has
    nothing free, whatever its amounts are.
    """

    __slots__ = ("_nothing", "amounts", "fine", "nodes", "usable")

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.usable: npt.NDArray[np.bool_] | None = None  # None: all nodes
        self.amounts: dict[str, Ints] = {}
        self.fine: set[str] = set()  # counted in thousandths
        self._nothing: Ints = np.zeros(nodes, dtype=np.int64)

    def refine(self, resources: Collection[str]) -> None:
        """Count resources in thousandths from now on."""
        known = [name for name in resources if name in self.amounts]
        for name in known:
            if self.amounts[name].max(initial=0) > _MOST // THOUSAND:
                raise ValueError(f"{name!r}: too much is free to count it in thousandths")
        for name in known:
            self.amounts[name] = self.amounts[name] * THOUSAND
        self.fine.update(resources)

    def coarsen(self, resources: Collection[str]) -> None:
        """Undo the last ``refine``."""
        for name in resources:
            if name in self.amounts:
                self.amounts[name] = self.amounts[name] // THOUSAND
        self.fine.difference_update(resources)

    def number(self, resource: str, amount: Amount) -> int:
        """The number that an amount is counted as."""
        number = counted(amount, resource in self.fine)
        if number > _MOST:
            raise ValueError(f"{resource!r}: {amount} is too much to count in thousandths")
        return number

    def amount(self, resource: str, number: int) -> Amount:
        """The amount that a number means."""
        return of_thousandths(number) if resource in self.fine else number

    def counted(self, amounts: Amounts) -> Pairs:
        """The amounts of a pod as numbers."""
        if not self.fine:
            return amounts  # type: ignore[return-value]
        return tuple((name, counted(amount, name in self.fine)) for name, amount in amounts)

    def _counted(self, owner: Owner) -> Owner:
        return owner._replace(amounts=self.counted(owner.amounts), more=self.counted(owner.more))

    def of(self, resource: str) -> Ints:
        """What is free of a resource on each node; read-only."""
        free = self.amounts.get(resource, self._nothing)
        return free if self.usable is None else np.where(self.usable, free, 0)

    def total(self, resource: str) -> Amount:
        """The sum over all usable nodes; not limited to 64 bits."""
        return self.amount(resource, sum(self.of(resource).tolist()))

    def set_usable(self, node: int, usable: bool) -> None:
        """Set whether a node is usable."""
        mask = np.ones(self.nodes, dtype=bool) if self.usable is None else self.usable
        mask[node] = usable
        self.usable = None if mask.all() else mask

    def unusable(self) -> list[int]:
        """The nodes that are not usable."""
        return [] if self.usable is None else np.flatnonzero(~self.usable).tolist()

    def of_nodes(self, nodes: list[int]) -> Self:
        """The same for these nodes in this order; -1 is a new node with nothing free."""
        moved = type(self)(len(nodes))
        places = np.array(nodes, dtype=np.int64)
        moved.amounts = {name: np.append(free, 0)[places] for name, free in self.amounts.items()}
        moved.fine = self.fine.copy()
        if self.usable is not None:
            usable = np.append(self.usable, True)[places]
            moved.usable = None if usable.all() else usable
        return moved

    def part(self, resources: Iterable[str], nodes: Ints) -> dict[str, Ints | None]:
        """What is free of some resources on some nodes; ``None``: the resource is unknown."""
        known = self.amounts
        return {name: known[name][nodes] if name in known else None for name in resources}

    def restore(self, part: dict[str, Ints | None], nodes: Ints) -> None:
        """Undo what has changed since `part`."""
        for resource, values in part.items():
            if values is None:
                self.amounts.pop(resource, None)
            else:
                self.amounts[resource][nodes] = values

    def set(self, resource: str, nodes: Ints, values: Ints) -> None:
        """Set what is free of a resource on some nodes."""
        if resource not in self.amounts:
            self.amounts[resource] = self._nothing.copy()
        self.amounts[resource][nodes] = values

    def room(self, amounts: Amounts, nodes: Ints) -> Ints:
        """How many such pods fit on each of these nodes."""
        room: Any = MOST
        pairs: Any = self.counted(amounts) if self.fine else amounts
        for resource, amount in pairs:
            free = self.amounts.get(resource, self._nothing)[nodes]
            room = np.minimum(free if amount == 1 else free // amount, room)
        usable_room: Ints = room if self.usable is None else np.where(self.usable[nodes], room, 0)
        return usable_room

    def has_room(self, owner: Owner, *, on_healthy: bool = True) -> bool:
        """Whether the nodes have what an owner takes.

        :param on_healthy: whether unhealthy nodes count as having nothing.
        """
        return all(
            resource in self.amounts
            and amount <= int(self.amounts[resource][node])
            and (not on_healthy or self.usable is None or bool(self.usable[node]))
            for node, taken in (self._counted(owner) if self.fine else owner).by_node()
            for resource, amount in taken.items()
            if amount
        )

    def gains(self, owner: Owner, amounts: Amounts) -> Iterator[tuple[int, int]]:
        """(node, for how many more such pods there is room if the owner ends)."""
        amounts = self.counted(amounts)
        for node, taken in (self._counted(owner) if self.fine else owner).by_node():
            if self.usable is not None and not self.usable[node]:
                continue
            free = {key: int(self.amounts.get(key, self._nothing)[node]) for key, _ in amounts}
            before = min(free[key] // amount for key, amount in amounts)
            after = min((free[key] + taken.get(key, 0)) // amount for key, amount in amounts)
            yield node, after - before

    def read(self, owner: Owner) -> list[tuple[str, int, int]]:
        """(resource, node, amount) of all that ``take`` changes."""
        return [
            (resource, pods[0], int(self.amounts[resource][pods[0]]))
            for resource, _, at in owner.wanted()
            for pods in owner.pods
            if pods[at]
        ]

    def write(self, amounts: Iterable[tuple[str, int, int]]) -> None:
        """Set what ``read`` has returned."""
        for resource, node, amount in amounts:
            self.amounts[resource][node] = amount

    def take(self, owner: Owner, sign: int) -> None:
        """Subtract what an owner takes; with sign -1 add it, up to 2**62."""
        # Most owners are on few nodes, for which arrays would cost more than they save.
        for resource, amount, at in (self._counted(owner) if self.fine else owner).wanted():
            for pods in owner.pods:
                if pods[at]:
                    free = self.amounts[resource]
                    node = pods[0]
                    free[node] = min(int(free[node]) - sign * amount * pods[at], 2**62)

    def copy(self) -> Self:
        """An independent copy."""
        branch = type(self)(self.nodes)
        branch.amounts = {name: free.copy() for name, free in self.amounts.items()}
        branch.fine = self.fine.copy()
        branch.usable = None if self.usable is None else self.usable.copy()
        return branch


def as_array(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """The values as an array."""
    if isinstance(values, Mapping):
        raise TypeError(f"{name} must be an array, not a mapping")
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of integers") from None


def as_integers(values: npt.NDArray[Any], shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    """The array, checked to hold integers in this shape."""
    if values.size == 0 and 0 in shape:
        return np.empty(shape, dtype=np.int64)
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {values.shape}")
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {values.dtype}")
    return values


def as_counts(values: npt.NDArray[Any], length: int) -> Ints:
    """The counts as int64, checked to have this length."""
    values = as_integers(values, (length,), "counts")
    if values.dtype != np.int64 and values.size and int(values.max()) > MOST:
        raise ValueError(f"counts: allowed are 0 to {MOST}")
    checked = values.astype(np.int64)
    if checked.size and checked.view(np.uint64).max() > MOST:
        raise ValueError(f"counts: allowed are 0 to {MOST}")
    return checked
