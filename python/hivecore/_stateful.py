"""What objects with a state have in common: branches, and states as bytes."""

import json
from decimal import Decimal
from typing import Any, ClassVar, Self

from msgspec.structs import asdict

from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._turns import in_turn

__all__ = ["Branching", "PlainState", "Stateful", "counted", "shown"]


def shown(item: object, *parts: str) -> str:
    """What ``repr`` says of an object: its class, and parts that are not empty.

    >>> shown([], "2 jobs", "")
    'list(2 jobs)'
    """
    return f"{type(item).__name__}({', '.join(filter(None, parts))})"


def counted(number: int, thing: str, *, unless_none: bool = False) -> str:
    """A number of things, in words.

    :param unless_none: "" for 0.

    >>> counted(2000, "quota"), counted(1, "job"), counted(0, "owner", unless_none=True)
    ('2,000 quotas', '1 job', '')
    """
    if unless_none and not number:
        return ""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


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


def _plain_record(record: Any) -> Any:
    return float(record) if isinstance(record, Decimal) else asdict(record)


class PlainState(Stateful):
    """And the state is plain data, saved as JSON; calls take turns by ``_lock``."""

    __slots__ = ()

    _SAVED_AS: ClassVar[tuple[bytes, int]]  # magic and version of the envelope
    _lock: Any

    def check(self) -> None:
        """Audit every invariant; raises `InvariantError`."""
        raise NotImplementedError

    def _plain(self) -> dict[str, Any]:
        """Numbers, texts, lists and dicts, and records of such. Decimals are of thousandths."""
        raise NotImplementedError

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        """The object of what ``_plain`` or anybody's JSON says."""
        raise NotImplementedError

    @in_turn
    def copy(self) -> Self:
        """An independent what-if branch. Cost: that of the whole state."""
        return self._restored(self._plain())

    @in_turn
    def to_bytes(self) -> bytes:
        """The state, for ``from_bytes``; objects of one history give the same bytes."""
        text = json.dumps(self._plain(), separators=(",", ":"), default=_plain_record)
        return seal(*self._SAVED_AS, text.encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The object whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(*cls._SAVED_AS, data)
        with corrupt_if_it_fails():
            restored = cls._restored(json.loads(payload))
            restored.check()
        return restored
