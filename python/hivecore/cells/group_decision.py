"""The decision of a `CellCluster` on a group."""

from typing import Any, NamedTuple, Self

from hivecore import _cells
from hivecore._record import Record, force_setattr
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.pod_placement import PodPlacement
from hivecore.decisions import Outcome, Refusal

__all__ = ["GroupDecision", "Tried"]

_STAGE = "cells"
#: Ordered by how close a chain came to serving the group.
_REASONS = {
    "no cells": "the tenant owns no cells there",
    "no level": "it has no level of that name",
    "capacity": "the tenant's cells have too few free leaves",
    "fragmented": "enough leaves are free, but not together as the pods need them",
    "policy": "the tenant's placement policy gave no cells that can be used",
    "search limit": "no placement was found, and not all could be tried",
    "mapping": "the tenant has free cells, but only bad, not suggested or owed hardware could back "
    "them",
}
_IDLE_REASONS = _REASONS | {
    "capacity": "too few healthy leaves are idle",
    "fragmented": "enough leaves are idle, but not together as the pods need them",
}
_NEARNESS = {code: rank for rank, code in enumerate(_REASONS)}


class Tried(NamedTuple):
    """A chain, by its number, that does not serve a group, and the code of the reason."""

    chain: int
    code: str


class GroupDecision(Record, frozen=True, eq=False):
    """What `CellCluster.schedule` decided about a group; nothing has changed yet.

    :ivar request: the group.
    :ivar outcome: "bind": commit it. "preempt": the victims have to be released first. "wait":
        nothing serves it now.
    :ivar victims: names of the groups to release, in the order in which they were booked: by
        commits, or by the last reconfiguration.
    :ivar cancels: names of preempting groups whose reservations the commit cancels: groups of lower
        priority, and the group itself if its reserved leaves are unusable now.
    :ivar downgrades: names of the groups that the commit makes opportunistic (lazy preemption).

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

    request: AffinityGroup
    outcome: Outcome
    _names: Any
    _plan: Any = None
    _core: Any = None
    _tried: tuple[Tried, ...] = ()
    _placement: tuple[PodPlacement, ...] | None = None
    victims: tuple[str, ...] = ()
    cancels: tuple[str, ...] = ()
    downgrades: tuple[str, ...] = ()

    @property
    def placement(self) -> tuple[PodPlacement, ...]:
        """The `PodPlacement` of each pod, in the order of the members; empty if the group waits."""
        if self._placement is None:
            plan = self._plan
            placement = () if plan is None else self._names.pods.of_plan(plan)
            force_setattr(self, "_placement", placement)
            return placement
        return self._placement

    @property
    def places(self) -> list[tuple[str, tuple[int, ...]]]:
        """The node of each pod and the device indices of its GPUs; empty if the group waits.

        Takes less time than ``placement``, which has them too.
        """
        if self._placement is None and isinstance(self._plan, _cells.Plan):
            return self._names.pods.places(self._plan)  # type: ignore[no-any-return]
        return [(pod.node, pod.leaf_indices) for pod in self.placement]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why each chain that was tried does not serve the group, in their order."""
        reasons = _IDLE_REASONS if self.request.priority < 0 else _REASONS
        return tuple(
            Refusal(_STAGE, code, reasons[code], self._names.chains[chain])
            for chain, code in self._tried
        )

    @property
    def refusal(self) -> Refusal | None:
        """Why the group waits, with the code of the closest chain; ``None``: it does not."""
        if self.outcome != "wait":
            return None
        codes = [tried.code for tried in self._tried] or ["no cells"]
        return Refusal(_STAGE, max(codes, key=lambda code: _NEARNESS[code]), self.reason)

    @property
    def cut_short(self) -> bool:
        """Whether the search reached its limit: there may be a less harmful set of victims, or the
        group may not bind after these have left.
        """
        plan = self._plan
        return bool(self.victims) and plan is not None and plan.reason == "search limit"

    @property
    def reason(self) -> str:
        """Why the group cannot start now, in one line; empty if it can."""
        if self.outcome == "preempt":
            reason = f"waits for {', '.join(map(repr, self.victims))} to leave"
            return f"{reason}; not all choices could be tried" if self.cut_short else reason
        if self.outcome == "bind":
            return ""
        if not self._tried:
            return "no chain is to be searched"
        return "; ".join(f"chain {refusal.part!r}: {refusal.reason}" for refusal in self.refusals)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by value: the copy can be committed where its numbers mean the same."""
        plan = self._plan
        if isinstance(plan, _cells.Plan):
            touched = None
            if self._core.holds(plan):
                touched = [_state(self._core, handle) for handle in plan.cancels + plan.downgrades]
            plan = _LoosePlan(plan.reason, plan.pods, plan.virtual, touched)
        return GroupDecision, (
            self.request,
            self.outcome,
            _Chains(self._names.chains),
            plan,
            None,
            self._tried,
            self.placement,
            self.victims,
            self.cancels,
            self.downgrades,
        )

    def __copy__(self) -> Self:
        make, fields = self.__reduce__()
        return make(*fields)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"GroupDecision({self.outcome!r}, {self.request.name!r}, victims={self.victims})"


class _Chains(NamedTuple):
    """The names that a copied decision needs."""

    chains: tuple[str, ...]


class _LoosePlan(NamedTuple):
    """The plan of a copied decision."""

    reason: str
    pods: list[list[int]]
    virtual: list[list[tuple[int, int]]] | None
    touched: list[Any] | None
    """The states of the groups that it cancels, then downgrades; None: a group had changed before
    the decision was copied."""

    def fitted(
        self, core: Any, tenant: int, priority: int, cancels: list[int], downgrades: list[int]
    ) -> Any:
        """The plan for a kernel; ValueError if the groups have changed."""
        if [_state(core, handle) for handle in cancels + downgrades] != self.touched:
            raise ValueError("a group that it takes from has changed meanwhile")
        return core.plan(tenant, priority, self.pods, self.virtual, cancels, downgrades)


def _state(core: Any, handle: int) -> Any:
    """The state of a group, which a later group of its name differs in; None: it has ended."""
    try:
        return core.group(handle)._replace(being_preempted=False)
    except ValueError:
        return None
