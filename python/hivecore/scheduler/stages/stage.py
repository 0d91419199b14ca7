"""The interface of a stage, which adapts a part to the scheduler.

Stages decide in order. What a stage chooses narrows the `Offer` for the next. The methods of the
base class do nothing, so callers need not know which parts exist.
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
    """Is notified of changes in the stages."""

    #: what waits for each change; empty: no notification is needed
    by_key: dict[Key, Any]

    def touch(self, keys: Iterable[Key], /) -> None:
        """Record that changes have happened."""


class Granted(NamedTuple):
    """The devices of a pod's claims."""

    node: str
    #: for all claims on the node; ``claims``: the positions of this pod's
    decision: Any
    claims: range


_NONE = Counter[tuple[str, str]]()  # never changed


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
        #: filters nodes that all parts can use now
        self.usable: Any = usable
        #: the allowed nodes; empty: all
        self.nodes = nodes
        #: how many pods each node may get, see `Limits`; None: any number
        self.most: Any = None
        #: by role and node, the number of other pods of the job, if it is limited
        self.beside: Counter[tuple[str, str]] = _NONE
        #: node and GPUs of each pod, as far as they are chosen; None: nothing is
        self.places: Places | None = None
        #: by stage
        self.decisions: dict[str, Any] = {}
        #: the decision on the devices of each pod
        self.taken: list[Any] = []
        #: the devices of claims, by pod
        self.granted: dict[int, Granted] = {}
        #: limits for what the devices of all claims take together; others are unlimited
        self.within: dict[Taking, Fraction] = {}
        #: by pod, the nodes that can serve its claims
        self.able: dict[int, tuple[str, ...]] = {}
        #: after a refusal: the pod that its chosen node cannot serve; -1: none
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
        """The pods, as placed by the stages that chose nodes and devices."""
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
        """The chosen node of each pod; "": not chosen yet."""
        nodes = [""] * len(self.unit.pods) if self.places is None else [at for at, _ in self.places]
        for i, decision in enumerate(self.taken):
            nodes[i] = nodes[i] if decision is None else decision.node
        return nodes

    def allocations(self, pod: int) -> tuple[tuple[str, Any], ...]:
        """The allocation of each claim of a pod, by template."""
        if pod not in self.granted:
            return ()
        _, decision, numbers = self.granted[pod]
        names = [decision.claims[number].name.rpartition("/")[2] for number in numbers]
        return tuple(zip(names, [decision.allocations[number] for number in numbers], strict=True))


class Rebooking(NamedTuple):
    """A change of the pods of a running unit."""

    unit: Unit
    #: the unit with its new pods
    now: Unit
    #: a unit of the same job whose pods it takes; None: there is none
    other: Unit | None
    #: pods that change their numbers, before and after
    taken: Sequence[tuple[PlacedPod, PlacedPod]]

    @property
    def name(self) -> str:
        """The name of the unit."""
        return self.unit.name


class Audited(NamedTuple):
    """The resources of all jobs, for an audit."""

    units: list[Unit]
    #: running units
    running: list[Unit]
    #: names of units that have their own resources
    holders: set[str]
    #: jobs that read data, and whether they run
    reading: dict[str, bool]


