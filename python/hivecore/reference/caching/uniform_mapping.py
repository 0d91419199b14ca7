"""A mapping that keeps what fits and never evicts."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar

from hivecore.errors import InvariantError

__all__ = ["UniformMapping"]

_K = TypeVar("_K")
_V = TypeVar("_V")


class UniformMapping(MutableMapping[_K, _V]):
    """The readable twin of `hivecore.caching.UniformMapping`."""

    def __init__(self, maxsize: int, getsizeof: Callable[[_V], int] | None = None) -> None:
        self.maxsize = maxsize
        self._getsizeof = getsizeof
        self._entries: dict[_K, tuple[_V, int]] = {}

    @property
    def currsize(self) -> int:
        return sum(size for _, size in self._entries.values())

    def getsizeof(self, value: _V) -> int:
        return 1 if self._getsizeof is None else self._getsizeof(value)

    def __getitem__(self, key: _K) -> _V:
        return self._entries[key][0]

    def __setitem__(self, key: _K, value: _V) -> None:
        size = self.getsizeof(value)
        others = self.currsize - self._entries.get(key, (None, 0))[1]
        if others + size <= self.maxsize:
            self._entries[key] = (value, size)
        else:
            self._entries.pop(key, None)  # an older value would be wrong

    def __delitem__(self, key: _K) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def setdefault(self, key: _K, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
            return default
        return self[key]

    def check(self) -> None:
        if self.currsize > self.maxsize:
            raise InvariantError(f"currsize={self.currsize} exceeds maxsize={self.maxsize}")
