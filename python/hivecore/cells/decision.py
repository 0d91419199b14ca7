"""What a `CellCluster` answers."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hivecore import _cells
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.cluster_names import ClusterNames
from hivecore.cells.pod_placement import PodPlacement

__all__ = [
    "Decision",
    "GroupStatus",
    "Reconfiguration",
    "Recovery",
    "Refusal",
    "describe_pods",
    "made_decision",
]

_CODES = ("", "capacity", "fragmented", "mapping", "search limit", "policy")
_SEARCH_LIMIT = _CODES.index("search limit")
_REASONS = (
    "",
    "the tenant's cells have too few free leaves",
    "enough leaves are free, but not together as the pods need them",
    "the tenant has free cells, but only bad, not suggested or owed hardware could back them",
    "no placement was found, and not all could be tried",
    "the tenant's placement policy gave no cells that can be used",
)
_IDLE_REASONS = (
    "",
    "too few healthy leaves are idle",
    "enough leaves are idle, but not together as the pods need them",
)


class Refusal(NamedTuple):
    """Why one chain cannot serve a group now."""

    chain: str
    code: Literal["no cells", "capacity", "fragmented", "mapping", "search limit", "policy"]
    reason: str


class Decision:
    """What to do with a group now: a proposal of `CellCluster.schedule`, until it is committed.

    >>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
    >>> chain = Chain(["gpu", "node"], fanouts=[4], roots=1)
    >>> cluster = CellCluster(ClusterSpec({"V100": chain}, {"A": {"V100": {"node": 1}}}))
    >>> decision = cluster.schedule(AffinityGroup("train", "A", [(1, 2)]))
    >>> decision.outcome, decision.placement[0].leaf_indices
    ('bind', (0, 1))
    >>> cluster.commit(decision)
    >>> waits = cluster.schedule(AffinityGroup("more", "A", [(1, 4)]))
    >>> waits.outcome, waits.reason
    ('wait', "chain 'V100': the tenant's cells have too few free leaves")
    """

    __slots__ = {  # noqa: RUF023 - the order in which they are read
        "group": "The request that was decided on.",
        "outcome": '"bind": commit it. "preempt": the victims have to be released first. "wait": '
        "nothing serves it now.",
        "victims": "Names of the groups that are in the way, each as a whole, in the order in "
        "which they were booked: by commits, or by the last reconfiguration.",
        "cancels": "Names of the preempting groups whose reservations end with the commit: those "
        "of lower priority that it takes over, and the group's own where its nodes are no good "
        "any more.",
        "downgrades": "Names of the groups that the commit makes opportunistic (lazy preemption).",
        "_names": None,
        "_plan": None,
        "_core": None,
        "_refused": None,
        "_placement": None,
    }

    group: AffinityGroup
    outcome: Literal["bind", "preempt", "wait"]
    victims: tuple[str, ...]
    cancels: tuple[str, ...]
    downgrades: tuple[str, ...]
    if TYPE_CHECKING:
        _names: ClusterNames
        _plan: Any
        _core: Any
        _refused: Any
        _placement: tuple[PodPlacement, ...] | None

    def __init__(self) -> None:
        """Not for callers: `CellCluster.schedule` makes decisions."""
        raise TypeError("a Decision is made by CellCluster.schedule")

    @property
    def placement(self) -> tuple[PodPlacement, ...]:
        """A `PodPlacement` for each pod, in the order of the group's members: its node and leaves.

        Empty when the group waits.
        """
        if self._placement is None:
            plan = self._plan
            self._placement = (
                () if plan is None else describe_pods(self._names, plan.pods, plan.virtual)
            )
        return self._placement

    @property
    def explanation(self) -> tuple[Refusal, ...]:
        """The chains that were tried in vain, in their order, and why."""
        idle = self.group.priority < 0
        return tuple(
            Refusal(self._names.chains[chain], "no cells", text)
            if code < 0
            else Refusal(
                self._names.chains[chain],
                _CODES[code],  # type: ignore[arg-type]
                (_IDLE_REASONS if idle and code < len(_IDLE_REASONS) else _REASONS)[code],
            )
            for chain, code, text in self._refused
        )

    @property
    def cut_short(self) -> bool:
        """Whether a search ended at its limit: other victims might be harmed less, or the group
        might not bind when these have gone.
        """
        plan = self._plan
        return bool(self.victims) and plan is not None and plan.reason == _SEARCH_LIMIT

    @property
    def reason(self) -> str:
        """Why the group cannot start now, in one line; empty when it can."""
        if self.outcome == "preempt":
            reason = f"waits for {', '.join(map(repr, self.victims))} to leave"
            return f"{reason}; not all choices could be tried" if self.cut_short else reason
        if self.outcome == "bind":
            return ""
        if not self._refused:
            return "no chain is to be searched"
        return "; ".join(f"chain {chain!r}: {reason}" for chain, _, reason in self.explanation)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """By value, of no cluster: it fits wherever its numbers mean the same."""
        plan = self._plan
        if isinstance(plan, _cells.Plan):
            touched = None
            if self._core.holds(plan):
                touched = [_state(self._core, handle) for handle in plan.cancels + plan.downgrades]
            plan = _LoosePlan(plan.reason, plan.pods, plan.virtual, touched)
        state = {name: getattr(self, name) for name in Decision.__slots__}
        loose = {"_core": None, "_names": _Chains(self._names.chains), "_plan": plan}
        return None, state | loose | {"_placement": self.placement}

    def __repr__(self) -> str:
        return f"Decision({self.outcome!r}, {self.group.name!r}, victims={self.victims})"


_new = object.__new__


def made_decision(
    group: AffinityGroup,
    outcome: Literal["bind", "preempt", "wait"],
    names: ClusterNames,
    plan: Any = None,
    core: Any = None,
    refused: Any = (),
    placement: tuple[PodPlacement, ...] | None = None,
    victims: tuple[str, ...] = (),
    cancels: tuple[str, ...] = (),
    downgrades: tuple[str, ...] = (),
) -> Decision:
    """A decision, with what it takes to commit and to explain it."""
    made = _new(Decision)
    made.group = group
    made.outcome = outcome
    made.victims = victims
    made.cancels = cancels
    made.downgrades = downgrades
    made._names = names
    made._plan = plan
    made._core = core
    made._refused = refused
    made._placement = placement
    return made


class GroupStatus(NamedTuple):
    """A live group of a `CellCluster`."""

    group: AffinityGroup
    state: Literal["Allocated", "Preempting", "BeingPreempted"]
    """BeingPreempted: allocated, and a preempting group has reserved some of its leaves."""
    guaranteed: bool
    """Whether it holds cells of its tenant; else it is opportunistic, asked or by downgrade."""
    lazy_preempted_by: str | None
    """The group for which it was made opportunistic; its own name: its cells are gone."""
    placement: tuple[PodPlacement, ...]
    victims: tuple[str, ...]
    """Groups that are still on leaves which this one has reserved."""


class Recovery(NamedTuple):
    """What became of a recovered group."""

    downgraded: bool
    """It runs on, but opportunistically: its cells cannot be had."""
    displaced: tuple[str, ...]
    """Less important groups that were made opportunistic for it."""
    lost: tuple[tuple[str, int], ...]
    """(node, leaf index) that no longer exist; the rest is kept."""


class Reconfiguration(NamedTuple):
    """What a new specification has changed for the live groups."""

    downgraded: tuple[str, ...]
    """Groups that run on, but opportunistically, in the order of their commits."""
    lost: dict[str, tuple[tuple[str, int], ...]]
    """Group -> (node, leaf index) that no longer exist."""
    cancelled: tuple[str, ...]
    """Groups that were preempting others: their reservations are gone."""
    promoted: tuple[str, ...]
    """Groups that have the cells of their tenant back, in the order of their commits."""


class _Chains(NamedTuple):
    """What a decision of no cluster needs of the names."""

    chains: tuple[str, ...]


class _LoosePlan(NamedTuple):
    """The plan of such a decision."""

    reason: int
    pods: list[list[int]]
    virtual: list[list[tuple[int, int]]] | None
    touched: list[Any] | None
    """The states of the groups that it cancels, then of those that it downgrades; None: one of them
    had changed when the decision was copied."""

    def fitted(
        self, core: Any, tenant: int, priority: int, cancels: list[int], downgrades: list[int]
    ) -> Any:
        """The plan in the numbers of a core, or ValueError; the groups must be as they were."""
        if [_state(core, handle) for handle in cancels + downgrades] != self.touched:
            raise ValueError("a group that it takes from has changed meanwhile")
        return core.plan(tenant, priority, self.pods, self.virtual, cancels, downgrades)


def _state(core: Any, handle: int) -> Any:
    """What tells a group of the core from a later one of its name; None: it is gone."""
    try:
        return core.group(handle)[:6]
    except ValueError:
        return None


def describe_pods(names: ClusterNames, pods: Any, virtual: Any) -> tuple[PodPlacement, ...]:
    """Names for the leaves of each pod and for the tenant's cells that they belong to."""
    if virtual is None:
        return tuple(names.describe_pod(leaves, None) for leaves in pods)
    return tuple(
        names.describe_pod(leaves, [pool for pool, _ in cells])
        for leaves, cells in zip(pods, virtual, strict=True)
    )
