"""The scheduler of a cluster shared by tenants: affinity groups in, decisions out (HiveD)."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore import _cells
from hivecore._arguments import as_bool, as_int, as_mapping, as_name, as_text
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._trial import Trials
from hivecore.cells.affinity_group import AffinityGroup, Evictions, check_evictions
from hivecore.cells.books.cluster_report import (
    doomed_cells,
    group_status,
    status,
    unused_cells,
    virtual_trees,
)
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.books.group_search import check_possible, find, pinned_pool, tenant_of
from hivecore.cells.books.reconfiguration import rebook_all
from hivecore.cells.books.saved_cluster import decode, encode
from hivecore.cells.changes import GroupStatus, Reconfiguration, Recovery
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.cluster_view import IntraVCPolicy, VirtualTree
from hivecore.cells.explanation import GroupExplanation, explain
from hivecore.cells.group_decision import GroupDecision
from hivecore.cells.node_set import NodeSet, Suggested
from hivecore.cells.pod_placement import PodPlacement, as_placement
from hivecore.decisions import Outcome
from hivecore.errors import StaleDecisionError

__all__ = ["CellCluster"]


class CellCluster(Trials, Stateful):
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
    :raises TypeError: an argument is of a wrong type.
    :raises KeyError: ``policies`` names an unknown tenant.
    :raises ValueError: a node has one leaf index twice in a chain, or the chains have more than
        2**32 - 1 leaves in all; ``evictions`` is no such value.

    Deterministic: chains in the order of the specification; virtual nodes by most used leaves,
    fewest leaves, level, of idle ones the most used cell around them, index; a gang in the lowest
    cell above nodes that takes it, where it opens the fewest idle nodes. A choice that evicts
    somebody gives way to one that packs as well and harms others less: a pod on another node that
    is used as much, a gang wherever it opens no more idle nodes. The harm is the guaranteed leaves
    lost, then the leaves evicted, of whole groups, then the groups; for a single pod it is the
    least there can be, unless lazy groups are preempted, for a gang the least that was found. What
    may be preempted counts as idle, but is taken last. Asked again when its victims have gone, in
    the order named, a group binds; where that, or that there is nothing less harmful, could not be
    made sure of, `GroupDecision.cut_short` says so (but with policies and merged siblings it is not
    looked for). Nobody is evicted for a group that would have to wait even then, since downgraded
    ones would be promoted to all that is left. Physical cells by fewest bad leaves, fewest
    opportunistic leaves, index. Opportunistic groups go into cells above nodes that are promised to
    nobody, then into promised ones that are idle, at last where guaranteed work is; of these by
    most opportunistic leaves and the highest index.

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
        if not isinstance(spec, ClusterSpec):
            raise TypeError(f"spec must be a ClusterSpec, not {type(spec).__name__}")
        policies = dict(as_mapping({} if policies is None else policies, "policies"))
        for tenant, policy in policies.items():
            if tenant not in spec.virtual_clusters:
                known = sorted(spec.virtual_clusters)
                raise KeyError(f"policies: no virtual cluster {tenant!r}, known are {known}")
            if not callable(getattr(policy, "choose", None)):
                raise TypeError(f"policies[{tenant!r}] has no method choose(view, group)")
        check_evictions(evictions)
        self._books = GroupBooks(spec, policies, evictions)
        # Reentrant: a policy may look at the cluster, and a finalizer may release a group.
        self._lock = _cells.Mutex()

    def __repr__(self) -> str:
        with self._lock:
            spec = self._books.names.spec
            return shown(
                self,
                counted(len(spec.chains), "chain"),
                f"{sum(chain.leaves for chain in spec.chains.values())} leaves",
                counted(len(spec.virtual_clusters), "tenant"),
                counted(len(self._books.live), "group", unless_none=True),
            )

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster is made of and who owns which cells: a copy."""
        with self._lock:
            spec = self._books.names.spec
        return ClusterSpec(spec.chains, spec.virtual_clusters, spec.pinned_cells)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, chain by chain; one that is in several is named once."""
        with self._lock:
            return tuple(self._books.names.nodes)

    # --- decisions

    def fits(self, group: AffinityGroup) -> bool:
        """Whether the group could start now, nobody having to leave; as ``schedule`` says."""
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
        :raises TypeError: an argument is of a wrong type.

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
        :raises TypeError: ``decision`` is not a `GroupDecision`.

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
        :raises TypeError: ``decision`` is not a `GroupDecision`.
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

    def release(self, name: str) -> None:
        """Take back all leaves and reservations of a group.

        :raises KeyError: there is no such group.

        Leaves that a preempting group has reserved are that group's now. Groups that were
        downgraded have their guarantee back if the tenant's cells around them are free now, the
        more important first.
        """
        with self._lock:
            self._books.groups.release(name)

    def rename(self, name: str, new: str) -> None:
        """A group has another name from now on, and comes last in `groups`; it stays where it is.

        :raises KeyError: there is no such group.
        :raises ValueError: a live group has the new name, or it is empty.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(groups).
        """
        new = as_name(new, "new")
        with self._lock:
            self._books.rename(name, new)

    def cancel(self, name: str) -> None:
        """Give up a preemption: the reserved leaves go back to the groups that are on them.

        :raises KeyError: there is no such group.
        :raises ValueError: it is allocated, not preempting.
        """
        with self._lock:
            if not self._books.is_preempting(self._books.known(name)):
                raise ValueError(f"group {name!r} is allocated; release it")
            self._books.groups.release(name)

    def recover(self, group: AffinityGroup, placement: Iterable[PodPlacement]) -> Recovery:
        """Book a group that runs already, as its bind records say, after a restart.

        :param placement: one `PodPlacement` per pod in the order of the members, as the decision
            had them; of each, node, leaf indices, chain and preassigned levels are read.
        :raises StaleDecisionError: another live group is on one of the leaves; nothing changed.
        :raises ValueError: a live group has this name, the pods are not those of the group, or a
            leaf is named twice.
        :raises TypeError: an argument is of a wrong type.

        Groups can be recovered in any order, on bad nodes too, with the same outcome: where cells
        are short, the more important groups have them, then those with the lower first leaf. A
        leaf that no longer exists is left out. A group whose cells cannot be had, or whose tenant
        is unknown now, goes on opportunistically, as a whole, until there are cells for it.
        """
        if not isinstance(group, AffinityGroup):
            raise TypeError(f"group must be an AffinityGroup, not {type(group).__name__}")
        pods = as_placement(placement, group)
        with self._lock:
            if group.name in self._books.live:
                raise ValueError(f"group: {group.name!r} is live already")
            return self._books.recover(group, pods)

    # --- hardware

    def set_health(self, node: str, healthy: bool, *, leaf_index: int | None = None) -> None:
        """Mark a node, or one leaf of it, as bad or as healthy again.

        New placements avoid bad leaves; groups that are there stay.

        :param leaf_index: device index of the leaf, 0 to 2**31 - 1; ``None``: all leaves.
        :raises KeyError: an unknown node, or it has no such leaf.
        :raises ValueError: ``leaf_index`` is out of range.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(leaves that are marked * levels).
        """
        healthy = as_bool(healthy, "healthy")
        if leaf_index is not None:
            leaf_index = as_int(leaf_index, "leaf_index", 0, 2**31 - 1)
        with self._lock:
            names, core = self._books.names, self._books.core
            places = self._places(node)
            if leaf_index is None:
                for chain, index in places:
                    leaves = names.node_leaves(chain, index)
                    core.set_health(leaves.start, leaves.stop, healthy)
                return
            found = names.find_leaves(node, leaf_index)
            if not found:
                raise KeyError(f"leaf_index={leaf_index}: node {node!r} has no such leaf")
            for leaf in found:
                core.set_health(leaf, leaf + 1, healthy)

    def bad_leaves(self) -> tuple[tuple[str, int], ...]:
        """(node, leaf index) of every leaf that is marked bad, in the order of the leaves."""
        with self._lock:
            names = self._books.names
            return tuple(
                names.place(leaf)
                for chain in range(len(names.chains))
                for leaf in self._books.core.bad_leaves(chain).tolist()
            )

    def bad_nodes(self) -> tuple[str, ...]:
        """The nodes of which some leaf is marked bad, each once."""
        return tuple(dict.fromkeys(node for node, _ in self.bad_leaves()))

    # --- configuration

    def reconfigure(self, spec: ClusterSpec) -> Reconfiguration:
        """Go over to another specification; every group that runs goes on running.

        Nodes are known by their names, leaves by their indices; what is bad stays bad, a wholly
        bad node with all leaves that it has then. Groups are booked anew by priority, then by their
        first leaves, those that were downgraded last; a group whose guarantee cannot be had (any
        more) goes on opportunistically. A leaf that is gone comes back to its group with a later
        specification.
        Reservations of preempting groups are given up. Policies stay with their tenants.

        :raises InfeasibleAssignmentError: the tenants' cells do not fit; nothing has changed.
        :raises TypeError: ``spec`` is not a `ClusterSpec`.
        :raises ValueError: a node has one leaf index twice in a chain.
        """
        with self._lock:
            if not isinstance(spec, ClusterSpec):
                raise TypeError(f"spec must be a ClusterSpec, not {type(spec).__name__}")
            self._books, changes = rebook_all(self._books, spec)
            return changes

    # --- what there is

    def groups(self) -> tuple[str, ...]:
        """The names of all live groups, in the order of their commits."""
        with self._lock:
            self._books.groups.sort()
            return tuple(self._books.live)

    def __contains__(self, name: object) -> bool:
        """Whether there is a live group of this name."""
        with self._lock:
            return isinstance(name, str) and name in self._books.live

    def group(self, name: str) -> GroupStatus:
        """A live group. Cost: O(leaves of the group).

        :raises KeyError: there is no such group.
        """
        with self._lock:
            self._books.known(name)
            return group_status(self._books, name)

    def free_cells(self) -> dict[str, dict[str, npt.NDArray[np.int64]]]:
        """Chain -> level -> the cells listed as free, ascending: int64 arrays.

        Free for guaranteed work, that is, not bound to a tenant's cell; opportunistic work may be
        on them. A cell is listed if it is free and its parent is not.
        """
        with self._lock:
            names = self._books.names
            return {
                chain: {
                    level: self._books.core.free_cells(number, row)
                    for row, level in enumerate(names.levels[number])
                }
                for number, chain in enumerate(names.chains)
            }

    def unused_cells(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tenant -> chain -> level -> how many of its cells are not bound; pinned ones not counted.

        Chains and levels of which the tenant owns nothing are left out.
        """
        with self._lock:
            return unused_cells(self._books)

    def surplus(self, chain: str) -> dict[str, int]:
        """S per level: free cells, whole or as parts, beyond what owned cells may still need.

        S(top) = free - owed, S(l) = S(l+1) * fanout + free(l) - owed(l), where owed counts owned
        cells that are not bound. Never negative: that is sharing safety.

        :raises KeyError: an unknown chain.
        """
        with self._lock:
            number = self._chain(chain)
            spare = self._books.core.surplus(number)
            return dict(zip(self._books.names.levels[number], spare, strict=True))

    def doomed(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tenant -> chain -> level -> unbound cells that the healthy hardware left cannot serve.

        Accounted over all tenants together, from the highest level down; where cells are short,
        they are charged one by one to the tenant with the most unbound ones, the last among equal
        ones. This tells what is promised and cannot be had; whoever comes first is served.
        """
        with self._lock:
            return doomed_cells(self._books)

    def virtual_trees(self, virtual_cluster: str) -> tuple[VirtualTree, ...]:
        """The virtual cells of a tenant and what they are bound to.

        :raises KeyError: an unknown tenant.
        :raises TypeError: ``virtual_cluster`` is not a string.
        """
        virtual_cluster = as_text(virtual_cluster, "virtual_cluster")
        with self._lock:
            tenants = self._books.names.tenants
            if virtual_cluster not in tenants:
                known = sorted(tenants)
                raise KeyError(f"virtual_cluster={virtual_cluster!r}: known are {known}")
            return virtual_trees(self._books, tenants[virtual_cluster])

    def idle_leaves(self, chain: str) -> npt.NDArray[np.int32]:
        """Healthy leaves of each node that no group is on or has reserved: int32 array. O(nodes).

        :raises KeyError: an unknown chain.
        """
        with self._lock:
            return self._books.core.idle_leaves(self._chain(chain))

    def available(self, group: AffinityGroup) -> int:
        """Leaves that a group may get without evictions, at most, in the chain that has the most.

        On healthy hardware the release of another group adds no more than its leaves.

        :raises KeyError: an unknown tenant or pinned cell.

        Cost: O(virtual nodes of the tenant).
        """
        with self._lock:
            names, core = self._books.names, self._books.core
            tenant = tenant_of(names, group)
            pool = pinned_pool(names, tenant, group)
            chains = [chain for chain, _ in names.search(group.leaf_type, tenant)]
            if pool >= 0:
                chains = [names.pools[pool].chain]
            if group.priority < 0:
                return max(int(core.idle_leaves(chain).sum()) for chain in chains)
            return max(core.available(tenant, chain, pool) for chain in chains)

    def leaf_groups(self, chain: str) -> tuple[list[str | None], list[str | None]]:
        """Per leaf of a chain the group that is on it, and the one that has reserved it.

        :raises KeyError: an unknown chain.
        """
        with self._lock:
            number, named = self._chain(chain), self._books.named
            core = self._books.core
            users, reservers = (
                [None if handle < 0 else named[handle] for handle in handles.tolist()]
                for handles in (core.leaf_users(number), core.leaf_reservers(number))
            )
        return users, reservers

    def leaf_group_numbers(self, chain: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What ``leaf_groups`` says as two int64 arrays: places in ``groups()``, -1 for nobody.

        :raises KeyError: an unknown chain.
        """
        with self._lock:
            number, core = self._chain(chain), self._books.core
            self._books.groups.sort()
            handles = np.array([live.handle for live in self._books.live.values()], np.int64)
            users, reservers = core.leaf_users(number), core.leaf_reservers(number)
        places = np.full(handles.max(initial=-1) + 2, -1)  # the last one is for nobody
        places[handles] = np.arange(len(handles))
        return places[users], places[reservers]

    def status(self) -> dict[str, Any]:
        """Figures of chains, tenants and groups, as plain data for JSON. O(leaves)."""
        with self._lock:
            books = self._books.copy()  # which no finalizer can change meanwhile
        return status(books)

    def explain(
        self, group: AffinityGroup, *, suggested_nodes: Iterable[str] | NodeSet | None = None
    ) -> GroupExplanation:
        """Why a group would have to wait, and the cheapest changes that would admit it.

        :raises KeyError, ValueError, TypeError: as ``schedule`` does; but a group that can never be
            served is explained, too.

        Nothing changes. Cost: a copy, and a decision for each change that is tried, at most three
        for each live group.
        """
        if not isinstance(group, AffinityGroup):
            raise TypeError(f"group must be an AffinityGroup, not {type(group).__name__}")
        if suggested_nodes is not None:
            suggested_nodes = NodeSet.of(suggested_nodes, "suggested_nodes")
        with self._lock:
            suggested = None
            if suggested_nodes is not None:
                suggested = suggested_nodes.numbers(self._books.names)
            self._books.groups.sort()
            return explain(self._books, group, suggested)

    # --- state

    def _mark(self) -> tuple[GroupBooks, int]:
        return self._books, self._books.groups.mark()

    def _rewind(self, mark: tuple[GroupBooks, int]) -> None:
        books, number = mark
        books.groups.rewind(number)
        self._books = books

    def _keep(self, mark: tuple[GroupBooks, int]) -> None:
        books, number = mark
        books.groups.keep(number)

    def copy(self) -> Self:
        """An independent what-if branch. Cost and memory: about 100 bytes per leaf."""
        other = object.__new__(type(self))
        with self._lock:
            other._books = self._books.copy()
            other._lock = _cells.Mutex()
        return other

    def to_bytes(self) -> bytes:
        """Specification, groups, reservations and health as bytes, for ``from_bytes``.

        Policies are code and are not saved.
        """
        with self._lock:
            books = self._books.copy()
        return seal(b"HCCC", 1, encode(books))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The cluster whose ``to_bytes`` gave these bytes, with the native policy for all tenants.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.

        A few bytes can describe a cluster of 2**31 leaves, which needs the memory of one.
        """
        payload = unseal(b"HCCC", 1, data)
        with corrupt_if_it_fails():
            books = decode(payload)
        cluster = object.__new__(cls)
        cluster._books = books
        cluster._lock = _cells.Mutex()
        return cluster

    def check(self) -> None:
        """Audit every invariant, among them S >= 0 on every level of every chain.

        :raises InvariantError: one is broken. Cost: O(cells).
        """
        with self._lock:
            self._books.groups.check()

    def __sizeof__(self) -> int:
        with self._lock:
            return object.__sizeof__(self) + self._books.core.__sizeof__()

    def _chain(self, name: str) -> int:
        chains = self._books.names.chains
        if as_text(name, "chain") not in chains:
            raise KeyError(f"chain={name!r}: known are {list(chains)}")
        return chains.index(name)

    def _places(self, node: str) -> tuple[tuple[int, int], ...]:
        places = self._books.names.nodes.get(as_text(node, "node"))
        if places is None:
            raise KeyError(f"node={node!r}: no chain has such a node")
        return places
