"""A value somewhere in a document, together with its path: mistakes are said with both.

Null and absence are the same, and what no code asks for is never looked at, as Kubernetes has it.
A wrong type is a TypeError, a wrong value a ValueError; nothing else is raised, whatever the
document holds.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, TypeVar

from hivecore._arguments import as_int, as_object, as_text
from hivecore._quantities import read_exactly, read_quantity
from hivecore.interop.kubernetes.messages import is_blank, show

__all__ = ["Field"]

_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_Meant = TypeVar("_Meant")
_new = object.__new__


class Field:
    """A value of a document.

    :param value: plain data, as JSON or YAML give it.
    :param path: where it is; "" is the document itself.

    >>> from hivecore.interop.kubernetes.fields import Field
    >>> pod = Field({"spec": {"nodeName": "n1", "priority": "high"}})
    >>> pod["spec"]["nodeName"].text()
    'n1'
    >>> pod["spec"]["priority"].integer(0, 9)
    Traceback (most recent call last):
    TypeError: spec.priority must be an integer, not 'high'
    """

    __slots__ = ("_around", "_key", "value")

    def __init__(self, value: Any, path: str = "") -> None:
        self.value = value
        #: the value around this one, and the key or index of this one in it; ``None``: a path
        self._around: Field | None = None
        self._key: Any = path

    @property
    def path(self) -> str:
        """Where it is."""
        if self._around is None:
            return str(self._key)
        around, key = self._around.path, self._key
        if type(key) is int:
            return f"{around}[{key}]"
        if not _PLAIN_KEY.fullmatch(key):
            return f"{around}[{show(key)}]"
        return f"{around}.{key}" if around else str(key)

    def __getitem__(self, key: str) -> "Field":
        mapping = self.value
        if type(mapping) is not dict:
            mapping = self._mapping()
        field: Field = _new(Field)  # as `_under` makes it: this is called very often
        field.value, field._around, field._key = mapping.get(key), self, key
        return field

    def __contains__(self, key: str) -> bool:
        return self._mapping().get(key) is not None

    @property
    def absent(self) -> bool:
        """Whether nothing is there: null, or an empty text."""
        return is_blank(self.value)

    def items(self) -> list[tuple[str, "Field"]]:
        """The entries of a mapping, in its order."""
        mapping = self._mapping()
        for key in mapping:
            if not isinstance(key, str):
                raise TypeError(f"{self._name} has the key {show(key)}: keys must be strings")
        return [(as_text(key, "key"), self._under(key, mapping[key])) for key in mapping]

    def among(self, known: Collection[str]) -> None:
        """Refuse other keys of a mapping as `only` does, but without a value, too; list these."""
        for key, entry in self.items():
            if key not in known:
                raise entry.error(f"is none of {', '.join(known)}")

    def only(self, *known: str) -> None:
        """Refuse the keys of a mapping that are none of these.

        >>> Field({"layer": "rack", "stratgy": "MustGather"}).only("layer", "strategy")
        Traceback (most recent call last):
        ValueError: stratgy: is unknown, is strategy meant?
        """
        for key, entry in self.items():
            if key not in known and entry.value is not None:
                near = get_close_matches(key, known, n=1, cutoff=0.8)
                meant = f"is {near[0]} meant?" if near else f"known are {', '.join(known)}"
                raise entry.error(f"is unknown, {meant}")

    def entries(self) -> list["Field"]:
        """The entries of a list."""
        if self.value is None:
            return []
        if not isinstance(self.value, (list, tuple)):
            raise TypeError(f"{self._name} must be a list, not {show(self.value)}")
        return [self._under(i, entry) for i, entry in enumerate(self.value)]

    def text(self) -> str:
        """The string; "" if nothing is there."""
        value = self.value
        if type(value) is str:
            return value
        if value is None:
            return ""
        if not isinstance(value, str):
            raise TypeError(f"{self._name} must be a string, not {show(value)}")
        return as_text(value, "text")

    def name(self) -> str:
        """The string, which must not be empty."""
        text = self.text()
        if not text:
            raise self.error("is missing")
        return text

    def texts(self) -> dict[str, str]:
        """The mapping from strings to strings."""
        return {key: entry.text() for key, entry in self.items()}

    def flag(self) -> bool:
        """True or false; nothing is false."""
        if self.value is None or isinstance(self.value, bool):
            return bool(self.value)
        raise TypeError(f"{self._name} must be true or false, not {show(self.value)}")

    def integer(self, low: int, high: int) -> int:
        """The integer from `low` to `high`, which has to be there."""
        if self.value is None:
            raise self.error("is missing")
        try:
            if isinstance(self.value, bool):
                raise TypeError
            return as_int(self.value, self._name, low, high)
        except TypeError:
            message = f"{self._name} must be an integer, not {show(self.value)}"
            raise TypeError(message) from None

    def integer_text(self, low: int, high: int) -> int:
        """The integer, which may stand there as a string."""
        if isinstance(self.value, str):
            if not _INTEGER.fullmatch(self.value):
                raise self.error(f"{show(self.value)} is no integer")
            return as_int(int(self.value), self._name, low, high)
        return self.integer(low, high)

    def quantity(self, low: int, high: int) -> int:
        """The amount as `read_quantity` has it; it has to be there."""
        if self.value is None:
            raise self.error("is missing")
        return as_int(read_quantity(self.value, self._name), self._name, low, high)

    def exactly(self) -> Fraction:
        """The amount, which need not be whole and must not be negative; it has to be there."""
        if self.value is None:
            raise self.error("is missing")
        amount = read_exactly(self.value, self._name)
        if amount < 0:
            raise self.error(f"{show(self.value)} is negative")
        return amount

    def choice(self, words: Mapping[str, _Meant]) -> _Meant | None:
        """What the word here means; ``None``: there is none."""
        if self.absent:
            return None
        text = self.text()
        if text not in words:
            raise self.error(f"must be one of {', '.join(words)}, not {show(text)}")
        return words[text]

    def json(self) -> "Field":
        """What this string holds as JSON."""
        try:
            return Field(json.loads(self.text(), object_pairs_hook=as_object), self.path)
        except (ValueError, RecursionError) as error:
            raise self.error(f"is no JSON: {error}") from None

    def error(self, rule: str) -> ValueError:
        """The error that says what is wrong here."""
        return ValueError(f"{self._name}: {rule}")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of records that are made of this say its path."""
        try:
            yield
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{self._name}: {error}") from None

    @property
    def _name(self) -> str:
        return self.path or "the document"

    def _under(self, key: str | int, value: Any) -> "Field":
        field: Field = _new(Field)
        field.value, field._around, field._key = value, self, key
        return field

    def _mapping(self) -> Mapping[Any, Any]:
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            raise TypeError(f"{self._name} must be a mapping, not {show(self.value)}")
        return self.value
