"""What objects with a state have in common: branches, and states as bytes."""

from typing import Any, Self

__all__ = ["Branching", "Stateful"]


class Branching:
    """``copy.copy`` and ``copy.deepcopy`` give what ``copy`` gives."""

    __slots__ = ()

    def copy(self) -> Self:
        """An independent equal."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()


class Stateful(Branching):
    """And pickle goes by ``to_bytes`` and ``from_bytes``."""

    __slots__ = ()

    def to_bytes(self) -> bytes:
        """The state, for ``from_bytes``."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """An equal of the object whose ``to_bytes`` gave these bytes."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)
