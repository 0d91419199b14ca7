"""Names in Slurm's files, what a name may be, and notes of what Slurm accepts with a warning."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection

from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm.hostlists import MOST_HOSTS, compress_hostlist, expand_hostlist

__all__ = ["Hosts", "Note", "checked_name", "some"]

_NAME = re.compile(r"[^\s,\[\]=#\"\\]{1,64}")
_NOTHING = "(null)"  # as Slurm prints a text that is missing
_WORDS = ("all", "none")

#: Receives what is odd, and where it is.
Note = Callable[[Field, str], None]


class Hosts:
    """Expands the hostlists of a file, which may stand for so many names in all.

    Oddities that Slurm accepts are noted, and reported when the file has been read: a file that is
    refused raises its error alone.
    """

    def __init__(self) -> None:
        self._left = MOST_HOSTS
        self._notes: list[str] = []

    def note(self, field: Field, text: str) -> None:
        """Keep what is odd at this place."""
        self._notes.append(str(field.error(text)))

    def report(self, warn: Callable[[str], None] | None) -> None:
        """Hand over all notes, to Python's warnings by default."""
        for text in self._notes:
            if warn is None:
                warnings.warn(text, stacklevel=3)
            else:
                warn(text)

    def name(self, field: Field) -> str:
        """One name, of a switch or a block."""
        self._left -= 1
        if self._left < 0:
            raise field.error(f"there are more than {MOST_HOSTS:,} names")
        if field.absent:
            raise field.error("is missing")
        with field.named():
            return checked_name(field.text(), "the name")

    def nodes(self, field: Field) -> tuple[str, ...]:
        """The different nodes of a hostlist; none if it is absent."""
        if not field.absent and field.text().lower() in _WORDS:
            self.note(field, f"{show(field.text())} stands for no node in a topology")
            return ()
        return self.names(field)

    def names(self, field: Field) -> tuple[str, ...]:
        """The different names of a hostlist; none if it is absent."""
        if field.absent or field.text() == _NOTHING:
            return ()
        text = field.text()
        with field.named():
            names = expand_hostlist(text, most=self._left)
        self._left -= len(names)
        different = tuple(dict.fromkeys(names))
        if len(different) < len(names):
            twice = [name for name, times in Counter(names).items() if times > 1]
            self.note(field, f"several times, counted once: {some(twice)}")
        return different


def some(names: Collection[str]) -> str:
    """The first of these names as a hostlist, and how many more there are."""
    few = list(dict.fromkeys(names))
    more = f" and {len(few) - 8} more" if len(few) > 8 else ""
    return show(compress_hostlist(few[:8])) + more


def checked_name(name: str, what: str) -> str:
    """The name, if it can stand in a file."""
    if not _NAME.fullmatch(name):
        rule = "1 to 64 characters, no space, comma, bracket, quote, '=', '#' or '\\'"
        raise ValueError(f"{what} {show(name)}: a name has {rule}")
    return name
