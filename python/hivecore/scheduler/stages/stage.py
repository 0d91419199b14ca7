"""The protocol of the stages: each adapts one part of the scheduler.

Stages decide in order: what a stage chooses for a unit narrows the `Offer` for the next stage. The
methods of the base class do nothing, so that callers need not know which parts exist.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages.units import Key, Kind, Places, Refused, Taking, Unit

__all__ = [
    "Audited",
    "Granted",
    "Listener",
    "Offer",
    "PlacingStage",
    "Rebooking",
    "Stage",
    "refused",
]


class Listener(Protocol):
    """An object that is notified of changes in the stages."""

    #: what waits for each change; empty: nothing has to be touched
    by_key: dict[Key, Any]

    def touch(self, keys: Iterable[Key], /) -> None:
        """Note that changes have happened."""


class Granted(NamedTuple):
    """The devices that the claims of a pod have."""

    node: str
    #: of all pods of the node, and which claims of it are those of this pod
    decision: Any
    claims: range


_NONE = Counter[tuple[str, str]]()  # is not changed


class Offer:
    """What the stages have chosen for a unit so far."""

    __slots__ = (
        *(
            "able",
            "beside",
            "decisions",
            "granted",
            "most",
            "nodes",
            "places",
            "refused_pod",
            "taken",
        ),
        *("unit", "usable", "within"),
    )

    def __init__(
        self, unit: Unit, nodes: tuple[str, ...], usable: Callable[..., Any] | None = None
    ) -> None:
        self.unit = unit
        #: those of some nodes that all parts can use now
        self.usable: Any = usable
        #: the only nodes to use; none: all
        self.nodes = nodes
        #: how many pods each node may get, see `Limits`; None: any number
        self.most: Any = None
        #: how many other pods of a role the job has on a node, where that is limited
        self.beside: Counter[tuple[str, str]] = _NONE
        #: node and GPUs of each pod, as far as they are chosen; None: none is
        self.places: Places | None = None
        #: by stage
        self.decisions: dict[str, Any] = {}
        #: the decision on the devices of each pod
        self.taken: list[Any] = []
        #: what the claims of pods have, by pod
        self.granted: dict[int, Granted] = {}
        #: the most that the devices of all claims may take together; of others: any amount
        self.within: dict[Taking, Fraction] = {}
        #: by pod, the only nodes to use where its claims restrict them
        self.able: dict[int, tuple[str, ...]] = {}
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
        places, taken, granted = self.places, self.taken, self.granted
        for i, (role, number) in enumerate(self.unit.pods):
            decision = taken[i] if taken else None
            if i in granted:
                node, minors = granted[i].node, () if decision is None else decision.minors
                if decision is None and places is not None and places[i][1]:
                    minors = (("gpu", places[i][1]),)
                pods.append(PlacedPod(role, number, node, minors, decision, self.allocations(i)))
            elif decision is not None:
                pods.append(PlacedPod(role, number, decision.node, decision.minors, decision))
            else:
                node, gpus = ("", ()) if places is None else places[i]
                pods.append(PlacedPod(role, number, node, (("gpu", gpus),) if gpus else ()))
        return tuple(pods)

    def nodes_of_pods(self) -> list[str]:
        """The node of each pod, as far as it is chosen; "": it is not."""
        nodes = [""] * len(self.unit.pods) if self.places is None else [at for at, _ in self.places]
        for i, decision in enumerate(self.taken):
            nodes[i] = nodes[i] if decision is None else decision.node
        return nodes

    def allocations(self, pod: int) -> tuple[tuple[str, Any], ...]:
        """The allocation of each claim of a pod, by the name of its template."""
        if pod not in self.granted:
            return ()
        _, decision, numbers = self.granted[pod]
        names = [decision.claims[number].name.rpartition("/")[2] for number in numbers]
        return tuple(zip(names, [decision.allocations[number] for number in numbers], strict=True))


class Rebooking(NamedTuple):
    """A running unit that has fewer pods from now on, or more."""

    unit: Unit
    #: the same unit with the pods that it has from now on
    now: Unit
    #: a unit of the same job whose pods it gets; None: there is none
    other: Unit | None
    #: pods that have other numbers from now on, before and after
    taken: Sequence[tuple[PlacedPod, PlacedPod]]

    @property
    def name(self) -> str:
        """The name of the unit."""
        return self.unit.name


class Audited(NamedTuple):
    """The resources of all jobs, for an audit."""

    units: list[Unit]
    #: the running units
    running: list[Unit]
    #: the names of units that have resources of their own
    holders: set[str]
    #: the jobs that read data, and whether they run
    reading: dict[str, bool]


class Stage:
    """An adapter of a part; by default it decides nothing."""

    name: ClassVar[str] = ""
    part: Any = None
    #: the fields of `Job`, `Role` and `Where` that the part enforces
    honours: ClassVar[frozenset[str]] = frozenset()
    #: the nodes of the part; None: it has no nodes
    nodes: frozenset[str] | None = None
    #: whether the part keeps removed nodes
    keeps_nodes: ClassVar[bool] = False
    #: whether it can limit how many pods a node gets only where it places pods of a single role
    limits_one_role: ClassVar[bool] = True
    #: undoes changes of the adapter itself
    log: UndoLog = UndoLog()

    def branch(self) -> Self:
        """An adapter of a copy of the part."""
        branch = copy.copy(self)
        branch.part = self.part.copy()
        return branch

    # --- constraints

    def chooses_node(self, role: Role) -> bool:
        """Whether the part chooses, or restricts, the nodes of a role's pods."""
        return False

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the part limits how much of a resource the pods of a job take."""
        return False

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of this kind would wait in the empty, healthy part as well; "": they would not.

        :param nodes: the only nodes to use; none: all.
        :param growing: whether nodes may be added, and totals may grow.
        """
        return ""

    # --- nodes

    def knows(self, node: str) -> bool:
        """Whether this stage allows a node."""
        return self.nodes is None or node in self.nodes

    def set_health(self, node: str, healthy: bool) -> None:
        """Note that a node fails or recovers."""
        self.part.set_health(node, healthy)

    def remove_node(self, node: str) -> None:
        """Remove a node."""
        self.part.remove_node(node)

    def unhealthy(self) -> Iterable[str]:
        """The nodes that are unhealthy, at least in part."""
        return ()

    def forget(self) -> None:
        """Forget what was derived from the part, which has changed."""

    # --- a unit

    def submit(self, unit: Unit) -> None:
        """Note that a unit waits."""

    def withdraw(self, unit: Unit) -> None:
        """Note that a unit waits no more, and will not run."""

    def evict(self, unit: Unit, reclaimed: bool) -> None:
        """Note that a unit that ran waits again.

        :param reclaimed: another quota reclaims the resources of the unit.
        """

    def propose(self, offer: Offer) -> Refused | None:
        """Add the decision of this stage to an offer, or return why it refuses."""
        return None

    def retract(self, offer: Offer) -> None:
        """Undo what `propose` has changed, as a later stage refuses."""

    def commit(self, offer: Offer) -> None:
        """Carry out the decision of this stage."""

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Free the place of a unit.

        :param is_placed: whether cells or a network have placed it.
        """

    def check_holds(self, unit: Unit) -> None:
        """See that a unit that runs has all that this stage gave it.

        :raises KeyError: it does not, because the part was changed from outside.
        """

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the resources of a job, which is like a unit, to another job."""

    def rebook(self, change: "Rebooking") -> None:
        """Book a running unit with fewer pods, or with more."""

    def begin(self, unit: Unit) -> None:
        """Note that a unit runs on resources of its own."""

    def adopt(self, unit: Unit) -> None:
        """Give a unit the places and devices that it has already.

        :raises ValueError: it cannot have them.
        :raises StaleDecisionError: another unit has them.
        """

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Hold for a unit what it needs to start when its victims have stopped.

        :param offer: of a trial without the victims.
        :param leaving: the units of the victims that cells or a network have placed.
        """

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold nothing for a unit any more.

        :param leaving: the units that had to stop, and have not.
        """

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Decide on a unit on the resources that are held for it."""
        return None

    # --- what waits for what

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The keys to touch when a unit of a kind frees its resources."""
        return ()

    def begun(self, kind: Kind) -> tuple[Key, ...]:
        """The keys to touch when a unit of a kind starts."""
        return ()

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether this stage would refuse waiting units of a kind as before, at a glance."""
        return False

    # --- the whole state

    def faults(self, audited: Audited) -> Iterator[str]:
        """Differences between this stage and the jobs."""
        return iter(())

    def ordered_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that the part has, in its order."""
        return () if self.nodes is None else tuple(self.part.nodes)

    def dimensions(self) -> Iterable[Dimension]:
        """What the part counts by node."""
        return ()

    def idle_gpus(self) -> dict[str, int]:
        """How many GPUs of each node are wholly idle; none: the part counts none."""
        return {}

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer, by name; none: the part has no such layer."""
        return {}

    def domains_for(self, job: Job) -> list[tuple[str, ...]]:
        """Sets of nodes, a single one of which has to hold a job; none: all nodes together."""
        return []


class PlacingStage(Stage):
    """An adapter of a part that places units, each under its name."""

    def commit(self, offer: Offer) -> None:
        """Allocate the place of a unit."""
        decision = offer.decisions.get(self.name)
        if decision is not None:
            self.part.commit(decision)

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Free the place of a unit."""
        if is_placed:
            self.part.release(unit.name)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Give the place to another job."""
        if is_placed:
            self.part.rename(old, new)


def refused(stage: str, code: str, reason: str, *keys: Key) -> Refused:
    """A refusal by a stage, with the keys that may end it."""
    return Refused(Refusal(stage, code, reason), keys)
