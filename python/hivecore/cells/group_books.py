"""The live groups of a `CellCluster`: their names beside the core's handles.

A group is in the books from its commit or reservation until its release; the core never has a
group that the books do not have. An interrupt (Ctrl-C) can come between the core's step and the
entry; the two are then settled before it goes on its way.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Self

from hivecore import _cells
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.cluster_names import ClusterNames
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.cluster_view import IntraVCPolicy
from hivecore.cells.decision import Decision, Recovery, describe_pods, made_decision
from hivecore.cells.pod_placement import PodPlacement
from hivecore.errors import (
    InfeasibleAssignmentError,
    InvariantError,
    NotAllocatedError,
    StaleDecisionError,
)

__all__ = ["GroupBooks", "Live"]


class Live(NamedTuple):
    """A group that holds or has reserved leaves; immutable, so that branches can share it."""

    group: AffinityGroup
    handle: int
    downgraded_by: str | None
    """Who downgraded it last, which it may have outlived."""
    record: tuple[PodPlacement, ...] | None
    """Where its pods are if some of their leaves, or of their tenant's cells, are not in the
    specification any more."""


class GroupBooks:
    """The core of one specification and the groups that are booked in it."""

    __slots__ = ("core", "evictions", "live", "named", "names", "policies")

    names: ClusterNames
    core: "_cells.GroupScheduler"
    policies: Mapping[str, IntraVCPolicy]
    evictions: str
    live: dict[str, Live]
    """Group -> what is live, in the order of the commits."""
    named: dict[int, str]
    """Handle -> group."""

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
            self.core = _cells.GroupScheduler(*self.names.core_arguments())
        except ValueError as error:
            raise InfeasibleAssignmentError(f"spec.pinned_cells: {error}") from None
        self.policies, self.evictions = policies, evictions
        self.live = {}
        self.named = {}

    def copy(self) -> Self:
        """Independent books over an independent core."""
        other = object.__new__(type(self))
        other.names, other.policies = self.names, self.policies
        other.evictions = self.evictions
        # The dicts first: a new one may start a collection, whose finalizers may release a group.
        other.live, other.named = {}, {}
        other.core = self.core.copy()
        other.live.update(self.live)
        other.named.update(self.named)
        return other

    def check(self) -> None:
        """Audit the core, and that it has these groups and no others."""
        self.core.check()
        handles = {live.handle: name for name, live in self.live.items()}
        if handles != self.named or sorted(self.core.handles()) != sorted(handles):
            raise InvariantError("the groups are not those that the core has")

    # --- entries

    def enter(
        self,
        group: AffinityGroup,
        handle: int,
        downgraded_by: str | None = None,
        record: tuple[PodPlacement, ...] | None = None,
    ) -> None:
        """A group that the core has booked."""
        self.live[group.name] = Live(group, handle, downgraded_by, record)
        self.named[handle] = group.name

    def mark_downgraded(self, names: Iterable[str], by: str | None) -> None:
        """These groups have lost their virtual cells to a group."""
        for name in names:
            self.live[name] = self.live[name]._replace(downgraded_by=by)

    def known(self, name: str) -> Live:
        """A live group, or `NotAllocatedError`."""
        try:
            return self.live[name]
        except (KeyError, TypeError):
            raise NotAllocatedError(f"there is no group {name!r}") from None

    def name_all(self, handles: Iterable[int]) -> tuple[str, ...]:
        """The names of live handles."""
        named = self.named
        return tuple([named[handle] for handle in handles])

    def is_preempting(self, live: Live) -> bool:
        """Whether it has only reserved its leaves so far."""
        return self.core.group(live.handle)[3]

    def is_guaranteed(self, live: Live) -> bool:
        """Whether it holds virtual cells."""
        return self.core.group(live.handle)[5] is not None

    def downgraded_by(self, live: Live) -> str | None:
        """For whose sake it holds no virtual cells now."""
        return None if self.is_guaranteed(live) else live.downgraded_by

    def placement(self, live: Live) -> tuple[PodPlacement, ...]:
        """Where its pods are."""
        state = self.core.group(live.handle)
        return describe_pods(self.names, state[4], state[5])

    # --- changes

    def fitted(self, decision: Decision) -> Decision:
        """A decision of no cluster as one of this cluster, or `StaleDecisionError`."""
        group, plan = decision.group, decision._plan
        if plan is not None:
            tenant = self.names.tenants.get(group.virtual_cluster, len(self.names.tenants))
            try:
                cancels = [
                    self.live[name].handle for name in decision.cancels if name != group.name
                ]
                downgrades = [self.live[name].handle for name in decision.downgrades]
                plan = plan.fitted(self.core, tenant, group.priority, cancels, downgrades)
                # The numbers mean the same leaves and cells here.
                meant = describe_pods(self.names, plan.pods, plan.virtual)
                if meant != decision.placement:
                    raise ValueError("it names other leaves")
            except (LookupError, ValueError) as error:
                raise StaleDecisionError(
                    f"group {group.name!r}: the decision does not fit this cluster now: {error}"
                ) from None
        fitted = copy.copy(decision)
        fitted._names, fitted._core, fitted._plan = self.names, self.core, plan
        return fitted

    def book(self, decision: Decision, book: Callable[[Any, bool], int]) -> None:
        """Commit or reserve a plan by the core's method, and enter it."""
        group, plan = decision.group, decision._plan
        if group.name in self.live:
            raise StaleDecisionError(f"group {group.name!r} is live already")
        cancels = [self.named.get(handle) for handle in plan.cancels]
        downgrades = [self.named.get(handle) for handle in plan.downgrades]
        if None in cancels or None in downgrades:
            raise StaleDecisionError(f"group {group.name!r}: others have gone meanwhile")
        try:
            handle = book(plan, group.lazy_preemption)
            for name in filter(None, cancels):
                del self.named[self.live.pop(name).handle]
            self.mark_downgraded(filter(None, downgrades), group.name)
            self.enter(group, handle)
        except StaleDecisionError:
            raise
        except BaseException:
            self._settle()
            raise

    def move(self, decision: Decision) -> None:
        """Commit a plan for which the group gives up what it has reserved."""
        group = decision.group
        live = self.live.get(group.name)
        if live is None or live.group != group or not self.is_preempting(live):
            raise StaleDecisionError(f"group {group.name!r} has reserved nothing any more")
        trial = self.copy()  # where a plan that no longer fits fails
        trial.release(group.name)
        trial.book(decision, trial.core.commit)
        self.release(group.name)
        self.book(decision, self.core.commit)

    def confirm(self, decision: Decision) -> None:
        """Make a preempting group whose victims are gone an allocated one."""
        group = decision.group
        live = self.live.get(group.name)
        if live is None or live.group != group:
            raise StaleDecisionError(f"group {group.name!r} is gone")
        if self.placement(live) != decision.placement:
            raise StaleDecisionError(f"group {group.name!r} is placed elsewhere by now")
        if self.is_preempting(live):
            if self.core.victims(live.handle):
                raise StaleDecisionError(f"group {group.name!r}: victims are still there")
            if not self.core.placement_good(live.handle, None):
                raise StaleDecisionError(f"group {group.name!r}: a reserved leaf is bad by now")
            self.core.confirm(live.handle)

    def release(self, name: str) -> None:
        """Take back all that a group holds and has reserved."""
        live = self.known(name)
        try:
            self.core.release(live.handle)
            del self.live[name]
            del self.named[live.handle]
        except BaseException:
            self._settle()
            raise

    def _settle(self) -> None:
        """Strike out groups that the core has not, and let go those that nobody knows."""
        held = set(self.core.handles())
        self.live = {
            name: live
            for name, live in self.live.items()
            # The handle of a cancelled group may be that of the group which has cancelled it.
            if live.handle in held and self.core.group(live.handle)[1] == live.group.priority
        }
        self.named = {live.handle: name for name, live in self.live.items()}
        for handle in held - self.named.keys():
            self.core.release(handle)

    def decide_live(
        self, live: Live, group: AffinityGroup, preempting: bool, suggested: list[list[int]] | None
    ) -> Decision | None:
        """The answer for a live group; None: what it has reserved is no good, decide anew."""
        if live.group is not group and live.group != group:
            raise ValueError(f"group: another live group has the name {group.name!r}")
        victims: tuple[str, ...] = ()
        if self.is_preempting(live):
            victims = self.name_all(self.core.victims(live.handle))
            # In phase filtering a node that victims still fill is not among the suggested ones.
            nodes = suggested if preempting or not victims else None
            if not self.core.placement_good(live.handle, nodes):
                return None
        outcome: Literal["bind", "preempt"] = "preempt" if victims else "bind"
        return made_decision(
            group,
            outcome,
            self.names,
            core=self.core,
            placement=self.placement(live),
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
        try:
            handle, downgraded, displaced = self.core.recover(
                tenant, group.priority, group.lazy_preemption, pods, pools, displace
            )
            gone = self.name_all(displaced)
            self.mark_downgraded(gone, group.name)
            by = group.name if downgraded else None
            # Numbers of leaves mean nothing in another specification.
            plain = [pod._replace(leaves=()) for pod in placement]
            record = tuple(plain) if lost or unknown else None
            self.enter(group, handle, by, record)
        except ValueError as error:
            raise StaleDecisionError(f"group {group.name!r}: {error}") from None
        except BaseException:
            self._settle()
            raise
        return Recovery(downgraded, gone, tuple(lost))

    def record(self, live: Live) -> tuple[PodPlacement, ...]:
        """What recovers it: where its pods are, lost leaves included, and what they are to have."""
        if live.record is not None:
            return live.record
        wanted = self.core.wanted_pools(live.handle)
        if wanted is None:
            return self.placement(live)
        pods = self.core.group(live.handle)[4]
        return tuple(map(self.names.describe_pod, pods, wanted))
