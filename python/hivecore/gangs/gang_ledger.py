"""What is known of pods and gangs."""

from threading import RLock
from typing import Any, Self

from hivecore._arguments import as_bool, as_int, as_text
from hivecore._stateful import PlainState, counted, shown
from hivecore._turns import in_turn
from hivecore.gangs._audit import audit
from hivecore.gangs._records import GangBook, PodBook
from hivecore.gangs._rounds import Rounds
from hivecore.gangs._saved import plain, rebuilt
from hivecore.gangs._states import IDLE
from hivecore.gangs.action import BindInfo, GangStatus, PodStatus
from hivecore.gangs.gang_spec import GangSpec
from hivecore.gangs.phases import gang_phase

__all__ = ["GangLedger"]


class GangLedger(PlainState):
    """The part of a `Coscheduler` that reads: the status of pods and gangs, and saved states."""

    __slots__ = ("_lock", "_rounds")
    _SAVED_AS = b"HVGA", 1

    def __init__(
        self, *, backoff: int = 1, max_backoff: int = 10, resolve_deadlocks: bool = True
    ) -> None:
        least = as_int(backoff, "backoff", 1, 2**60)
        most = as_int(max_backoff, "max_backoff", least, 2**60)
        self._rounds = Rounds(least, most, as_bool(resolve_deadlocks, "resolve_deadlocks"))
        self._lock = RLock()

    @in_turn
    def __repr__(self) -> str:
        gangs = counted(len(self._rounds.gangs), "gang")
        return shown(self, gangs, counted(len(self._rounds.pods), "pod"))

    @property
    def deadline(self) -> int | None:
        """When `advance` has something to do next, if at all."""
        with self._lock:
            return self._rounds.timers.next()

    @in_turn
    def __len__(self) -> int:
        return len(self._rounds.pods)

    @in_turn
    def __contains__(self, pod: object) -> bool:
        return pod in self._rounds.pods

    @property
    def gangs(self) -> tuple[str, ...]:
        """The gangs that are defined or have pods, sorted."""
        with self._lock:
            return tuple(sorted(self._rounds.gangs))

    @in_turn
    def pods(self, gang: str) -> tuple[str, ...]:
        """Return the pods of a gang, in the order of creation."""
        return tuple(self._gang(gang).pods)

    @in_turn
    def spec(self, gang: str) -> GangSpec | None:
        """Return the definition of a gang; ``None`` if only its pods are known."""
        return self._gang(gang).spec

    @in_turn
    def pod(self, name: str) -> PodStatus:
        """Return the status of a pod. O(1)."""
        book = self._known(name)
        state = book.state
        assert state is not None
        time = book.time
        if state in IDLE and time < 0:
            time = book.gang.group.time
        return PodStatus(
            book.gang.name,
            book.role,
            state,
            self._rounds.reason(book),
            None if time < 0 else time,
            book.holds,
            book.lacks,
        )

    @in_turn
    def gang(self, name: str) -> GangStatus:
        """Return the status of a gang. O(pods of the gang)."""
        gang = self._gang(name)
        states = [pod.state for pod in gang.pods.values()]
        running = states.count("running")
        succeeded, failed = states.count("succeeded"), states.count("failed")
        phase = gang_phase(
            "",
            gang.spec.min_members if gang.spec else 0,
            pods=len(states),
            bound=gang.bound + succeeded + failed,
            running=running,
            succeeded=succeeded,
            failed=failed,
        )
        return GangStatus(
            gang.group.names,
            gang.spec is not None,
            gang.live,
            gang.placed,
            gang.bound,
            running,
            succeeded,
            failed,
            gang.valid,
            gang.group.once,
            phase,
        )

    @in_turn
    def bind_info(self, pod: str) -> BindInfo | None:
        """Return what to write on a pod when it is bound; ``None`` if its group was
        never released.
        """
        group = self._known(pod).gang.group
        return None if group.members_bound < 0 else BindInfo(group.id, group.members_bound)

    @in_turn
    def waits_for(self, gang: str) -> tuple[str, ...]:
        """Return the groups that hold what a gang's group lacks, while it holds
        something itself.
        """
        group = self._gang(gang).group
        return tuple([other.id for other in self._rounds.graph.waits_for(group)])

    @in_turn
    def check(self) -> None:
        """Check every invariant; raise `InvariantError` on failure. O(pods), and the wait-for
        graph.
        """
        audit(self._rounds)

    def _plain(self) -> dict[str, Any]:
        return plain(self._rounds)

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        restored = cls()
        restored._rounds = rebuilt(state)
        return restored

    def _known(self, pod: str) -> PodBook:
        book = self._rounds.pods.get(pod if type(pod) is str else as_text(pod, "pod"))
        if book is None:
            raise KeyError(f"there is no pod {pod!r}")
        return book

    def _gang(self, name: str) -> GangBook:
        gang = self._rounds.gangs.get(as_text(name, "gang"))
        if gang is None:
            raise KeyError(f"there is no gang {name!r}")
        return gang
