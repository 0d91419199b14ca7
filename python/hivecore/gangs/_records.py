"""What is known of a pod, a gang and a group of gangs."""

from collections import deque
from dataclasses import dataclass, field

from hivecore.gangs.action import PodState
from hivecore.gangs.gang_spec import GangSpec

__all__ = ["GangBook", "GroupBook", "PodBook", "counted"]


@dataclass(eq=False, slots=True)
class PodBook:
    """A pod; ``time`` is when it loses its place or is retried, or -1."""

    name: str
    gang: "GangBook"
    role: str
    number: int
    state: PodState | None = None
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    time: int = -1
    failures: int = 0
    doomed: bool = False  # its group failed while it was being tried
    queued: bool = False  # in the queue of its group


@dataclass(eq=False, slots=True)
class GangBook:
    """A gang with its counts."""

    name: str
    spec: GangSpec | None = None
    source: str = ""  # "object", "pod", or "" if undefined
    pods: dict[str, PodBook] = field(default_factory=dict)
    live: int = 0
    placed: int = 0
    bound: int = 0
    of_role: dict[str, list[int]] = field(default_factory=dict)  # the same three counts by role
    valid: bool = False
    collected: bool = False
    group: "GroupBook" = field(init=False)


@dataclass(eq=False, slots=True)
class GroupBook:
    """A group of gangs that start together; ``time``: when it is tried again, -1: never."""

    names: tuple[str, ...]
    number: int
    id: str = field(init=False)
    lacking: int = field(init=False)  # named gangs that are not valid
    uncollected: int = field(init=False)
    members: dict[str, GangBook] = field(default_factory=dict)
    short: int = 0  # members that are not valid
    awaited: int = 0  # how often other groups name its members
    live: int = 0
    once: bool = False
    members_bound: int = -1  # at the first release, or -1
    idle: dict[int, PodBook] = field(default_factory=dict)
    alone: int = 0  # idle pods with their own timer
    waiting: dict[int, PodBook] = field(default_factory=dict)
    open: bool = False  # whether a round is under way
    queue: deque[PodBook] = field(default_factory=deque)
    trying: PodBook | None = None
    failure: str = ""
    failures: int = 0
    time: int = -1

    def __post_init__(self) -> None:
        self.id = ",".join(self.names)
        self.lacking = self.uncollected = len(self.names)

    @property
    def outside(self) -> int:
        """The number of gangs that start with it without being members."""
        return len(self.names) - len(self.members)


def counted(spec: GangSpec, live: int, placed: int, bound: int) -> tuple[int, int]:
    """Return how many places and pods count towards a minimum, by the gang's policy."""
    policy = spec.match_policy
    if policy == "waiting-and-running":
        return placed + bound, live
    return placed, live - bound if policy == "only-waiting" else live
