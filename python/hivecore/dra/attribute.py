"""Attributes of devices: typed values or lists of them, and semantic versions."""

import re
from functools import lru_cache
from typing import Any, Self

from msgspec import field

from hivecore._arguments import show
from hivecore._record import Record
from hivecore.dra._reading import KubernetesRecord, only

__all__ = ["Attribute", "SemanticVersion"]

_NUMBER = r"(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_LONGEST = 64  # characters in a string or a version
_TYPES = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_INT64 = range(-(2**63), 2**63)


class SemanticVersion(Record, frozen=True, eq=False):
    """A version by semver 2.0.0, ordered by precedence, which ignores build metadata.

    >>> from hivecore.dra import SemanticVersion
    >>> SemanticVersion.of("1.10.0-rc.1") < SemanticVersion.of("1.10.0")
    True
    >>> SemanticVersion.of("1.9.0") < SemanticVersion.of("1.10.0")
    True
    """

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a version.

        :raises ValueError: it is not of the form 1.2.3, 1.2.3-rc.1 or 1.2.3+build. A leading "v",
            leading zeros and numbers of 2**64 or more are not allowed.
        """
        match = _VERSION.fullmatch(text)
        numbers = match.group(1, 2, 3) if match else ()
        if not match or any(len(of) > 20 or int(of) >= 2**64 for of in numbers):
            raise ValueError(f"{show(text)} is no semantic version, such as '1.2.3'")
        major, minor, patch = map(int, numbers)
        prerelease = tuple(match[4].split(".")) if match[4] else ()
        return cls((major, minor, patch), prerelease, match[5] or "")

    @property
    def precedence(self) -> tuple[Any, ...]:
        """A sort key by semver: numbers by value and before words; pre-releases before releases."""
        parts = [(0, int(x), "") if x.isdecimal() else (1, 0, x) for x in self.prerelease]
        return self.numbers, not parts, parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SemanticVersion):
            return NotImplemented
        return self.precedence == other.precedence

    def __hash__(self) -> int:
        return hash((self.numbers, self.prerelease))

    def __lt__(self, other: Self) -> bool:
        return bool(self.precedence < other.precedence)

    def __le__(self, other: Self) -> bool:
        return bool(self.precedence <= other.precedence)

    def __gt__(self, other: Self) -> bool:
        return other < self

    def __ge__(self, other: Self) -> bool:
        return other <= self


class Attribute(KubernetesRecord, frozen=True):
    """The value of a device's attribute; at most one field is set.

    None is set if this release does not know the attribute's type. Such an attribute satisfies no
    constraint, and no selector can be evaluated on its device.

    :raises ValueError: several fields are set, a list is empty, an integer exceeds 64 bits, a text
        has more than 64 characters, or a version is not semantic.
    """

    int_: int | None = field(name="int", default=None)
    bool_: bool | None = field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        every = self._all()
        if self.string is not None and len(self.string) <= _LONGEST and every.count(None) == 7:
            return  # a text, the usual case
        given = [(name, of) for name, of in zip(_TYPES, every, strict=True) if of is not None]
        only(dict.fromkeys([name for name, _ in given], True))
        for name, of in given:
            if of == ():
                raise ValueError(f"{name}: must not be empty")
            for value in of if isinstance(of, tuple) else (of,):
                if isinstance(value, int):
                    if value not in _INT64:
                        raise ValueError(f"{name}: {show(value)} exceeds 64 bits")
                elif len(value) > _LONGEST:
                    raise ValueError(f"{name}: {show(value)} has more than {_LONGEST} characters")
                elif name.startswith("version") and not _is_semantic(value):
                    raise ValueError(f"{name}: {show(value)} is no semantic version")

    def _all(self) -> tuple[Any, ...]:
        single = self.int_, self.bool_, self.string, self.version
        return *single, self.ints, self.bools, self.strings, self.versions

    @property
    def kind(self) -> str:
        """The type of the value or of the list's values: "int", "bool", "string",
        "version", or "".
        """
        set_ = (name for name, of in zip(_TYPES, self._all(), strict=True) if of is not None)
        return next(set_, "").rstrip("s")

    @property
    def is_list(self) -> bool:
        """Whether it is a list, even of a single value."""
        return (self.ints, self.bools, self.strings, self.versions).count(None) < 4

    @property
    def value(self) -> Any:
        """The value: int, bool, str, or a tuple of these; ``None`` if of unknown type."""
        return next((of for of in self._all() if of is not None), None)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values; a single value is a tuple of one."""
        of = self.value
        return of if isinstance(of, tuple) else () if of is None else (of,)


@lru_cache(1 << 12)  # drivers publish few versions, on many devices
def _is_semantic(text: str) -> bool:
    try:
        SemanticVersion.of(text)
    except ValueError:
        return False
    return True
