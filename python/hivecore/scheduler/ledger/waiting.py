"""The waiting units by kind, and what they wait for.

A refused kind is parked, and listed under the keys of its refusal. Changes touch keys. Before the
next round, each kind under a touched key is checked once, and woken if its stage says that it is
worth a try.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.scheduler.stages._lacks import Lacks
from hivecore.scheduler.stages.quotas import HEADROOM, LIMITS, OVERUSED
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Key, Kind, Refused

__all__ = ["Waiting"]

_TEXTS = "stage", "code", "reason", "part"


class _Line:
    """The waiting units of a kind."""

    __slots__ = ("keys", "kind", "names", "refusal")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        #: in no order, as all are alike
        self.names: dict[str, None] = {}
        #: why they cannot start; None: they are offered
        self.refusal: Refusal | None = None
        #: the changes that may end the refusal
        self.keys: tuple[Key, ...] = ()


class Waiting:
    """The waiting units by kind."""

    __slots__ = ("_lacks", "_lines", "_log", "by_key", "touched")

    def __init__(self, lacks: Lacks | None, log: UndoLog) -> None:
        self._lacks, self._log = lacks, log
        self._lines: dict[int, _Line] = {}
        #: numbers of parked kinds by key
        self.by_key: dict[Key, dict[int, None]] = {}
        #: touched keys of parked kinds
        self.touched: dict[Key, None] = {}

    def add(self, kind: Kind, name: str) -> None:
        """Add a waiting unit."""
        line = self._lines.get(kind.number)
        if line is None:
            line = self._lines[kind.number] = _Line(kind)
        line.names[name] = None
        if self._log.is_on:
            self._log.add((self._drop_name, line, name))

    def _drop_name(self, line: _Line, name: str) -> None:
        del line.names[name]
        if not line.names:
            del self._lines[line.kind.number]

    def leave(self, kind: Kind, name: str) -> bool:
        """Remove a unit; return whether it was the last of its kind, and that kind was parked."""
        line = self._lines[kind.number]
        if self._log.is_on:
            self._log.add((self._put_name, line, name))
        del line.names[name]
        if line.names:
            return False
        if line.refusal is not None:
            self.wake(kind)
        del self._lines[kind.number]
        return line.refusal is not None

    def _put_name(self, line: _Line, name: str) -> None:
        line.names[name] = None
        self._lines[line.kind.number] = line

    def has(self, kind: Kind, name: str) -> bool:
        """Whether a unit waits."""
        line = self._lines.get(kind.number)
        return line is not None and name in line.names

    def names(self, kind: Kind) -> Iterable[str]:
        """The waiting units of a kind."""
        return self._lines[kind.number].names

    def is_only(self, kind: Kind) -> bool:
        """Whether only one unit of a kind waits."""
        return len(self._lines[kind.number].names) == 1

    def refusal(self, kind: Kind) -> Refusal | None:
        """Why a kind is parked; None if it is not."""
        line = self._lines.get(kind.number)
        return None if line is None else line.refusal

    def refused(self, kind: Kind) -> Refused | None:
        """Why a kind is parked, with its keys; None if it is not."""
        line = self._lines.get(kind.number)
        if line is None or line.refusal is None:
            return None
        return Refused(line.refusal, line.keys)

    def park(self, kind: Kind, refusal: Refusal, keys: Iterable[Key]) -> None:
        """Do not offer a kind until one of these keys is touched."""
        line = self._lines[kind.number]
        self._log.note(self._set, line, line.refusal, line.keys)
        self._set(line, refusal, tuple(dict.fromkeys(keys)))
        if OVERUSED in line.keys and self._lacks is not None:
            self._lacks.note_overused()
        self._note(line)

    def _note(self, line: _Line) -> None:
        refusal, kind = line.refusal, line.kind
        if self._lacks is None or refusal is None:
            return
        if refusal.stage == "quotas" and refusal.code in LIMITS:
            # evictions did not help, until other keys are touched
            hindered = any(key[0] not in ("quotas", "sharing") for key in line.keys)
            self._lacks.add(kind, refusal, hindered=hindered)
        elif OVERUSED in line.keys:  # no place, even if all jobs left that may be evicted
            self._lacks.add_unplaced(kind)

    def renew(self, lacks: Lacks | None) -> None:
        """Replace the lacks after quotas have changed."""
        self._log.set(self, "_lacks", lacks)
        for line in self._lines.values():
            self._note(line)

    def wake(self, kind: Kind) -> None:
        """Offer a kind again."""
        line = self._lines[kind.number]
        self._log.note(self._set, line, line.refusal, line.keys)
        self._set(line, None if line.names else line.refusal, ())
        if self._lacks is not None:
            self._lacks.drop(kind.number)

    def _set(self, line: _Line, refusal: Refusal | None, keys: tuple[Key, ...]) -> None:
        """Set why a kind is parked, and its keys."""
        number = line.kind.number
        for key in line.keys:
            numbers = self.by_key[key]
            del numbers[number]
            if not numbers:
                del self.by_key[key]
        line.refusal, line.keys = refusal, keys
        for key in keys:
            self.by_key.setdefault(key, {})[number] = None

    def touch(self, keys: Iterable[Key]) -> None:
        """Record that changes have happened."""
        for key in keys:
            may_return = key == OVERUSED and self._lacks is not None and self._lacks.may_reclaim
            if (may_return or key in self.by_key) and key not in self.touched:
                self._log.keep(self.touched, key)
                self.touched[key] = None

    def touch_all(self) -> None:
        """Record that any change may have happened."""
        self.touch((*self.by_key, OVERUSED))

    def woken(
        self,
        still_refused: Callable[[Kind, Refusal, str], Refused | None],
        able_to_share: Callable[[list[Kind]], Iterable[int]],
    ) -> list[Kind]:
        """Wake the kinds that are worth a try, and return them in the order of their numbers.

        :param still_refused: of a kind, its refusal, and the name of one of its units, says why it
            is refused still; ``None``: it may start now.
        :param able_to_share: of kinds that may share GPUs, gives the numbers of those that may
            start now.
        """
        if not self.touched:
            return []
        numbers: set[int] = set()
        sharers: list[Kind] = []
        for key in self.touched:
            if key[0] == "sharing":
                sharers += [self._lines[number].kind for number in self.by_key.get(key, ())]
            elif key == HEADROOM and self._lacks is not None:
                numbers.update(self._lacks.able())
            elif key == OVERUSED and self._lacks is not None:
                numbers.update(self._lacks.able_to_reclaim())
            else:
                numbers.update(self.by_key.get(key, ()))
        self._log.set(self, "touched", {})
        able = set(able_to_share(sharers)) if sharers else set()
        woken = [self._lines[number].kind for number in sorted(able)]
        for number in sorted(numbers - able):
            line = self._lines[number]
            before = line.refusal
            if before is None:
                continue
            again = still_refused(line.kind, before, next(iter(line.names)))
            if again is None:
                woken.append(line.kind)
            elif again.refusal is not before:
                self.wake(line.kind)
                self.park(line.kind, again.refusal, again.keys)
        woken.sort(key=lambda kind: kind.number)
        for kind in woken:
            self.wake(kind)
        return woken

    def parked(self) -> dict[int, Kind]:
        """The parked kinds by number."""
        return {number: line.kind for number, line in self._lines.items() if line.refusal}

    def branch(self, stages: Stages) -> Self:
        """A copy for a branch with these stages."""
        branch = type(self)(stages.lacks(self._lacks), stages.log)
        for number, line in self._lines.items():
            twin = branch._lines[number] = _Line(line.kind)
            twin.names, twin.refusal, twin.keys = line.names.copy(), line.refusal, line.keys
        branch.by_key = {key: numbers.copy() for key, numbers in self.by_key.items()}
        branch.touched = self.touched.copy()
        return branch

    def plain(self) -> dict[str, Any]:
        """The waiting units as plain data."""
        lines = [
            [
                number,
                sorted(line.names),
                None if line.refusal is None else [getattr(line.refusal, text) for text in _TEXTS],
                line.keys,
            ]
            for number, line in sorted(self._lines.items())
        ]
        lacks = None if self._lacks is None else self._lacks.plain()
        return {"lines": lines, "touched": sorted(self.touched), "lacks": lacks}

    def restore(self, state: dict[str, Any], kinds: dict[int, Kind]) -> None:
        """Restore the waiting units from plain data."""
        for number, names, refusal, keys in state["lines"]:
            for name in names:
                self.add(kinds[number], str(name))
            if refusal is not None:
                known = [(str(origin), str(detail)) for origin, detail in keys]
                self.park(kinds[number], Refusal(*map(str, refusal)), known)
        self.touched = {(str(origin), str(detail)): None for origin, detail in state["touched"]}
        if self._lacks is not None and state.get("lacks") is not None:
            self._lacks.restore(state["lacks"])
