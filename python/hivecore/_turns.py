"""Objects that are plain Python for the greater part, used by several threads."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["in_turn"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Locked(Protocol):
    _lock: Any


_S = TypeVar("_S", bound=_Locked)


def in_turn(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """The method as one of those of which one thread at a time is within one, by ``self._lock``.

    >>> from threading import RLock
    >>> class Counter:
    ...     def __init__(self):
    ...         self._lock, self.count = RLock(), 0
    ...
    ...     @in_turn
    ...     def add(self, number):
    ...         self.count += number
    >>> counter = Counter()
    >>> counter.add(2)
    >>> counter.count
    2
    """

    @wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return call