class Stage:
    """Adapts a part of the scheduler; by default it decides nothing."""

    name: ClassVar[str] = ""
    part: Any = None
    #: the fields of `Job`, `Role` and `Where` that the part enforces
    honours: ClassVar[frozenset[str]] = frozenset()
    #: the nodes of the part; None: it has none
    nodes: frozenset[str] | None = None
    #: whether the part keeps removed nodes
    keeps_nodes: ClassVar[bool] = False
    #: whether it can limit pods per node only if it places a single role
    limits_one_role: ClassVar[bool] = True
    #: undoes changes of the stage itself
    log: UndoLog = UndoLog()

    def branch(self) -> Self:
        """A stage for a copy of the part."""
        branch = copy.copy(self)
        branch.part = self.part.copy()
        return branch

    # --- constraints

    def chooses_node(self, role: Role) -> bool:
        """Whether the part chooses or restricts the nodes of a role's pods."""
        return False

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the part limits a resource for the pods of a job."""
        return False

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of a kind would wait even in the empty, healthy part; "" if they would not.

        :param nodes: the allowed nodes; empty: all.
        :param growing: whether nodes may be added and totals may grow.
        """
        return ""

    # --- nodes

    def knows(self, node: str) -> bool:
        """Whether this stage allows a node."""
        return self.nodes is None or node in self.nodes

    def set_health(self, node: str, healthy: bool) -> None:
        """Record that a node failed or recovered."""
        self.part.set_health(node, healthy)

    def remove_node(self, node: str) -> None:
        """Remove a node."""
        self.part.remove_node(node)

    def unhealthy(self) -> Iterable[str]:
        """Nodes that are unhealthy, at least in part."""
        return ()

    def forget(self) -> None:
        """Forget what was derived from the part, as it has changed."""

    # --- a unit

    def submit(self, unit: Unit) -> None:
        """Record that a unit waits."""

    def withdraw(self, unit: Unit) -> None:
        """Record that a unit no longer waits, and will not run."""

    def evict(self, unit: Unit, reclaimed: bool) -> None:
        """Record that a running unit waits again; ``reclaimed``: for another quota."""

    def propose(self, offer: Offer) -> Refused | None:
        """Add this stage's decision to an offer, or return a refusal."""
        return None

    def retract(self, offer: Offer) -> None:
        """Undo `propose`, as a later stage refuses."""

    def commit(self, offer: Offer) -> None:
        """Carry out this stage's decision."""

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Release the resources of a unit that cells or a network may have placed."""

    def check_holds(self, unit: Unit) -> None:
        """Raise KeyError if a unit has lost what this stage gave it to a change from outside."""

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the resources of a job to another job of the same kind."""

    def rebook(self, change: "Rebooking") -> None:
        """Change the pods of a running unit."""

    def begin(self, unit: Unit) -> None:
        """Record that a unit runs on its own resources."""

    def adopt(self, unit: Unit) -> None:
        """Give a unit the nodes and devices that it uses already.

        :raises ValueError: it cannot have them.
        :raises StaleDecisionError: another unit has them.
        """

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Reserve what a unit needs beside the resources of its victims.

        :param offer: from a trial without the victims.
        :param leaving: units of victims that cells or a network placed.
        """

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release what is reserved for a unit; ``leaving``: units of victims that still run."""

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Decide on a unit with the resources that are reserved for it."""
        return None

    # --- waiting

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The keys to touch when a unit of a kind releases its resources."""
        return ()

    def begun(self, kind: Kind) -> tuple[Key, ...]:
        """The keys to touch when a unit of a kind starts."""
        return ()

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether this stage would refuse waiting units of a kind again. A quick check."""
        return False

    # --- the whole state

    def faults(self, audited: Audited) -> Iterator[str]:
        """Differences between this stage and the jobs."""
        return iter(())

    def ordered_nodes(self) -> tuple[str, ...]:
        """The nodes of the part, in its order."""
        return () if self.nodes is None else tuple(self.part.nodes)

    def dimensions(self) -> Iterable[Dimension]:
        """The resources that the part counts on nodes."""
        return ()

    def idle_gpus(self) -> dict[str, int]:
        """The number of idle GPUs by node; empty if the part counts none."""
        return {}

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer; empty if the part has no such layer."""
        return {}

    def domains_for(self, job: Job) -> list[tuple[str, ...]]:
        """Domains, one of which must hold a job; empty if all nodes are one domain."""
        return []


class PlacingStage(Stage):
    """Adapts a part that places units by name."""

    def commit(self, offer: Offer) -> None:
        """Allocate the placement of a unit."""
        decision = offer.decisions.get(self.name)
        if decision is not None:
            self.part.commit(decision)

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Release the placement of a unit."""
        if is_placed:
            self.part.release(unit.name)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the placement to another job."""
        if is_placed:
            self.part.rename(old, new)


def refused(stage: str, code: str, reason: str, *keys: Key) -> Refused:
    """A refusal by a stage, with the keys that may end it."""
    return Refused(Refusal(stage, code, reason), keys)
