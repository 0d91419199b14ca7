"""The writes of claims that may still reach the API server.

A write is open until the API server has answered it. Where the answer does not say whether it was
carried out, such as after a timeout, it is in doubt: it may arrive as long as the claim has the
version that it changes. Until then nothing else may get the devices that it names.

The process before this one may have died while a write was under way. Which devices it names is not
known, so no claim gets devices until it can arrive no more.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["ClaimWrite", "OpenWrites"]


class ClaimWrite(NamedTuple):
    """What a claim's status must contain before its pod is bound.

    :param allocation: its devices.
    :param is_given: whether it has them already.
    """

    claim: str
    uid: str
    allocation: Mapping[str, Any]
    is_given: bool


class OpenWrites:
    """The writes that are open or in doubt, by the uid of their claim."""

    def __init__(self) -> None:
        self._open: dict[str, dict[int, ClaimWrite]] = {}
        self._in_doubt: dict[str, tuple[int, list[ClaimWrite]]] = {}
        self._before: dict[str, tuple[int, str]] = {}  # by uid version and name of the claim

    def begin(self, write: ClaimWrite) -> None:
        """Note a write that will be sent, unless the claim has its devices already."""
        if not write.is_given:
            self._open.setdefault(write.uid, {})[id(write)] = write

    def end(self, write: ClaimWrite, version: int | None = None) -> None:
        """Note that a write was answered, or is not sent.

        :param version: the version of the claim that it changes, if the write is in doubt.
        """
        writes = self._open.get(write.uid, {})
        if writes.pop(id(write), None) is None:
            return
        if not writes:
            del self._open[write.uid]
        if version is not None:
            _, others = self._in_doubt.get(write.uid, (0, []))
            self._in_doubt[write.uid] = version, [*others, write]

    def may_come(self, uid: str, claim: str, version: int) -> None:
        """Note that a process before this one may have sent a write of a claim's version."""
        self._before[uid] = version, claim

    def has_version(self, uid: str, version: int) -> None:
        """Note a claim's version: no write of an earlier one can arrive any more."""
        if 0 < self._before.get(uid, (0,))[0] < version:
            del self._before[uid]
        if 0 < self._in_doubt.get(uid, (0,))[0] < version:
            del self._in_doubt[uid]

    def is_gone(self, uid: str) -> None:
        """Note that a claim is deleted."""
        self._in_doubt.pop(uid, None)
        self._before.pop(uid, None)

    @property
    def in_doubt(self) -> list[str]:
        """The claims with writes in doubt, also of a process before this one."""
        known = [writes[0].claim for _, writes in self._in_doubt.values()]
        return list(dict.fromkeys([*known, *self.before]))

    @property
    def before(self) -> list[str]:
        """The claims with writes that a process before this one may have sent."""
        return [claim for _, claim in self._before.values()]

    def of(self, uid: str) -> Iterator[ClaimWrite]:
        """Return the writes of a claim that may still arrive."""
        yield from self._open.get(uid, {}).values()
        yield from self._in_doubt.get(uid, (0, ()))[1]

    def claims(self) -> dict[str, str]:
        """Return the names of the claims with a write that is open or in doubt, by uid."""
        uids = dict.fromkeys([*self._open, *self._in_doubt])
        return {uid: next(self.of(uid)).claim for uid in uids}
