"""The live groups of a `CellCluster`: what they are called, beside the numbers of the kernel."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from hivecore import _cells
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.books.cluster_names import ClusterNames, Suggested
from hivecore.cells.changes import Recovery
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.cluster_view import IntraVCPolicy
from hivecore.cells.group_decision import GroupDecision
from hivecore.cells.pod_placement import PodPlacement
from hivecore.errors import (
    InfeasibleAssignmentError,
    StaleDecisionError,
)

__all__ = ["GroupBooks"]


class GroupBooks:
    """The core of one specification and the groups that are booked in it."""

    __slots__ = ("core", "evictions", "groups", "live", "named", "names", "policies")

    names: ClusterNames
    policies: Mapping[str, IntraVCPolicy]
    evictions: str
    groups: _cells.NamedGroups
    core: _cells.GroupScheduler
    """That of the groups, and so are:"""
    live: dict[str, _cells.LiveGroup]
    named: dict[int, str]

    def __init__(
        self, spec: ClusterSpec, policies: Mapping[str, IntraVCPolicy], evictions: str
    ) -> None:
        # A copy of its own: the mappings of the caller's specification can still change.
        spec = ClusterSpec(spec.chains, spec.virtual_clusters, spec.pinned_cells)
        leaves = sum(chain.leaves for chain in spec.chains.values())
        if leaves >= 2**32:
            raise ValueError(f"spec.chains has {leaves} leaves in all, at most 2**32 - 1")
        spec.check_feasible()
        self.names = ClusterNames(spec)
        try:
            core = _cells.GroupScheduler(*self.names.core_arguments())
        except ValueError as error:
            raise InfeasibleAssignmentError(f"spec.pinned_cells: {error}") from None
        self.policies, self.evictions = policies, evictions
        self._take(_cells.NamedGroups(core))

    def _take(self, groups: _cells.NamedGroups) -> None:
        self.groups, self.core = groups, groups.core
        self.live, self.named = groups.live, groups.named

    def copy(self) -> Self:
        """Independent books over an independent core."""
        other = object.__new__(type(self))
        other.names, other.policies = self.names, self.policies
        other.evictions = self.evictions
        other._take(self.groups.copy())
        return other

    def is_preempting(self, live: _cells.LiveGroup) -> bool:
        """Whether it has only reserved its leaves so far."""
        return self.core.group(live.handle).preempting

    def is_guaranteed(self, live: _cells.LiveGroup) -> bool:
        """Whether it holds virtual cells."""
        return self.core.group(live.handle).virtual is not None

    def downgraded_by(self, live: _cells.LiveGroup) -> str | None:
        """The group for which it holds no virtual cells now."""
        return None if self.is_guaranteed(live) else live.downgraded_by

    def placement(self, live: _cells.LiveGroup) -> tuple[PodPlacement, ...]:
        """Where its pods are."""
        state = self.core.group(live.handle)
        return self.names.describe_pods(state.pods, state.virtual)

    # --- changes

    def fitted(self, decision: GroupDecision) -> GroupDecision:
        """A decision of no cluster as one of this cluster, or `StaleDecisionError`."""
        group, plan = decision.request, decision._plan
        if plan is not None:
            tenant = self.names.tenants.get(group.virtual_cluster, len(self.names.tenants))
            try:
                cancels = [
                    self.live[name].handle for name in decision.cancels if name != group.name
                ]
                downgrades = [self.live[name].handle for name in decision.downgrades]
                plan = plan.fitted(self.core, tenant, group.priority, cancels, downgrades)
                # The numbers mean the same leaves and cells here.
                meant = self.names.pods.of_plan(plan)
                if meant != decision.placement:
                    raise ValueError("it names other leaves")
            except (LookupError, ValueError) as error:
                raise StaleDecisionError(
                    f"group {group.name!r}: the decision does not fit this cluster now: {error}"
                ) from None
        return self.own(decision, plan, decision.cancels)

    def own(self, decision: GroupDecision, plan: Any, cancels: tuple[str, ...]) -> GroupDecision:
        """The decision as one of this core, with another plan and other cancels."""
        return GroupDecision(
            decision.request,
            decision.outcome,
            self.names,
            plan,
            self.core,
            decision._tried,
            decision._placement,
            decision.victims,
            cancels,
            decision.downgrades,
        )

    def move(self, decision: GroupDecision, reserve: bool) -> None:
        """Carry out a plan for which the group gives up what it has reserved."""
        group = decision.request
        live = self.live.get(group.name)
        if live is None or live.group != group or not self.is_preempting(live):
            raise StaleDecisionError(f"group {group.name!r} has reserved nothing any more")
        trial = self.copy()  # where a plan that no longer fits fails
        trial.groups.release(group.name)
        trial.groups.book(group, decision._plan, reserve)
        self.groups.release(group.name)
        self.groups.book(group, decision._plan, reserve)

    def rename(self, name: str, new: str) -> None:
        """A live group has another name from now on."""
        live = self.groups.known(name)
        if new in self.live:
            raise ValueError(f"new={new!r}: a live group has this name")
        by = new if live.downgraded_by == name else live.downgraded_by
        self.groups.rename(name, live.group.replace(name=new), by)
        for other in [key for key, live in self.live.items() if live.downgraded_by == name]:
            self.groups.mark_downgraded(other, new)

    def still_there(self, decision: GroupDecision) -> _cells.LiveGroup:
        """The live group that the decision leaves where it is, or `StaleDecisionError`."""
        group = decision.request
        live = self.live.get(group.name)
        if live is None or live.group != group:
            raise StaleDecisionError(f"group {group.name!r} is gone")
        if self.placement(live) != decision.placement:
            raise StaleDecisionError(f"group {group.name!r} is placed elsewhere by now")
        return live

    def confirm(self, decision: GroupDecision) -> None:
        """Make a preempting group whose victims are gone an allocated one."""
        group, live = decision.request, self.still_there(decision)
        if self.is_preempting(live):
            if self.core.victims(live.handle):
                raise StaleDecisionError(f"group {group.name!r}: victims are still there")
            if not self.core.placement_good(live.handle, None):
                raise StaleDecisionError(f"group {group.name!r}: a reserved leaf is bad by now")
            self.core.confirm(live.handle)

    def decide_live(
        self,
        live: _cells.LiveGroup,
        group: AffinityGroup,
        suggested: Suggested | None,
    ) -> GroupDecision | None:
        """The answer for a live group; None: what it has reserved is no good, decide again."""
        if live.group is not group and live.group != group:
            raise ValueError(f"group: another live group has the name {group.name!r}")
        victims: tuple[str, ...] = ()
        if self.is_preempting(live):
            victims = self.groups.names_of(self.core.victims(live.handle))
            if not self.core.placement_good(live.handle, suggested):
                return None
        outcome: Literal["bind", "preempt"] = "preempt" if victims else "bind"
        return GroupDecision(
            group,
            outcome,
            self.names,
            _core=self.core,
            _placement=self.placement(live),
            victims=victims,
        )

    def recover(
        self,
        group: AffinityGroup,
        placement: tuple[PodPlacement, ...],
        displace: bool = True,
        owners: Mapping[int, str] | None = None,
    ) -> Recovery:
        """Book a group where its pods are.

        :param displace: False: less important groups are not downgraded for its sake.
        :param owners: leaves that are not the group's, whatever its placement says, if another
            group is named there.
        """
        names = self.names
        tenant = names.tenants.get(group.virtual_cluster, len(names.tenants))
        pods: list[list[int]] = []
        pools: list[list[int]] = []
        lost: list[tuple[str, int]] = []
        unknown = False
        for pod in placement:
            leaves = names.find_pod(pod)
            if owners:
                leaves = [
                    -1 if owners.get(leaf, group.name) != group.name else leaf for leaf in leaves
                ]
            if min(leaves, default=0) < 0:
                lost += [
                    (pod.node, device)
                    for device, leaf in zip(pod.leaf_indices, leaves, strict=True)
                    if leaf < 0
                ]
            pairs = sorted(zip(leaves, pod.preassigned, strict=True))
            pairs = [pair for pair in pairs if pair[0] >= 0]
            pods.append([leaf for leaf, _ in pairs])
            levels = [level for _, level in pairs]
            pools.append(names.pools_of(group, pods[-1], levels))
            unknown |= any(
                level and pool < 0 for level, pool in zip(levels, pools[-1], strict=True)
            )
        # Numbers of leaves mean nothing in another specification.
        plain = tuple(pod._replace(leaves=()) for pod in placement)
        record = plain if lost or unknown else None
        try:
            downgraded, displaced = self.groups.recover(
                group, tenant, pods, pools, displace, record
            )
        except ValueError as error:
            raise StaleDecisionError(f"group {group.name!r}: {error}") from None
        return Recovery(downgraded, displaced, tuple(lost))

    def record(self, live: _cells.LiveGroup) -> tuple[PodPlacement, ...]:
        """What recovers it: where its pods are, lost leaves included, and what they are to have."""
        if live.record is not None:
            return live.record
        wanted = self.core.wanted_pools(live.handle)
        if wanted is None:
            return self.placement(live)
        pods = self.core.group(live.handle).pods
        return tuple(map(self.names.pods.of_pod, pods, wanted))
