"""The groups, cells and leaves of a cluster, as they are."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore import _cells
from hivecore._arguments import as_bool, as_int, as_name, as_text
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
    """The part of a `CellCluster` that decides nothing: what there is, health, the end of groups,
    trials and saved states.
    """

    def _take_up(self, books: GroupBooks) -> None:
        self._books = books
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
        """What the cluster is made of and which cells each tenant owns: a copy."""
        with self._lock:
            spec = self._books.names.spec
        return ClusterSpec(spec.chains, spec.virtual_clusters, spec.pinned_cells)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, chain by chain; one that is in several is named once."""
        with self._lock:
            return tuple(self._books.names.nodes)

    # --- the end of groups, and hardware

    def release(self, name: str) -> None:
        """Take back all leaves and reservations of a group.

        Leaves that a preempting group has reserved are that group's now. Groups that were
        downgraded have their guarantee back if the tenant's cells around them are free now, the
        more important first.
        """
        with self._lock:
            self._books.groups.release(name)

    def rename(self, name: str, new: str) -> None:
        """A group has another name from now on, and comes last in `groups`; it stays where it is.

        :raises ValueError: a live group has the new name, or it is empty.

        Cost: O(groups).
        """
        new = as_name(new, "new")
        with self._lock:
            self._books.rename(name, new)

    def cancel(self, name: str) -> None:
        """Give up a preemption: the reserved leaves go back to the groups that are on them.

        :raises ValueError: it is allocated, not preempting.
        """
        with self._lock:
            if not self._books.is_preempting(self._books.groups.known(name)):
                raise ValueError(f"group {name!r} is allocated; release it")
            self._books.groups.release(name)

    def set_health(self, node: str, healthy: bool, *, leaf_index: int | None = None) -> None:
        """Mark a node, or one leaf of it, as bad or as healthy again.

        New placements avoid bad leaves; groups that are there stay.

        :param leaf_index: device index of the leaf, 0 to 2**31 - 1; ``None``: all leaves.
        :raises KeyError: an unknown node, or it has no such leaf.
        :raises ValueError: ``leaf_index`` is out of range.

        Cost: O(leaves that are marked * levels).
        """
        healthy = as_bool(healthy, "healthy")
        if leaf_index is not None:
            leaf_index = as_int(leaf_index, "leaf_index", 0, 2**31 - 1)
        with self._lock:
            names, core = self._books.names, self._books.core
            places = self._places(node)
            if leaf_index is None:
                found = [names.node_leaves(*place) for place in places]
            else:
                found = [range(n, n + 1) for n in names.find_leaves(node, leaf_index)]
                if not found:
                    raise KeyError(f"leaf_index={leaf_index}: node {node!r} has no such leaf")
            for leaves in found:
                core.set_health(leaves.start, leaves.stop, healthy)

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
        """A live group. Cost: O(leaves of the group)."""
        with self._lock:
            self._books.groups.known(name)
            return group_status(self._books, name)

    def record(self, name: str) -> tuple[PodPlacement, ...]:
        """What `recover` needs to book a live group again: one record per pod.

        Beside its placement it has the leaves that no longer exist, and the levels of the tenant's
        cells that a downgraded group is to have again. Cost: O(leaves of the group).

        :raises KeyError: there is no live group of this name.
        """
        with self._lock:
            return self._books.record(self._books.groups.known(name))

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
        """
        with self._lock:
            number = self._chain(chain)
            spare = self._books.core.surplus(number)
            return dict(zip(self._books.names.levels[number], spare, strict=True))

    def doomed(self) -> dict[str, dict[str, dict[str, int]]]:
        """Tenant -> chain -> level -> unbound cells that the healthy hardware left cannot serve.

        Accounted over all tenants together, from the highest level down; where cells are short,
        they are charged one by one to the tenant with the most unbound ones, the last among equal
        ones. This tells what is promised and cannot be had; the first group to come is served.
        """
        with self._lock:
            return doomed_cells(self._books)

    def virtual_trees(self, virtual_cluster: str) -> tuple[VirtualTree, ...]:
        """The virtual cells of a tenant and what they are bound to.

        :raises KeyError: an unknown tenant.
        """
        virtual_cluster = as_text(virtual_cluster, "virtual_cluster")
        with self._lock:
            tenants = self._books.names.tenants
            if virtual_cluster not in tenants:
                known = sorted(tenants)
                raise KeyError(f"virtual_cluster={virtual_cluster!r}: known are {known}")
            return virtual_trees(self._books, tenants[virtual_cluster])

    def idle_leaves(self, chain: str) -> npt.NDArray[np.int32]:
        """Healthy leaves of each node that no group uses or reserves: int32[nodes]. O(nodes)."""
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
        """Per leaf of a chain the group that is on it, and the one that has reserved it."""
        with self._lock:
            number, named = self._chain(chain), self._books.named
            core = self._books.core
            users, reservers = (
                [None if handle < 0 else named[handle] for handle in handles.tolist()]
                for handles in (core.leaf_users(number), core.leaf_reservers(number))
            )
        return users, reservers

    def leaf_group_numbers(self, chain: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What ``leaf_groups`` says as int64 arrays: places in ``groups()``, -1 for no group."""
        with self._lock:
            number, core = self._chain(chain), self._books.core
            self._books.groups.sort()
            handles = np.array([live.handle for live in self._books.live.values()], np.int64)
            users, reservers = core.leaf_users(number), core.leaf_reservers(number)
        places = np.full(handles.max(initial=-1) + 2, -1)  # the last one is for no group
        places[handles] = np.arange(len(handles))
        return places[users], places[reservers]

    def status(self) -> dict[str, Any]:
        """Figures of chains, tenants and groups, as plain data for JSON. O(leaves)."""
        with self._lock:
            books = self._books.copy()  # which no finalizer can change meanwhile
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
        """An independent what-if branch. Cost and memory: about 100 bytes per leaf."""
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
        """The cluster whose ``to_bytes`` gave these bytes, with the native policy for all tenants.

        :raises CorruptStateError: they are damaged, or describe no possible state.

        A few bytes can describe a cluster of 2**31 leaves, which needs the memory of one.
        """
        payload = unseal(b"HCCC", 1, data)
        with corrupt_if_it_fails():
            books = decode(payload)
        cluster = object.__new__(cls)
        cluster._take_up(books)
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
