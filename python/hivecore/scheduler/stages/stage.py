"""The protocol of the stages: each adapts one part of the scheduler.

Stages are asked in order. What one of them chooses for a unit narrows the `Offer` for the next one.
The base class is a part that has no say, so that nobody asks which parts there are.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

from hivecore._thousandths import Amount
from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.lifecycle.units import Key, Kind, Places, Refused, Unit
from hivecore.scheduler.stages._counting import Dimension

__all__ = ["Audited", "Listener", "Offer", "Stage", "refused"]


class Listener(Protocol):
    """An object that is told what has happened in the stages; it is false while nothing waits."""

    def __bool__(self) -> bool: ...
    def touch(self, keys: Iterable[Key], /) -> None:
        """Something has happened."""


class Offer:
    """What the stages would allocate to a unit."""

    __slots__ = ("decisions", "most", "nodes", "places", "refused_pod", "taken", "unit")

    def __init__(self, unit: Unit, nodes: tuple[str, ...]) -> None:
        self.unit = unit
        #: the only nodes to use; none: all
        self.nodes = nodes
        #: how many pods each node may get, see `Limits`; None: any number
        self.most: Any = None
        #: node and GPUs of each pod, as far as they are chosen; None: none is
        self.places: Places | None = None
        #: by stage
        self.decisions: dict[str, Any] = {}
        #: the decision on the devices of each pod
        self.taken: list[Any] = []
        #: after a refusal: the pod that gets nothing on the node that was chosen for it; -1: none
        self.refused_pod = -1

    @property
    def name(self) -> str:
        """The name of the unit."""
        return self.unit.name

    @property
    def is_placed(self) -> bool:
        """Whether cells or a network place the pods."""
        return self.places is not None

    def pods(self) -> tuple[PlacedPod, ...]:
        """Where each pod is, by the stage that chose its node or devices."""
        pods = []
        places, taken = self.places, self.taken
        for i, (role, number) in enumerate(self.unit.pods):
            decision = taken[i] if taken else None
            if decision is not None:
                pods.append(PlacedPod(role, number, decision.node, decision.minors, decision))
            else:
                node, gpus = ("", ()) if places is None else places[i]
                pods.append(PlacedPod(role, number, node, (("gpu", gpus),) if gpus else ()))
        return tuple(pods)


class Audited(NamedTuple):
    """What all jobs have, for an audit."""

    units: list[Unit]
    #: the units that run
    running: list[Unit]
    #: by name those that have resources of their own
    holders: set[str]
    #: the jobs that read data, and whether they run
    reading: dict[str, bool]


class Stage:
    """An adapter of a part, by default of one that has no say."""

    name: ClassVar[str] = ""
    part: Any = None
    #: the fields of `Job`, `Role` and `Where` that the part enforces
    honours: ClassVar[frozenset[str]] = frozenset()
    #: the nodes that it has; None: it knows of no nodes
    nodes: frozenset[str] | None = None
    #: whether nodes that have gone are known still
    keeps_nodes: ClassVar[bool] = False
    #: undoes changes of the adapter that the part does not know of
    log: UndoLog = UndoLog()

    # --- constraints
    #: whether the part takes back what it has lent, and decides which priorities count
    reclaims: ClassVar[bool] = False

    def chooses_node(self, role: Role) -> bool:
        """Whether the part chooses, or restricts, the nodes of a role's pods."""
        return False

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the part limits how much of a resource the pods of a job take."""
        return False

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The nodes that hold all pods of a job of which some are on these; ``None``: any do."""
        return None

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of this kind would wait in the empty, healthy part as well; "": they would not.

        :param nodes: the only ones to use; none: all.
        :param growing: whether nodes may come, and totals may grow.
        """
        return ""

    # --- nodes

    def knows(self, node: str) -> bool:
        """Whether a node may be used, as far as this stage knows."""
        return self.nodes is None or node in self.nodes

    def remove_node(self, node: str) -> None:
        """A node has gone."""
        self.part.remove_node(node)

    def unhealthy(self) -> Iterable[str]:
        """The nodes that are marked so, at least in part."""
        return ()

    def forget(self) -> None:
        """The part has changed: forget all that was derived from it."""

    # --- a unit

    def submit(self, unit: Unit) -> None:
        """A unit asks for its part from now on."""

    def withdraw(self, unit: Unit) -> None:
        """A unit asks for nothing any more."""

    def evict(self, unit: Unit, reclaimed: bool) -> None:
        """A unit that ran waits again, and asks for its part still.

        :param reclaimed: another quota takes back what the unit has.
        """

    def propose(self, offer: Offer) -> Refused | None:
        """Add the decision of this stage to an offer, or say why there is none."""
        return None

    def commit(self, offer: Offer) -> None:
        """Carry out the decision of this stage."""

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Free the place of a unit.

        :param is_placed: whether cells or a network have placed it.
        """

    def is_downgraded(self, unit: str) -> bool:
        """Whether a unit of this name has lost its guarantee since it started."""
        return False

    def check_holds(self, unit: Unit) -> None:
        """See that a unit that runs has all that this stage gave it.

        :raises KeyError: it does not, because the part was changed from outside.
        """

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """What a job has that is like that of a unit belongs to a job of another name."""

    def begin(self, unit: Unit) -> None:
        """A unit runs from now on, on resources of its own."""

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Keep for a unit what it starts with when others have stopped, beside these.

        :param offer: of a trial in which they have stopped.
        :param leaving: the units that have to stop, and that cells or a network have placed.
        """

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Keep nothing for a unit any more.

        :param leaving: the units that had to stop, and have not.
        """

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Decide on a unit whose resources were kept, where it is held."""
        return None

    # --- what waits for what

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """What has happened when a unit of a kind frees its resources."""
        return ()

    def requested(self) -> tuple[Key, ...]:
        """What has happened when a unit asks for something, or does not any more."""
        return ()

    def may_start(self, kind: Kind) -> bool:
        """Whether a unit that this stage has refused is worth another try, at a glance."""
        return True

    # --- trials and the whole state

    def trial(self) -> AbstractContextManager[None]:
        """A context whose changes to the part are undone at its end."""
        trial: AbstractContextManager[None] = self.part.trial()
        return trial

    def faults(self, audited: Audited) -> Iterator[str]:
        """What this stage has that the jobs do not have, or the reverse."""
        return iter(())

    def ordered_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that the part has, in its order."""
        return ()

    def dimensions(self, pods: Iterable[PlacedPod]) -> Iterable[Dimension]:
        """What the part counts by node.

        :param pods: all pods that have a place.
        """
        return ()

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer, by name; none: the part has no such layer."""
        return {}

    def domains_for(self, job: Job) -> list[tuple[str, ...]]:
        """Sets of nodes of which one has to hold a job; none: it may use all nodes together."""
        return []

    def not_admitted(self, unit: Unit) -> str:
        """Why the part would not admit a unit, wherever it is placed; "": it would."""
        return ""

    def borrows(self, unit: Unit) -> bool:
        """Whether a unit uses, or would use, more than it is entitled to, or is not admitted."""
        return False

    def overusers(self, names: Iterable[tuple[str, str]]) -> dict[str, bool]:
        """Of jobs, given with their quotas, those that use what others are entitled to, and whether
        the part would evict each of them first.
        """
        return {}

    def less_important(self, unit: Unit) -> tuple[str, ...]:
        """Units of lower priority without which a unit would be admitted; none: too few."""
        return ()

    def has_less_important(self, unit: Unit) -> bool:
        """Whether any unit of lower priority uses the same quota."""
        return False

    def uncharge(self, request: str) -> None:
        """Charge the part no more for a unit, given by the name that quotas know."""

    def overuse(self) -> dict[str, dict[str, Amount]]:
        """By quota that uses more than it is entitled to, by dimension how much more."""
        return {}

    def has_opportunistic(self, unit: Unit, refusal: Refusal) -> bool:
        """Whether opportunistic units of other quotas use what a unit lacks that was refused."""
        return False


def refused(stage: str, code: str, reason: str, *keys: Key) -> Refused:
    """A refusal by a stage, and what has to happen first."""
    return Refused(Refusal(stage, code, reason), keys)
