"""The pods of a gang and the slots that the gang's placement has for them.

The first pod decides for all: its decision places every pod of the gang. A slot is one of these
placements. A pod that comes later gets the lowest empty slot of its role; when a pod is deleted,
its slot becomes empty, and the next pod of that role gets the very same resources.

Invariants: a slot never moves while its gang lives; ``bound`` counts the filled slots; no slot
below a role's ``lowest`` is empty. A gang is preempting while ``preempting`` is not None (these are
the pods that asked), and has no bound pods then.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from hivecore._arguments import as_bool
from hivecore._stateful import Branching, counted, shown

__all__ = ["Gang", "Role"]


class Role(Branching):
    """The pods of a gang that are alike, and their slots.

    :param name: what tells it from the gang's other roles.
    :param slots: where each of its pods goes; what a slot says is the stage's affair.
    """

    __slots__ = ("lowest", "name", "pods", "slots")

    def __init__(self, name: Hashable, slots: Iterable[Any]) -> None:
        self.name = name
        self.slots = tuple(slots)
        self.pods: list[str | None] = [None] * len(self.slots)
        self.lowest = 0

    def __repr__(self) -> str:
        bound = sum(pod is not None for pod in self.pods)
        return shown(self, repr(self.name), f"{bound} of {counted(len(self.pods), 'pod')}")

    def copy(self) -> "Role":
        """An independent role with the same slots and pods."""
        other = Role(self.name, self.slots)
        other.pods, other.lowest = list(self.pods), self.lowest
        return other

    def empty(self, suits: Callable[[Any], bool] | None = None) -> int | None:
        """The lowest empty slot that suits; where none does, the lowest empty one.

        :raises TypeError: ``suits`` is not callable, or what it returns is no bool.
        """
        if suits is not None and not callable(suits):
            raise TypeError(f"suits must be callable, not {type(suits).__name__}")
        pods = self.pods
        while self.lowest < len(pods) and pods[self.lowest] is not None:
            self.lowest += 1
        if self.lowest == len(pods):
            return None
        if suits is not None:
            for i in range(self.lowest, len(pods)):
                if pods[i] is None and as_bool(suits(self.slots[i]), "suits(...)"):
                    return i
        return self.lowest


class Gang(Branching):
    """A gang with its slots and pods.

    :param declared: what the first pod said of it.
    :param request: what its stage is asked for.
    """

    __slots__ = ("bound", "declared", "name", "preempting", "request", "roles")

    def __init__(self, name: str, declared: Any, request: Any, roles: Iterable[Role]) -> None:
        self.name = name
        self.declared = declared
        self.request = request
        self.roles = {role.name: role for role in roles}
        self.bound = 0
        self.preempting: dict[str, None] | None = None

    def __repr__(self) -> str:
        pods = counted(sum(len(role.pods) for role in self.roles.values()), "pod")
        return shown(self, repr(self.name), f"{self.bound} of {pods}")

    @classmethod
    def place(
        cls,
        name: str,
        declared: Any,
        request: Any,
        roles: Iterable[tuple[Hashable, int]],
        slots: Sequence[Any],
    ) -> "Gang":
        """The gang whose pods have these slots, role by role."""
        placed = []
        start = 0
        for role, pods in roles:
            placed.append(Role(role, slots[start : start + pods]))
            start += pods
        return cls(name, declared, request, placed)

    def placement(self) -> tuple[tuple[Hashable, tuple[Any, ...]], ...]:
        """The slots of each role."""
        return tuple([(name, role.slots) for name, role in self.roles.items()])

    def fill(self, role: Role, i: int, pod: str) -> None:
        """Put a pod into an empty slot."""
        role.pods[i] = pod
        self.bound += 1

    def clear(self, role: Role, i: int) -> None:
        """Empty a slot."""
        role.pods[i] = None
        role.lowest = min(role.lowest, i)
        self.bound -= 1

    def seats(self) -> Iterator[tuple[Any, str | None]]:
        """Every slot with its pod, role by role."""
        for role in self.roles.values():
            yield from zip(role.slots, role.pods, strict=True)

    def pods(self) -> list[str]:
        """Its bound pods, sorted."""
        return sorted(pod for _, pod in self.seats() if pod is not None)

    def copy(self) -> "Gang":
        """An independent gang with the same slots and pods."""
        roles = [role.copy() for role in self.roles.values()]
        other = Gang(self.name, self.declared, self.request, roles)
        other.bound = self.bound
        other.preempting = None if self.preempting is None else dict(self.preempting)
        return other
