"""What is remembered of very many things: the latest."""

from math import inf
from typing import TypeVar

__all__ = ["Recent"]

_MOST = 100_000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(dict[_Key, _Value]):
    """Keeps the entries that were set last, the latest last; only `[]=` drops the oldest.

    >>> from hivecore.interop.kubernetes.recent import Recent
    >>> recent = Recent[str, int](2)
    >>> for name in ("a", "b", "a", "c"):
    ...     recent[name] = 1
    >>> list(recent)
    ['a', 'c']
    """

    most: float = inf  # while entries come back from a pickle

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self.most:
            del self[next(iter(self))]
