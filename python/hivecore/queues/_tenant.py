"""A tenant of queues, with its line of jobs."""

from operator import attrgetter

from hivecore.queues._line import Entry, Line

__all__ = ["CHANGING", "Tenant", "changing_values", "place_of"]


#: What of a tenant changes.
CHANGING = ("logged", "mode", "offers", "ran", "rest", "runs", "size", "tag", "value", "weight")
changing_values = attrgetter(*CHANGING)


class Tenant:
    """Its line, what it offers, and its tag in the order of tenants."""

    __slots__ = ("index", "line", "name", *CHANGING)

    def __init__(self, name: str, index: int, mode: str, line: Line) -> None:
        self.name, self.index, self.mode, self.line = name, index, mode, line
        self.logged = 0  # the last mark since which it has changed
        self.size = 0  # jobs alive
        self.offers = False  # any of them: as its line says
        self.weight = 1
        self.tag: int | float = 0
        self.rest = 0  # of the tag, in parts of the weight
        self.value: int | float = 0
        self.ran = self.runs = 0  # by "gpu-time": how long its ended jobs ran, and how many

    def __lt__(self, other: "Tenant") -> bool:
        """No order: one of two with the same index is of a trial that was undone."""
        return False

    def copy(self, line: Line) -> "Tenant":
        """An equal with another line."""
        branch = Tenant(self.name, self.index, self.mode, line)
        branch.size, branch.offers, branch.weight = self.size, self.offers, self.weight
        branch.tag, branch.rest, branch.value = self.tag, self.rest, self.value
        branch.ran, branch.runs = self.ran, self.runs
        return branch


def place_of(entry: Entry) -> int:
    """The place of a job among all, as one number."""
    return (entry.key << 62) + entry.number
