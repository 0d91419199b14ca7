"""A mapping that keeps what fits and never evicts, as a replacement for a `cachetools` cache."""

from collections.abc import Callable, MutableMapping
from copyreg import __newobj__  # type: ignore[attr-defined]
from reprlib import recursive_repr
from typing import Any, Self, TypeVar

from hivecore._caching import MappingStore

__all__ = ["UniformMapping"]

_K = TypeVar("_K")
_V = TypeVar("_V")


class UniformMapping(MappingStore[_K, _V], MutableMapping[_K, _V]):
    """A mutable mapping that keeps the first values that fit, and never evicts.

    For reads in random order without repetition, such as an epoch of training data, no policy has
    more hits. Use it as the cache of ``cachetools.cached``, with or without a lock, or on its own.

    :param maxsize: the most that the sizes of kept values may sum to, 1 to 2**62.
    :param getsizeof: value -> its size, an integer >= 0; without it (or a method of this name in a
        subclass) every value has size 1.
    :raises ValueError: ``maxsize`` is out of range, or a size is negative.
    :raises TypeError: ``maxsize`` or a size is not an integer.

    - A value that does not fit is not kept, without an error; ``setdefault`` still returns it. A
      miss costs a new fetch.
    - A new value for a key replaces the old one if it fits. Otherwise the key is removed, as the
      old value would be wrong.
    - An exception in ``getsizeof``, ``__hash__`` or ``__eq__`` leaves everything unchanged.

    Keys are in the order in which they were first kept. A call costs as much as for a dict.

    >>> cache = UniformMapping(maxsize=10, getsizeof=len)
    >>> cache["a"], cache["b"] = "1234", "1234567"       # 7 more do not fit beside 4
    >>> cache, "b" in cache
    (UniformMapping({'a': '1234'}, maxsize=10, currsize=4), False)
    >>> cache.setdefault("c", "123456"), cache.currsize
    ('123456', 10)
    """

    __slots__ = ("__weakref__",)

    def __init__(self, maxsize: int, getsizeof: Callable[[_V], int] | None = None) -> None:
        super().__init__(maxsize, getsizeof)

    @recursive_repr("UniformMapping(...)")
    def __repr__(self) -> str:
        kept = self._state()[2]  # consistent even if another thread changes the mapping
        items = f"{{{', '.join(f'{key!r}: {value!r}' for key, value, _ in kept)}}}"
        sizes = f"maxsize={self.maxsize}, currsize={self.currsize}"
        return f"{type(self).__name__}({items}, {sizes})"

    def copy(self) -> Self:
        """Return a mapping of the same type with the same keys, values and sizes."""
        other = type(self).__new__(type(self))
        other.__setstate__(self.__reduce__()[2])
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return __newobj__, (type(self),), (self._state(), dict(getattr(self, "__dict__", {})))

    def __setstate__(self, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        kept, attributes = state
        if attributes:
            self.__dict__.update(attributes)
        self._restore(*kept)
