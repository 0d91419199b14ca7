"""The scheduler of a cluster shared by tenants: affinity groups in, decisions out (HiveD)."""

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
    """Decides which leaves a group of pods gets, so that no tenant breaks another's guarantee.

    A guaranteed group is placed into the virtual cells that its tenant owns, as in a private
    cluster, and those are bound to physical cells of the same shape; opportunistic groups use
    what is idle, until guaranteed ones need it. While all hardware is healthy, what fits into a
    tenant's virtual cells is served, whatever other tenants do.

    :param spec: the chains, the tenants' cells and the pinned cells.
    :param policies: tenant -> policy that chooses the virtual nodes for its guaranteed groups, see
        `IntraVCPolicy`; the others are packed natively.
    :param evictions: whether packing comes before few evictions, see `AffinityGroup`; for groups
        that do not say themselves.
    :raises InfeasibleAssignmentError: the tenants' cells do not fit.
    :raises TypeError: an argument is of a wrong type, here and in all methods.
    :raises KeyError: ``policies`` names an unknown tenant, or a method is given a name that is not
        known.
    :raises ValueError: a node has one leaf index twice in a chain, or the chains have more than
        2**32 - 1 leaves in all; ``evictions`` is no such value.

    Deterministic: chains in the order of the specification; of virtual nodes those in use with the
    fewest leaves left, of these the largest, then the idle ones, the smallest first and those in
    the most used cell around them, then by level and index; a gang in the lowest cell above nodes
    that takes it, where it opens the fewest idle nodes. A choice that evicts groups gives way to
    one that evicts none, and otherwise to one that opens no more idle nodes and harms others less.
    The harm is the guaranteed leaves lost, then the
    leaves evicted, of whole groups, then the groups; for a single pod it is the least there can be,
    unless lazy groups are preempted, for a gang the least that was found. What may be preempted
    counts as idle, but is taken last. Asked again when its victims have gone, in the order named, a
    group binds; where that, or that there is nothing less harmful, could not be made sure of,
    `GroupDecision.cut_short` says so (but with policies and merged siblings it is not looked for).
    No group is evicted for one that would have to wait even then, since downgraded ones would be
    promoted to all that is left. Physical cells by fewest bad leaves, fewest opportunistic leaves,
    index. Opportunistic groups go into cells above nodes that no tenant is promised, then into
    promised ones that are idle, at last where guaranteed work is; of these into the tenant's cell
    of which the fewest quarters are taken, then by most opportunistic leaves and the highest index.

    A decision costs O(leaves of the group * levels) plus some set operations that grow with the
    logarithm of the cluster; a search for preemption, for less harm where the first choice does
    some, or above node level also visits the tenant's nodes or racks, and for gangs all nodes, some
    dozen times, at worst some thousand. A release also tries all groups that are downgraded.
    Memory: see `copy`. One object may be used by several threads: calls take turns. Source: HiveD
    (OSDI'20) and its open implementation.

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
        """Whether the group could start now, without evictions; as ``schedule`` says."""
        return self.schedule(group).outcome == "bind"

    def schedule(
        self,
        group: AffinityGroup,
        *,
        suggested_nodes: Iterable[str] | NodeSet | None = None,
        most: npt.ArrayLike | None = None,
    ) -> GroupDecision:
        """Decide where a group could go now; nothing changes.

        :param suggested_nodes: names of the only nodes to use, best as a `NodeSet` if they are the
            same often; ``None``: all.
        :param most: int[nodes], how many of the group's pods each node may get, in the order of
            ``nodes``, as `hivecore.devices.DeviceCluster.capacity` counts them; ``None``: as many
            as there is room for. A live group stays where it is. Some placements are missed where
            the tenant's cells are smaller than nodes.
        :raises KeyError: an unknown tenant, leaf type, level or pinned cell.
        :raises ValueError: a live group of another request has this name; or in each chain that it
            may use a pod is larger than a node, or than the cell that it must be ``within``, so
            that it would wait for ever; the tenant's policy chose no virtual nodes of its view; or
            ``most`` is of another shape.
        :raises StaleDecisionError: the tenant's policy has reconfigured the cluster.

        Chains are tried in the order of the specification, the first that serves is taken. An
        allocated group gets the answer "bind" with its placement, whatever has become of its nodes.
        A group that has reserved leaves gets these, "preempt" as long as victims are there, while
        all of them are healthy and suggested; else the decision is made as if it had reserved
        nothing, and to commit or reserve it gives the reservation up.
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
            return self._decide_anew(group, suggested, limits) if known is None else known

    def _check(self, decision: GroupDecision, books: GroupBooks) -> None:
        if books is not self._books:
            name = decision.request.name
            raise StaleDecisionError(f"group {name!r}: its policy reconfigured the cluster")
        if decision.outcome == "wait":
            check_possible(books.names, decision)

    def _decide_anew(
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
        """Carry out a decision to bind: from now on the group has these leaves.

        :raises StaleDecisionError: what it relies on has changed since; nothing has changed now.
        :raises ValueError: it is not a decision to bind, or not one of this cluster.

        A decision that an allocated group stays where it is changes nothing; no other is carried
        out on a leaf that is bad by now. One that was copied or pickled can be committed to a copy
        of the cluster too, or to one restored from its state.
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
        """Take the leaves of a decision to preempt from under its victims, for when they are gone.

        Only groups with a higher priority can have them now. Ask again when victims have been
        released, until the answer is "bind". For a group that has reserved these leaves already
        nothing happens.

        :raises StaleDecisionError: what it relies on has changed since; nothing has changed now.
        :raises ValueError: it is not a decision to preempt, or not one of this cluster.
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
        """The decision, to be carried out here and of this outcome, or an error."""
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
        """Book a group that runs already, as its bind records say, after a restart.

        :param placement: one `PodPlacement` per pod in the order of the members, as the decision
            had them; of each, node, leaf indices, chain and preassigned levels are read.
        :raises StaleDecisionError: another live group is on one of the leaves; nothing changed.
        :raises ValueError: a live group has this name, the pods are not those of the group, or a
            leaf is named twice.

        Groups can be recovered in any order, on bad nodes too, with the same outcome: where cells
        are short, the more important groups have them, then those with the lower first leaf. A
        leaf that no longer exists is left out. A group whose cells cannot be had, or whose tenant
        is unknown now, goes on opportunistically, as a whole, until there are cells for it.
        """
        as_instance(group, "group", AffinityGroup)
        pods = as_placement(placement, group)
        with self._lock:
            if group.name in self._books.live:
                raise ValueError(f"group: {group.name!r} is live already")
            return self._books.recover(group, pods)

    def reconfigure(self, spec: ClusterSpec) -> Reconfiguration:
        """Go over to another specification; every group that runs goes on running.

        Nodes are known by their names, leaves by their indices; what is bad stays bad, a wholly
        bad node with all leaves that it has then. Groups are booked again by priority, then by
        their first leaves, those that were downgraded last; a group whose guarantee cannot be had
        (any more) goes on opportunistically. A leaf that is gone comes back to its group with a
        later specification. Reservations of preempting groups are given up. Policies stay with
        their tenants.

        :raises InfeasibleAssignmentError: the tenants' cells do not fit; nothing has changed.
        :raises ValueError: a node has one leaf index twice in a chain.
        """
        with self._lock:
            as_instance(spec, "spec", ClusterSpec)
            self._books, changes = rebook_all(self._books, spec)
            return changes

    def explain(
        self, group: AffinityGroup, *, suggested_nodes: Iterable[str] | NodeSet | None = None
    ) -> GroupExplanation:
        """Why a group would have to wait, and the cheapest changes that would admit it.

        :raises KeyError, ValueError, TypeError: as ``schedule`` does; but a group that can never be
            served is explained, too.

        Nothing changes. Cost: a copy, and a decision for each change that is tried, at most three
        for each live group.
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
