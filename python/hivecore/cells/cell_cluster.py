"""The scheduler of a cluster that tenants share: which GPUs each affinity group gets (HiveD)."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy.typing as npt

from hivecore._arguments import as_instance, as_mapping
from hivecore.cells.affinity_group import AffinityGroup, Evictions, check_evictions
from hivecore.cells.books.cluster_names import Suggested
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.books.group_search import check_possible, find
from hivecore.cells.books.reconfiguration import rebook_all
from hivecore.cells.cell_ledger import CellLedger
from hivecore.cells.changes import Reconfiguration, Recovery
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.cluster_view import IntraVCPolicy
from hivecore.cells.explanation import GroupExplanation, explain
from hivecore.cells.group_decision import GroupDecision
from hivecore.cells.node_set import NodeSet
from hivecore.cells.pod_placement import PodPlacement, as_placement
from hivecore.decisions import Outcome
from hivecore.errors import StaleDecisionError

__all__ = ["CellCluster"]


class CellCluster(CellLedger):
    """Decides which leaves (GPUs) the pods of a group get, so that no tenant breaks another's
    guarantee.

    A guaranteed group is placed into the virtual cells of its tenant, as in a private cluster;
    these are bound to physical cells of the same shape. Opportunistic groups use idle cells until
    guaranteed groups need them. While all hardware is healthy, a group that fits into the virtual
    cells of its tenant starts, whatever other tenants do.

    :param spec: the chains, the cells of the tenants and the pinned cells.
    :param policies: by tenant, a policy that chooses the virtual nodes of its guaranteed groups,
        see `IntraVCPolicy`. Groups of other tenants are packed natively.
    :param evictions: what matters more, packing or few evictions, see `AffinityGroup`; for groups
        that do not say.
    :raises InfeasibleAssignmentError: the cells of the tenants do not fit.
    :raises TypeError: an argument is of a wrong type, here and in all methods.
    :raises KeyError: ``policies`` names an unknown tenant, or a method is given an unknown name.
    :raises ValueError: a node has a leaf index twice in a chain, the chains have more than 2**32 -
        1 leaves in all, or ``evictions`` is unknown.

    The order of choice is fixed. Chains are tried in the order of the specification. A pod gets the
    virtual node in use with the fewest leaves left, of these the largest; then an idle one, the
    smallest first, in the most used cell; ties by level and index. (A pod opens no small cell, one
    of n >= 16, if three cells in use have the gap that it would leave there, unless larger cells
    have been used up faster, by more than sqrt(n) small ones.) A gang gets the lowest cell above
    nodes that holds it, and there opens the fewest idle nodes.

    A placement that evicts no group is preferred; among those that evict, those that open no more
    idle nodes, and of these the least harmful: the fewest guaranteed leaves evicted, then leaves of
    whole groups, then groups. For a single pod that is the minimum (without lazy preemption), for a
    gang the best that the search found. After its victims left, in the order named, a group binds
    if it is scheduled again. `GroupDecision.cut_short` says where the search could not ensure this
    (with policies and merged siblings it does not try). No group is evicted for a group that would
    wait even then, because downgraded groups are promoted to the free cells.

    Physical cells are chosen by the fewest bad leaves, then the fewest opportunistic leaves, then
    the index. Opportunistic groups go to cells above nodes that no tenant owns, then to idle owned
    cells, then where guaranteed groups run; among these to the tenant's cell with the fewest
    quarters taken, then the most opportunistic leaves, then the highest index.

    Cost: O(leaves of the group * levels) and set operations that grow with the logarithm of the
    cluster. A search for preemption, for less harm or above node level also visits the nodes or
    racks of the tenant; for gangs all nodes, some dozen times, at worst some thousand. ``release``
    also tries all downgraded groups. Memory: see `copy`. One object may be used by several threads:
    calls take turns. Source: HiveD (OSDI'20) and its open implementation.

    >>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
    >>> spec = ClusterSpec(
    ...     chains={"V100": Chain(["gpu", "pair", "node"], fanouts=[2, 2], roots=2)},
    ...     virtual_clusters={"A": {"V100": {"node": 1}}, "B": {"V100": {"pair": 2}}},
    ... )
    >>> cluster = CellCluster(spec)
    >>> spare = cluster.schedule(AffinityGroup("spare", "B", [(1, 4)], priority=-1))
    >>> cluster.commit(spare)
    >>> spare.placement[0].node
    'V100/1'
    >>> train = cluster.schedule(AffinityGroup("train", "A", [(2, 2)]))
    >>> train.outcome, [(pod.node, pod.leaf_indices) for pod in train.placement]
    ('bind', [('V100/0', (0, 1)), ('V100/0', (2, 3))])
    >>> cluster.commit(train)
    >>> cluster.schedule(AffinityGroup("more", "A", [(1, 1)])).reason
    "chain 'V100': the tenant's cells have too few free leaves"
    >>> cluster.schedule(AffinityGroup("b", "B", [(1, 2)])).victims
    ('spare',)
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        policies: Mapping[str, IntraVCPolicy] | None = None,
        evictions: Evictions = "packing",
    ) -> None:
        as_instance(spec, "spec", ClusterSpec)
        policies = dict(as_mapping({} if policies is None else policies, "policies"))
        for tenant, policy in policies.items():
            if tenant not in spec.virtual_clusters:
                known = sorted(spec.virtual_clusters)
                raise KeyError(f"policies: no virtual cluster {tenant!r}, known are {known}")
            if not callable(getattr(policy, "choose", None)):
                raise TypeError(f"policies[{tenant!r}] has no method choose(view, group)")
        check_evictions(evictions)
        self._take_up(GroupBooks(spec, policies, evictions))

    def fits(self, group: AffinityGroup) -> bool:
        """Whether ``schedule`` would bind the group, without evictions."""
        return self.schedule(group).outcome == "bind"

    def schedule(
        self,
        group: AffinityGroup,
        *,
        suggested_nodes: Iterable[str] | NodeSet | None = None,
        most: npt.ArrayLike | None = None,
    ) -> GroupDecision:
        """Decide where a group goes now; nothing changes.

        :param suggested_nodes: the only nodes to use; best a `NodeSet` if they are often the same.
            ``None``: all.
        :param most: int[nodes]: how many pods of the group each node may get, in the order of
            ``nodes``, as `hivecore.devices.DeviceCluster.capacity` counts them; ``None``: no limit.
            Ignored for a live group. Where the cells of the tenant are smaller than nodes, some
            placements are missed.
        :raises KeyError: a tenant, leaf type, level or pinned cell is unknown.
        :raises ValueError: a live group with another request has this name; the group could never
            start, as in each chain a pod is larger than a node or than the cell of ``within``; the
            policy of the tenant chose unknown virtual nodes; or ``most`` has a wrong shape.
        :raises StaleDecisionError: the policy of the tenant has reconfigured the cluster.

        The first chain that serves the group is taken, in the order of the specification. An
        allocated group gets "bind" with its placement, even on bad nodes. A group with reserved
        leaves gets these, "preempt" while victims are there, if all of them are healthy and
        suggested. If not, the group is scheduled as if it had no reservation, and to commit or
        reserve the decision cancels it.
        """
        if not isinstance(group, AffinityGroup):
            raise TypeError(f"group must be an AffinityGroup, not {type(group).__name__}")
        if suggested_nodes is not None:
            # The caller's iterator runs before the state is looked at.
            suggested_nodes = NodeSet.of(suggested_nodes, "suggested_nodes")
        with self._lock:
            books = self._books
            suggested = None
            if suggested_nodes is not None:
                suggested = suggested_nodes.numbers(books.names)
            limits = None if most is None else books.names.by_chain(most)
            live = books.live.get(group.name)
            if live is None:
                decision = find(books, group, suggested, limits)
                if decision.outcome != "bind" or books is not self._books:
                    self._check(decision, books)
                return decision
            known = books.decide_live(live, group, suggested)
            return self._decide_again(group, suggested, limits) if known is None else known

    def _check(self, decision: GroupDecision, books: GroupBooks) -> None:
        if books is not self._books:
            name = decision.request.name
            raise StaleDecisionError(f"group {name!r}: its policy reconfigured the cluster")
        if decision.outcome == "wait":
            check_possible(books.names, decision)

    def _decide_again(
        self, group: AffinityGroup, suggested: Suggested | None, most: list[Any] | None
    ) -> GroupDecision:
        """Decide as if the group had reserved nothing."""
        books = self._books
        trial = books.copy()
        trial.groups.release(group.name)
        decision = find(trial, group, suggested, most)
        self._check(decision, books)
        if decision.outcome == "wait":
            return decision
        return books.own(decision, decision._plan, (group.name, *decision.cancels))

    def commit(self, decision: GroupDecision) -> None:
        """Carry out a decision that binds: the group gets its leaves.

        :raises StaleDecisionError: the cluster has changed so that the decision does not hold.
        :raises ValueError: its outcome is not "bind", or it is a decision of another cluster.

        A decision that an allocated group stays changes nothing. No other decision is carried out
        on a leaf that is bad by now. A decision that was copied or pickled can also be committed to
        a copy of the cluster, or to one restored from its state.
        """
        with self._lock:
            books = self._books
            given: Any = decision
            if (
                type(given) is not GroupDecision
                or given.outcome != "bind"
                or given._core is not books.core
            ):
                decision = self._own(given, "bind")
            if decision._plan is None:
                books.confirm(decision)
            elif decision.cancels and decision.request.name in decision.cancels:
                books.move(decision, False)
            else:
                books.groups.book(decision.request, decision._plan, False)

    def reserve(self, decision: GroupDecision) -> None:
        """Reserve the leaves of a decision to preempt, until its victims have left.

        From now on only groups of higher priority can take these leaves. Schedule the group again
        when victims were released, until the outcome is "bind". A reservation that exists already
        stays.

        :raises StaleDecisionError: the cluster has changed so that the decision does not hold.
        :raises ValueError: its outcome is not "preempt", or it is a decision of another cluster.
        """
        with self._lock:
            decision = self._own(decision, "preempt")
            books = self._books
            if decision._plan is None:
                books.still_there(decision)
            elif decision.request.name in decision.cancels:
                books.move(decision, True)
            else:
                books.groups.book(decision.request, decision._plan, True)

    def _own(self, decision: GroupDecision, outcome: Outcome) -> GroupDecision:
        """The decision, checked to have this outcome and to belong to this cluster."""
        if type(decision) is not GroupDecision:
            raise TypeError(f"decision must be a GroupDecision, not {type(decision).__name__}")
        if decision.outcome != outcome:
            raise ValueError(f"decision.outcome must be {outcome!r}, not {decision.outcome!r}")
        if decision._core is None:
            return self._books.fitted(decision)
        if decision._core is not self._books.core:
            raise ValueError("decision is of another cluster, or of before a reconfiguration")
        return decision

    def recover(self, group: AffinityGroup, placement: Iterable[PodPlacement]) -> Recovery:
        """Add a group that runs already, from its bind records, after a restart.

        :param placement: a `PodPlacement` of each pod, in the order of the members, as in the
            decision; node, leaf indices, chain and preassigned levels are read.
        :raises StaleDecisionError: another live group has one of the leaves.
        :raises ValueError: a live group has this name, the pods are not those of the group, or a
            leaf occurs twice.

        Groups can be recovered in any order, also on bad nodes, with the same result: if cells are
        short, more important groups get them, then those with the lower first leaf. Leaves that no
        longer exist are left out. A group whose cells are not available, or whose tenant is unknown
        now, runs on as an opportunistic group until there are cells for it.
        """
        as_instance(group, "group", AffinityGroup)
        pods = as_placement(placement, group)
        with self._lock:
            if group.name in self._books.live:
                raise ValueError(f"group: {group.name!r} is live already")
            return self._books.recover(group, pods)

    def reconfigure(self, spec: ClusterSpec) -> Reconfiguration:
        """Change the specification; all running groups keep running.

        Nodes are identified by their names, leaves by their indices. Bad leaves stay bad; a node
        that was wholly bad is so with all its new leaves. Groups are booked again by priority, then
        by their first leaves; downgraded groups last. A group whose guarantee is not possible runs
        on as an opportunistic group. A leaf that no longer exists comes back to its group if a
        later specification has it. Reservations of preempting groups are cancelled. Policies stay
        with their tenants.

        :raises InfeasibleAssignmentError: the cells of the tenants do not fit; nothing has changed.
        :raises ValueError: a node has a leaf index twice in a chain.
        """
        with self._lock:
            as_instance(spec, "spec", ClusterSpec)
            self._books, changes = rebook_all(self._books, spec)
            return changes

    def explain(
        self, group: AffinityGroup, *, suggested_nodes: Iterable[str] | NodeSet | None = None
    ) -> GroupExplanation:
        """Why a group would have to wait, and the cheapest changes that would admit it; nothing
        changes.

        :raises KeyError, ValueError, TypeError: as ``schedule`` does; but a group that could never
            start is explained.

        Cost: a copy, and a decision for each change that is tried, at most three for each live
        group.
        """
        as_instance(group, "group", AffinityGroup)
        if suggested_nodes is not None:
            suggested_nodes = NodeSet.of(suggested_nodes, "suggested_nodes")
        with self._lock:
            suggested = None
            if suggested_nodes is not None:
                suggested = suggested_nodes.numbers(self._books.names)
            self._books.groups.sort()
            return explain(self._books, group, suggested)
