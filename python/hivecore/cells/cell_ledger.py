"""The groups, cells and leaves of a cluster."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore import _cells
from hivecore._arguments import as_bool, as_instance, as_int, as_name, as_text
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._trial import Trials
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.books.cluster_report import (
    doomed_cells,
    group_status,
    status,
    unused_cells,
    virtual_trees,
)
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.books.group_search import pinned_pool, tenant_of
from hivecore.cells.books.saved_cluster import decode, encode
from hivecore.cells.changes import GroupStatus
from hivecore.cells.cluster_spec import ClusterSpec
from hivecore.cells.cluster_view import VirtualTree
from hivecore.cells.pod_placement import PodPlacement

__all__ = ["CellLedger"]


class CellLedger(Trials, Stateful):
    """The part of a `CellCluster` that decides nothing: queries, health, release, trials and saved
    states.
    """

    def _take_up(self, books: GroupBooks) -> None:
        self._books = books
        # Reentrant: a policy may read the cluster, and a finalizer may release a group.
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
        """A copy of the specification."""
        with self._lock:
            spec = self._books.names.spec
        return ClusterSpec(spec.chains, spec.virtual_clusters, spec.pinned_cells)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, chain by chain; a node in several chains occurs once."""
        with self._lock:
            return tuple(self._books.names.nodes)

    # --- the end of groups, and hardware

    def release(self, name: str) -> None:
        """Remove a group: its leaves and reservations are free.

        Leaves that a preempting group has reserved are that group's now. Downgraded groups whose
        cells are free again get their guarantee back, the more important first.
        """
        with self._lock:
            self._books.groups.release(name)

    def rename(self, name: str, new: str) -> None:
        """Give a group another name; it stays where it is, and comes last in `groups`. Cost:
        O(groups).

        :raises ValueError: the new name is taken or empty.
        """
        new = as_name(new, "new")
        with self._lock:
            self._books.rename(name, new)

    def cancel(self, name: str) -> None:
        """Cancel a preemption and its reservation; groups that run on the reserved leaves stay.

        :raises KeyError: the group is unknown.
        :raises ValueError: the group is allocated, not preempting.
        """
        with self._lock:
            if not self._books.is_preempting(self._books.groups.known(name)):
                raise ValueError(f"group {name!r} is allocated; release it")
            self._books.groups.release(name)

    def set_health(self, node: str, healthy: bool, *, leaf_index: int | None = None) -> None:
        """Mark a node, or one of its leaves, as bad or healthy.

        New placements avoid bad leaves; groups on them stay.

        :param leaf_index: device index of the leaf, 0 to 2**31 - 1; ``None``: all leaves.
        :raises KeyError: the node is unknown, or has no such leaf.
        :raises ValueError: ``leaf_index`` is out of range.

        Cost: O(marked leaves * levels).
        """
        healthy = as_bool(healthy, "healthy")
        if leaf_index is not None:
            leaf_index = as_int(leaf_index, "leaf_index", 0, 2**31 - 1)
        with self._lock:
            names, core = self._books.names, self._books.core
            places = self._places(node)
            if leaf_index is None:
                ranges = [names.node_leaves(*place) for place in places]
            else:
                ranges = [range(n, n + 1) for n in names.find_leaves(node, leaf_index)]
                if not ranges:
                    raise KeyError(f"leaf_index={leaf_index}: node {node!r} has no such leaf")
            for leaves in ranges:
                core.set_health(leaves.start, leaves.stop, healthy)

    def bad_leaves(self) -> tuple[tuple[str, int], ...]:
        """(node, leaf index) of every bad leaf, in the order of the leaves."""
        with self._lock:
            names = self._books.names
            return tuple(
                names.place(leaf)
                for chain in range(len(names.chains))
                for leaf in self._books.core.bad_leaves(chain).tolist()
            )

    def bad_nodes(self) -> tuple[str, ...]:
        """The nodes with a bad leaf, each once."""
        return tuple(dict.fromkeys(node for node, _ in self.bad_leaves()))

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
        """The status of a live group. Cost: O(leaves of the group)."""
        with self._lock:
            self._books.groups.known(name)
            return group_status(self._books, name)

    def record(self, name: str) -> tuple[PodPlacement, ...]:
        """What `recover` needs to add a live group again: a record of each pod.

        It also has leaves that no longer exist, and the levels of the cells that a downgraded group
        should get back. Cost: O(leaves of the group).

        :raises KeyError: the group is unknown.
        """
        with self._lock:
            return self._books.record(self._books.groups.known(name))

    def free_cells(self) -> dict[str, dict[str, npt.NDArray[np.int64]]]:
        """Chain -> level -> free cells, ascending, as int64 arrays.

        Free for guaranteed groups: not bound to a virtual cell; opportunistic groups may run there.
        Only the largest are listed: free cells whose parent is not free.
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
        """Tenant -> chain -> level -> how many of its virtual cells are not bound, without pinned
        ones.

        Chains and levels without cells of the tenant are left out.
        """
        with self._lock:
            return unused_cells(self._books)

    def surplus(self, chain: str) -> dict[str, int]:
        """By level: free cells, whole or as parts, beyond what owned cells may still need.

        S(top) = free - owed and S(l) = S(l+1) * fanout + free(l) - owed(l), where owed counts owned
        cells that are not bound. S is never negative: that is HiveD's sharing safety.
        """
        with self._lock:
            number = self._chain(chain)
            spare = self._books.core.surplus(number)
            return dict(zip(self._books.names.levels[number], spare, strict=True))

    def doomed(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tenant -> chain -> level -> unbound cells that the healthy hardware left cannot serve.

        Counted over all tenants together, from the highest level down. Missing cells are charged
        one by one to the tenant with the most unbound cells (ties: the last tenant). The first
        group that comes is still served.
        """
        with self._lock:
            return doomed_cells(self._books)

    def virtual_trees(self, virtual_cluster: str) -> tuple[VirtualTree, ...]:
        """The virtual cells of a tenant, and the physical cells that they are bound to.

        :raises KeyError: the tenant is unknown.
        """
        virtual_cluster = as_text(virtual_cluster, "virtual_cluster")
        with self._lock:
            tenants = self._books.names.tenants
            if virtual_cluster not in tenants:
                known = sorted(tenants)
                raise KeyError(f"virtual_cluster={virtual_cluster!r}: known are {known}")
            return virtual_trees(self._books, tenants[virtual_cluster])

    def idle_leaves(self, chain: str) -> npt.NDArray[np.int32]:
        """Healthy leaves of each node that no group uses or reserves: int32[nodes].

        Cost: O(nodes).
        """
        with self._lock:
            return self._books.core.idle_leaves(self._chain(chain))

    def available(self, group: AffinityGroup) -> int:
        """An upper bound of the leaves that a group can get without evictions, in the best chain.

        On healthy hardware the release of another group adds at most its leaves. Cost: O(virtual
        nodes of the tenant).

        :raises KeyError: the tenant or the pinned cell is unknown.
        """
        as_instance(group, "group", AffinityGroup)
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
        """For each leaf of a chain: the group that uses it, and the group that has reserved it."""
        with self._lock:
            number, named = self._chain(chain), self._books.named
            core = self._books.core
            users, reservers = (
                [None if handle < 0 else named[handle] for handle in handles.tolist()]
                for handles in (core.leaf_users(number), core.leaf_reservers(number))
            )
        return users, reservers

    def leaf_group_numbers(self, chain: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """``leaf_groups`` as int64 arrays of indices in ``groups()``; -1: no group."""
        with self._lock:
            number, core = self._chain(chain), self._books.core
            self._books.groups.sort()
            handles = np.array([live.handle for live in self._books.live.values()], np.int64)
            users, reservers = core.leaf_users(number), core.leaf_reservers(number)
        places = np.full(handles.max(initial=-1) + 2, -1)  # the last entry is for no group
        places[handles] = np.arange(len(handles))
        return places[users], places[reservers]

    def status(self) -> dict[str, Any]:
        """Figures of chains, tenants and groups, as plain data for JSON. Cost: O(leaves)."""
        with self._lock:
            books = self._books.copy()  # a copy, which no finalizer changes
        return status(books)

    # --- the state as a whole

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
        """An independent branch for what-if questions. Cost: about 100 bytes per leaf."""
        other = object.__new__(type(self))
        with self._lock:
            other._take_up(self._books.copy())
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
        """The cluster that ``to_bytes`` saved, with the native policy for all tenants.

        :raises CorruptStateError: the bytes are damaged, or describe no possible state.

        A few bytes can describe a cluster of 2**31 leaves, which takes that much memory.
        """
        payload = unseal(b"HCCC", 1, data)
        with corrupt_if_it_fails():
            books = decode(payload)
        cluster = object.__new__(cls)
        cluster._take_up(books)
        return cluster

    def check(self) -> None:
        """Audit every invariant, among them S >= 0 at every level of every chain (see `surplus`).

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
