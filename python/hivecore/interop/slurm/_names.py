"""Names in Slurm's files: lists of them, bounded for the whole file, and what a name may be."""

import re

from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm.hostlists import MOST_HOSTS, expand_hostlist

__all__ = ["Hosts", "checked_name"]

_NAME = re.compile(r"[^\s,\[\]=#\"\\]{1,64}")


class Hosts:
    """Expands the hostlists of a file, which may stand for so many names in all."""

    def __init__(self) -> None:
        self._left = MOST_HOSTS

    def name(self, field: Field) -> str:
        """One name, of a switch or a block."""
        self._left -= 1
        if self._left < 0:
            raise field.error(f"there are more than {MOST_HOSTS:,} names")
        with field.named():
            return checked_name(field.text(), "the name")

    def names(self, field: Field) -> tuple[str, ...]:
        """The different names of a hostlist; none if it is absent."""
        if field.absent:
            return ()
        text = field.text()
        with field.named():
            found = expand_hostlist(text, most=self._left)
        self._left -= len(found)
        seen: set[str] = set()
        for name in found:
            if name in seen:
                raise field.error(f"{show(name)} is there twice")
            seen.add(name)
        return found


def checked_name(name: str, what: str) -> str:
    """The name, if it can stand in a file."""
    if not _NAME.fullmatch(name):
        rule = "1 to 64 characters, no space, comma, bracket, quote, '=', '#' or '\\'"
        raise ValueError(f"{what} {show(name)}: a name has {rule}")
    return name
