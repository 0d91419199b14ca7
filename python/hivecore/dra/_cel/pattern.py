"""RE2 regular expressions, at a cost of text length times pattern length.

Python's own may need time exponential in the text. So a pattern becomes the program of an
automaton, which uses Python's expressions only to test single characters. `Pattern.search` advances
all threads together by a character, with at most one thread at each position.
"""

import re
from functools import lru_cache
from typing import Any, TypeAlias

from hivecore._arguments import show

__all__ = ["Pattern"]

_LARGEST = 2000  # steps in a program
_DEEPEST = 64  # nested groups
# ("test", of a character), ("jump", by how many places), ("assert", kind)
_Step: TypeAlias = tuple[str, Any]
_END: _Step = ("end", None)
_ATOM = re.compile(
    r"\[\^?\]?(?:[^\]\\[]|\\.|\[(?!:))*\]|\\(?:x[0-9a-fA-F]{2}|0[0-7]{0,2}|.)|.", re.S
)
_REFUSED = re.compile(r"\\(?:[1-9pPCQEkguUNZ]|x\{)|\[\[|&&|--|~~|\|\|")  # within an atom
_REPEAT = re.compile(r"[*+?]|\{([0-9]{1,4})(,?)([0-9]{0,4})\}")
_FLAGS = re.compile(r"\(\?([ims]*)(?:-([ims]+))?\)")
_GROUP = re.compile(r"\((?:\?P?<[A-Za-z_][A-Za-z0-9_]*>|\?([ims]*)(?:-([ims]+))?:|(?!\?))")
_ASSERTS = ("\\A", "\\z", "\\b", "\\B", "^", "$")
_ESCAPED = re.compile(r"\\.", re.S)
#: For RE2, the vertical tab is no space, for Python it is; to it, a digit is like a space of RE2.
_NO_SPACE = {"\\s": "\\d", "\\S": "\\D"}
_IS_WORD = re.compile(r"[0-9A-Za-z_]").match


class Pattern:
    """A pattern to search for in texts.

    :raises ValueError: RE2 does not allow it, it is not supported, or its program is too large.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.program = self._either("")
        if self.at < len(text):
            raise self._error("unexpected ')'")
        self._kept = lru_cache(256)(self._search)

    def search(self, text: str) -> bool:
        """Whether any part of the text matches."""
        return self._kept(text) if len(text) <= 64 else self._search(text)

    def _search(self, text: str) -> bool:
        places: set[int] = set()
        for at in range(len(text) + 1):
            places = self._reached({*places, 0}, text, at)
            if len(self.program) in places:
                return True
            steps = [(place, *self.program[place]) for place in places]
            places = {
                place + 1 for place, kind, of in steps if kind == "test" and of(text[at:][:1])
            }
        return False

    def _reached(self, places: set[int], text: str, at: int) -> set[int]:
        """Return all positions that threads reach without consuming a character."""
        left = list(places)
        while left:
            place = left.pop()
            kind, of = self.program[place] if place < len(self.program) else _END
            steps = of if kind == "jump" else (1,) if kind == "assert" and of(text, at) else ()
            new = {place + step for step in steps} - places
            places |= new
            left += new
        return places

    def _error(self, what: str) -> ValueError:
        return ValueError(f"pattern {show(self.text)}: {what}")

    def _next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def _sized(self, size: int) -> None:
        if size > _LARGEST:
            raise self._error(f"it takes more than {_LARGEST} steps")

    def _either(self, flags: str) -> list[_Step]:
        """Parse alternatives up to a closing parenthesis or the end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error("nested too deeply")
        branches: list[list[_Step]] = [[]]
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
                branches.append([])
            elif match := self._next(_FLAGS):  # from here to the end of the group
                flags = _changed(flags, match)
            else:
                branches[-1] += self._repeated(flags)
                self._sized(sum(map(len, branches)))
        self.depth -= 1
        steps = branches[-1]
        for branch in reversed(branches[:-1]):
            both = ("jump", (1, len(branch) + 2))
            steps = [both, *branch, ("jump", (len(steps) + 1,)), *steps]
        return steps

    def _repeated(self, flags: str) -> list[_Step]:
        start = self.at
        if repeat := self._next(_REPEAT):
            raise self._error(f"nothing to repeat before {repeat[0]!r}")
        steps = self._atom(flags)
        repeat = self._next(_REPEAT)
        if repeat is None:
            return steps
        if repeat[1]:
            least = int(repeat[1])
            most = int(repeat[3]) if repeat[3] else None if repeat[2] else least
        else:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[repeat[0]]
        if self.text[self.at : self.at + 1] == "?":  # lazy repetition matches the same texts
            self.at += 1
        if self._next(_REPEAT):
            raise self._error(f"two repetitions: {show(self.text[start : self.at])}")
        if max(least, most or 0) > 1000 or (most is not None and most < least):
            raise self._error(f"no count: {repeat[0]}")
        size = len(steps)
        self._sized((size + 1) * max(least, most or 1))
        if most is not None:
            return steps * least + [("jump", (1, size + 1)), *steps] * (most - least)
        again = ("jump", (1, -size))
        return [*(steps * least), again] if least else [("jump", (1, size + 2)), *steps, again]

    def _atom(self, flags: str) -> list[_Step]:
        if group := self._next(_GROUP):
            steps = self._either(_changed(flags, group))
            if self.text[self.at : self.at + 1] != ")":
                raise self._error("')' is missing")
            self.at += 1
            return steps
        match = self._next(_ATOM)
        atom = match[0] if match else ""
        if atom in _ASSERTS:
            return [("assert", lambda text, at: _holds(atom, "m" in flags, text, at))]
        if atom in ("(", "[", "\\") or _REFUSED.search(atom):
            raise self._error(f"{self.text[self.at - len(atom) :][:4]!r} is not supported")
        if len(atom) == 1 and atom != ".":
            if "i" not in flags:
                return [("test", atom.__eq__)]
            atom = re.escape(atom)
        try:
            options = (re.I if "i" in flags else 0) | (re.S if "s" in flags else 0)
            test = re.compile(atom, re.ASCII | options).fullmatch
        except re.error as error:
            raise self._error(str(error)) from None
        without = _ESCAPED.sub(lambda match: _NO_SPACE.get(match[0], match[0]), atom)
        if without == atom:
            return [("test", test)]
        of_tab = re.compile(without, re.ASCII | options).fullmatch
        return [("test", lambda of: of_tab(of) if of == "\v" else test(of))]


def _changed(flags: str, match: re.Match[str]) -> str:
    on, off = flags + (match[1] or ""), match[2] or ""
    return "".join([flag for flag in on if flag not in off])


def _holds(kind: str, by_line: bool, text: str, at: int) -> bool:
    before, after = text[max(at - 1, 0) : at], text[at : at + 1]
    if kind in ("\\A", "^"):
        return not before or (kind == "^" and by_line and before == "\n")
    if kind in ("\\z", "$"):
        return not after or (kind == "$" and by_line and after == "\n")
    return (bool(_IS_WORD(before)) != bool(_IS_WORD(after))) == (kind == "\\b")
