"""What is wrong with a document: every mistake with its place, collected instead of raised.

A *place* is a chain of pairs, innermost first: ``(((None, "virtualClusters"), "A"), 3)`` is
``virtualClusters.A[3]``. Making one costs a tuple; it becomes text only where a mistake is found.
The readers of this class answer a harmless stand-in after a mistake, so that reading goes on.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from hivecore.errors import HivecoreError
from hivecore.interop.kubernetes.messages import show

__all__ = ["ConfigError", "Place", "Problems"]

Place = tuple[Any, Any] | None
"""Where something is in a document; None is the document itself."""

_PLAIN_KEY = re.compile(r"[\w-]+")
_MOST = 10_000
_TRUE = {"y", "yes", "true", "on"}
_FALSE = {"n", "no", "false", "off"}
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*)", re.IGNORECASE)


class ConfigError(HivecoreError, ValueError):
    """A configuration cannot be used; ``problems`` lists all of its mistakes.

    >>> error = ConfigError([("virtualClusters.A", "must be a mapping, not 3")])
    >>> print(error)
    virtualClusters.A: must be a mapping, not 3
    """

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = list(problems)
        """Pairs of the path in the document ("" is the document itself) and the mistake."""
        super().__init__("\n".join(f"{path}: {text}" if path else text for path, text in problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfigError, (self.problems,)


class Problems:
    """The mistakes found so far, and readers of values that add to them."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, place: Place, message: str) -> None:
        """One mistake more; beyond 10,000 only that there are more."""
        if len(self.found) < _MOST:
            self.found.append((self.path(place), message))
        elif len(self.found) == _MOST:
            self.found.append(("", f"more than {_MOST:,} mistakes; further ones are not listed"))

    def raise_if_any(self) -> None:
        """Raise all that was found as one `ConfigError`."""
        if self.found:
            raise ConfigError(self.found)

    @staticmethod
    def path(place: Place) -> str:
        """The place as text.

        >>> Problems.path((((None, "virtualClusters"), "a.b"), 3))
        "virtualClusters['a.b'][3]"
        """
        parts: list[str] = []
        while place is not None:
            place, key = place
            if isinstance(key, int):
                parts.append(f"[{key}]")
            elif isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and len(key) <= 60:
                parts.append(f".{key}")
            else:
                parts.append(f"[{show(key)}]")
        return "".join(reversed(parts)).removeprefix(".")

    def mapping(self, value: Any, place: Place) -> Mapping[Any, Any]:
        """The mapping; nothing is an empty one."""
        if isinstance(value, Mapping):
            return value
        if value is not None:
            self.add(place, f"must be a mapping, not {show(value)}")
        return {}

    def items(self, value: Any, place: Place) -> Sequence[Any]:
        """The list; nothing is an empty one."""
        if isinstance(value, (list, tuple)):
            return value
        if value is not None:
            self.add(place, f"must be a list, not {show(value)}")
        return ()

    def named(self, value: Any, place: Place) -> Iterator[tuple[str, Any, Place]]:
        """The entries of a mapping from names: name, value and the value's place."""
        names: set[str] = set()
        for key, entry in self.mapping(value, place).items():
            name = self.name(key, (place, key))
            if name is None:
                continue
            if name in names:
                self.add((place, key), f"the name {show(name)} is given twice")
                continue
            names.add(name)
            yield name, entry, (place, name)

    def name(self, value: Any, place: Place) -> str | None:
        """A name that is not empty; a number counts as its digits, as in HiveD's own reader."""
        text = self.text(value, place)
        if text == "":
            self.add(place, "must not be empty")
        return text or None

    def text(self, value: Any, place: Place) -> str | None:
        """The text, or the digits of an integer; "" for nothing; None after adding a mistake."""
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64:
            return str(value)
        self.add(place, f"must be a string, not {show(value)}")
        return None

    def count(self, value: Any, place: Place, low: int = 1) -> int | None:
        """An integer from `low` to 2**31, or its text; None: it was none."""
        number = value
        if isinstance(value, str) and len(value) <= 40 and _NUMBER.fullmatch(value):
            number = _integer(value)
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= 2**31:
            needed = f"an integer from {low} to 2**31"
            if value is None:
                self.add(place, f"is missing: {needed} is needed")
            else:
                self.add(place, f"must be {needed}, not {show(value)}")
            return None
        return number

    def flag(self, value: Any, place: Place) -> bool:
        """True or false, or the texts that YAML has for them; nothing is false."""
        if value is None or isinstance(value, bool):
            return bool(value)
        if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE
        self.add(place, f"must be true or false, not {show(value)}")
        return False

    def known(
        self,
        value: Mapping[Any, Any],
        keys: Set[str],
        place: Place,
        homes: Mapping[str, str] | None = None,
    ) -> None:
        """Report other keys: HiveD would ignore them, and what they say would be lost.

        :param homes: where keys belong that are known elsewhere.
        """
        if value.keys() <= keys:
            return
        for key in sorted(value.keys() - keys, key=str):
            self.add((place, key), _unknown(key, keys, homes or {}))


def _unknown(key: object, keys: Set[str], homes: Mapping[str, str]) -> str:
    if isinstance(key, str) and key in homes:
        return f"has no meaning here, it belongs to {homes[key]}"
    if isinstance(key, str) and len(key) <= 32:
        near = difflib.get_close_matches(key, sorted(keys), n=1, cutoff=0.8)
        if near:
            return f"is unknown, is {near[0]} meant?"
    return f"is unknown, known here are {', '.join(sorted(keys))}"


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    bare = digits.lstrip("+-")
    if len(bare) > 1 and bare[0] == "0" and bare.isdigit():
        # YAML 1.1: a leading zero means octal, as in HiveD's own reader; 08 is no number then.
        return int(bare, 8) if set(bare) <= set("01234567") else -1
    try:
        return int(digits, 0)
    except ValueError:
        return -1
