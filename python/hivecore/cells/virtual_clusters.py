"""Virtual clusters: tenants own cells, and what a tenant owns it can always have (HiveD)."""

import copy
import json
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hivecore import _cells
from hivecore._arguments import as_int
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore.cells.cell import Cell
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.cells.explanation import Explanation, cheapest_release
from hivecore.cells.saved_cluster import as_ranges
from hivecore.errors import (
    CorruptStateError,
    InvariantError,
    NoFreeCellError,
    NoHealthyCellError,
    NotAllocatedError,
    QuotaExceededError,
)

__all__ = ["VirtualClusters"]


class _ChainNames(NamedTuple):
    number: int
    levels: dict[str, int]
    names: tuple[str, ...]
    leaves: tuple[int, ...]


class VirtualClusters:
    """Allocates physical cells to tenants that own cells, so that no tenant breaks a guarantee.

    While the hardware is healthy, each tenant uses the cells that it owns as it would a private
    cluster: which requests are served, and by which virtual cell, depends on this tenant's own
    requests alone, and a request within what the tenant owns is always served (Theorem 1 of
    HiveD). An owned cell is bound to a physical cell while a part of it is in use.

    :param spec: the chains and the tenants' assignments.
    :raises InfeasibleAssignmentError: the assignments do not fit; names chain, level and by how
        many cells.
    :raises TypeError: ``spec`` is not a `ClusterSpec`.

    Deterministic: virtual cells by lowest level, then index; physical cells for them by health,
    then fewest opportunistic leaves, then lowest index. The cells of one request are chosen one
    after the other. A cell costs O(sum of the fan-outs of the levels that it passes), and as much
    for each opportunistic cell that gives way. Memory: about 35 bytes per leaf for five levels,
    and some hundred per allocation. One object may be used by several threads: calls take turns.
    Source: HiveD (OSDI'20), sections 3 and 4.

    >>> spec = ClusterSpec(
    ...     chains={"V100": Chain(["gpu", "pair", "node"], fanouts=[2, 2], roots=2)},
    ...     virtual_clusters={"A": {"V100": {"node": 1}}, "B": {"V100": {"pair": 2}}},
    ... )
    >>> clusters = VirtualClusters(spec)
    >>> spare = clusters.allocate_opportunistic("B", "V100", "node")   # idle cells of anybody
    >>> spare.leaves
    range(4, 8)
    >>> clusters.allocate("B", "V100", "gpu").leaves                   # B's pair, bound to pair 0
    range(0, 1)
    >>> node = clusters.allocate("A", "V100", "node")                  # what A owns A gets
    >>> node.leaves, node.preempted == (spare,)
    (range(4, 8), True)
    >>> clusters.explain("A", "V100", "gpu").reason
    "no whole 'gpu' of the cells that 'A' owns is free"
    """

    def __init__(self, spec: ClusterSpec) -> None:
        if not isinstance(spec, ClusterSpec):
            raise TypeError(f"spec must be a ClusterSpec, not {type(spec).__name__}")
        if any(spec.pinned_cells.values()):
            raise ValueError("spec.pinned_cells: VirtualClusters has none, CellCluster has")
        # A copy of its own: the mappings of the caller's specification can still change.
        spec = ClusterSpec(spec.chains, spec.virtual_clusters)
        spec.check_feasible()
        self._spec = spec
        self._tenants = {name: i for i, name in enumerate(spec.virtual_clusters)}
        self._chains = {
            name: _ChainNames(
                index,
                {level: i for i, level in enumerate(chain.levels)},
                tuple(chain.levels),
                chain.leaves_per_cell(),
            )
            for index, (name, chain) in enumerate(spec.chains.items())
        }
        assignments = [
            (
                self._tenants[tenant],
                self._chains[chain].number,
                self._chains[chain].levels[level],
                n,
            )
            for tenant, by_chain in spec.virtual_clusters.items()
            for chain, by_level in by_chain.items()
            for level, n in by_level.items()
            if n > 0
        ]
        shapes = [(chain.fanouts, chain.roots) for chain in spec.chains.values()]
        self._kernel = _cells.VirtualClusters(shapes, len(self._tenants), assignments)
        self._live: dict[int, Cell] = {}
        # Reentrant: a finalizer may release a cell while this thread is at work here.
        self._lock = _cells.Mutex()

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster is made of and who owns which cells: a copy."""
        return copy.deepcopy(self._spec)

    # --- requests

    def allocate(self, virtual_cluster: str, chain: str, level: str) -> Cell:
        """Allocate a cell of this level from the tenant's own cells.

        :raises QuotaExceededError: no cell that the tenant owns can serve it now.
        :raises NoHealthyCellError: only bad hardware could, without breaking a guarantee.
        :raises KeyError: an unknown tenant, chain or level.
        """
        return self.allocate_many(virtual_cluster, chain, level, 1)[0]

    def allocate_many(
        self, virtual_cluster: str, chain: str, level: str, count: int
    ) -> tuple[Cell, ...]:
        """Allocate ``count`` cells of this level from the tenant's own cells, all or none.

        :param count: integer >= 1.
        :raises QuotaExceededError: the cells that the tenant owns cannot serve all of them now.
        :raises NoHealthyCellError: only bad hardware could, without breaking a guarantee.
        :raises KeyError: an unknown tenant, chain or level.
        :raises ValueError: ``count`` is out of range.
        """
        tenant, names, row, count = self._request(virtual_cluster, chain, level, count)
        with self._lock:
            answer = self._kernel.allocate(tenant, names.number, row, count)
            if isinstance(answer, bool):
                raise self._refusal(answer, virtual_cluster, chain, level, count)
            return self._hand_out(virtual_cluster, chain, names, row, *answer)

    def allocate_opportunistic(self, virtual_cluster: str, chain: str, level: str) -> Cell:
        """Allocate an idle, healthy cell of anybody; guaranteed requests may take it back.

        It goes where guaranteed work would go last: to free cells of the highest level that nobody
        has bound, there to those with the most opportunistic leaves, then the highest index; only
        then into unused parts of cells that tenants have bound.

        :raises NoFreeCellError: no cell of this level is idle and healthy.
        :raises KeyError: an unknown tenant, chain or level.
        """
        return self.allocate_opportunistic_many(virtual_cluster, chain, level, 1)[0]

    def allocate_opportunistic_many(
        self, virtual_cluster: str, chain: str, level: str, count: int
    ) -> tuple[Cell, ...]:
        """Allocate ``count`` idle, healthy cells of anybody, all or none.

        :param count: integer >= 1.
        :raises NoFreeCellError: fewer cells of this level are idle and healthy.
        :raises KeyError: an unknown tenant, chain or level.
        :raises ValueError: ``count`` is out of range.
        """
        tenant, names, row, count = self._request(virtual_cluster, chain, level, count)
        with self._lock:
            served = self._kernel.allocate_opportunistic(tenant, names.number, row, count)
            if served is None:
                raise NoFreeCellError(
                    f"chain {chain!r} has fewer than {count} idle healthy cells of level {level!r}"
                )
            return self._hand_out(virtual_cluster, chain, names, row, served, [])

    def fits(self, virtual_cluster: str, chain: str, level: str, count: int = 1) -> bool:
        """Whether ``allocate_many`` would serve this request now.

        O(levels) while the chain is healthy; with bad hardware as costly as the request itself.

        :raises KeyError: an unknown tenant, chain or level.
        :raises ValueError: ``count`` is out of range.
        """
        tenant, names, row, count = self._request(virtual_cluster, chain, level, count)
        with self._lock:
            return self._kernel.fits(tenant, names.number, row, count)

    def release(self, cell: Cell) -> None:
        """Take back an allocated cell.

        :raises NotAllocatedError: it is not allocated here: released, preempted, or of another
            cluster. Cells are compared by value: an equal one of a twin or copy is as good.
        :raises TypeError: ``cell`` is not a `Cell`.
        """
        with self._lock:
            self._take_back([self._handle_of(cell)])

    def release_many(self, cells: Iterable[Cell]) -> None:
        """Take back allocated cells, all or none.

        :raises NotAllocatedError: one is not allocated here, or is named twice; nothing changed.
        :raises TypeError: one is not a `Cell`.
        """
        cells = tuple(cells)
        with self._lock:
            handles = [self._handle_of(cell) for cell in cells]
            if len(set(handles)) != len(handles):
                raise NotAllocatedError("cells names a cell twice")
            self._take_back(handles)

    # --- hardware

    def set_health(self, chain: str, cells: range | tuple[str, int], healthy: bool) -> None:
        """Mark hardware as bad, or as healthy again.

        New allocations avoid bad cells; those that are there stay.

        :param cells: a range of leaves (step 1), or (level, index) for all leaves of one cell.
        :raises KeyError: an unknown chain or level.
        :raises ValueError: the cells are outside the chain.
        :raises TypeError: an argument is of a wrong type.

        Cost: O(leaves of the range * levels).
        """
        leaves = self._leaves(chain, cells)
        if not isinstance(healthy, (bool, np.bool_)):
            raise TypeError(f"healthy must be a bool, not {type(healthy).__name__}")
        with self._lock:
            self._kernel.set_health(
                self._chain(chain).number, leaves.start, leaves.stop, bool(healthy)
            )

    def bad_leaves(self, chain: str) -> npt.NDArray[np.int64]:
        """The leaves of a chain that are marked bad: int64 array, ascending. O(leaves)."""
        names = self._chain(chain)
        with self._lock:
            return self._kernel.bad_leaves(names.number)

    # --- what there is

    def cells(self) -> tuple[Cell, ...]:
        """Every allocated cell, in the order of allocation."""
        with self._lock:
            return tuple(self._live.values())

    def available(self, virtual_cluster: str, chain: str, level: str) -> int:
        """How many more cells of this level the tenant's own cells can serve. O(levels)."""
        tenant, names, row, _ = self._request(virtual_cluster, chain, level, 1)
        with self._lock:
            return self._kernel.capacity(tenant, names.number, row)

    def free_counts(self, chain: str) -> npt.NDArray[np.int64]:
        """How many cells each level lists as free: int64 array of length levels, leaf first.

        Free for guaranteed work, that is, not bound to an owned cell; opportunistic work may be
        on them. A cell is listed if it is free and its parent is not.
        """
        names = self._chain(chain)
        with self._lock:
            return self._kernel.free_counts(names.number)

    def surplus(self, chain: str) -> dict[str, int]:
        """S per level: free cells, whole or as parts, beyond what owned cells may still need.

        S(top) = free - owed, S(l) = S(l+1) * fanout + free(l) - owed(l), where owed counts owned
        cells that are not bound. Never negative: that is sharing safety.
        """
        names = self._chain(chain)
        with self._lock:
            return dict(zip(names.names, self._kernel.surplus(names.number), strict=True))

    def explain(self, virtual_cluster: str, chain: str, level: str) -> Explanation:
        """Why ``allocate`` would serve this request or not, and what would admit it.

        :raises KeyError: an unknown tenant, chain or level.

        Cost: O(allocated cells + leaves of the chain).
        """
        names, row = self._chain(chain), self._level(chain, level)
        with self._lock:
            fits = self.fits(virtual_cluster, chain, level)
            available = self.available(virtual_cluster, chain, level)
            bad = len(self._kernel.bad_leaves(names.number))
            cells = list(self._live.values())
        owned = dict(self._spec.virtual_clusters[virtual_cluster].get(chain, {}))
        release: tuple[Cell, ...] = ()
        if fits:
            reason = "a cell that the tenant owns can serve it"
        elif available:
            reason = (
                f"{virtual_cluster!r} owns a free cell, but the healthy hardware that could back "
                f"it is owed to others: {bad} leaves of chain {chain!r} are marked bad"
            )
        elif not any(n and names.levels[name] >= row for name, n in owned.items()):
            reason = f"{virtual_cluster!r} owns no cell of level {level!r} or above"
        else:
            reason = f"no whole {level!r} of the cells that {virtual_cluster!r} owns is free"
            mine = (cell for cell in cells if cell.virtual_cluster == virtual_cluster)
            release = cheapest_release(
                [cell for cell in mine if cell.chain == chain and not cell.opportunistic],
                row,
                names.levels,
                names.leaves,
            )
        return Explanation(fits, reason, owned, available, release)

    # --- state

    def copy(self) -> Self:
        """An independent what-if branch; cells allocated so far can be released in both."""
        other = object.__new__(type(self))
        other._spec, other._tenants, other._chains = self._spec, self._tenants, self._chains
        # The dict first: a new one may start a collection, whose finalizers may release a cell.
        other._lock, other._live = _cells.Mutex(), {}
        with self._lock:
            other._kernel = self._kernel.copy()
            other._live.update(self._live)
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """The specification, allocations and health as bytes, for ``from_bytes``.

        Restored cells are equal in all but ``preempted``, which is forgotten.
        """
        branch = self.copy()  # which no finalizer can change meanwhile
        slots, free_slots = branch._kernel.save()
        state = {
            "chains": {
                name: [list(chain.levels), list(chain.fanouts), chain.roots]
                for name, chain in self._spec.chains.items()
            },
            "virtual_clusters": self._spec.virtual_clusters,
            "slots": slots.tolist(),
            "free_slots": free_slots,
            "order": list(branch._live),
            "bad_leaves": [
                branch._kernel.bad_leaves(names.number).tolist() for names in self._chains.values()
            ],
        }
        return seal(b"HCVC", 1, json.dumps(state, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The virtual clusters whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.

        A few bytes can describe a cluster of 2**31 leaves, which needs the memory of one.
        """
        payload = unseal(b"HCVC", 1, data)
        with corrupt_if_it_fails():
            return cls._restore(json.loads(payload))

    @classmethod
    def _restore(cls, state: dict[str, Any]) -> Self:
        chains = {name: Chain(*shape) for name, shape in state["chains"].items()}
        clusters = cls(ClusterSpec(chains, state["virtual_clusters"]))
        tenants, chain_names = list(clusters._tenants), list(clusters._chains)
        described: dict[int, tuple[str, str, _ChainNames, int, tuple[int, int, int, int]]] = {}
        for slot, values in enumerate(state["slots"]):
            live, generation, tenant, chain, row, index, owned_row, virtual_index = values
            as_int(live, "live", 0, 1)
            as_int(generation, "generation", 0, 2**31 - 1)
            as_int(tenant, "tenant", 0, max(len(tenants) - 1, 0))
            as_int(chain, "chain", 0, len(chain_names) - 1)
            names = clusters._chains[chain_names[chain]]
            as_int(row, "level", 0, len(names.names) - 1)
            as_int(owned_row, "owned level", -1, len(names.names) - 1)
            as_int(index, "cell", 0, 2**31 - 1)
            as_int(virtual_index, "virtual cell", 0, 2**31 - 1)
            if live:
                handle = generation << 32 | slot
                cell = (handle, index, owned_row, virtual_index)
                described[handle] = (tenants[tenant], chain_names[chain], names, row, cell)
        if sorted(state["order"]) != sorted(described):
            raise CorruptStateError("data: the allocations and their order do not match")
        if not clusters._kernel.restore(state["slots"], state["free_slots"]):
            raise CorruptStateError("data: the allocations contradict each other")
        for name, bad in zip(chain_names, state["bad_leaves"], strict=True):
            for leaves in as_ranges(bad):
                clusters.set_health(name, leaves, False)
        for handle in state["order"]:
            tenant_name, chain_name, names, row, cell = described[handle]
            clusters._hand_out(tenant_name, chain_name, names, row, [cell], [])
        return clusters

    def check(self) -> None:
        """Audit every invariant, among them S >= 0 on every level of every chain.

        :raises InvariantError: one is broken. Cost: O(cells).
        """
        with self._lock:
            self._kernel.check()
            if sorted(self._kernel.handles()) != sorted(self._live):
                raise InvariantError("the cells handed out are not those that are allocated")

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._kernel.__sizeof__()

    # --- names and numbers

    def _request(
        self, virtual_cluster: str, chain: str, level: str, count: int
    ) -> tuple[int, _ChainNames, int, int]:
        try:
            names = self._chains[chain]
            row = names.levels[level]
            tenant = self._tenants[virtual_cluster]
        except (KeyError, TypeError):
            self._level(chain, level)
            self._lookup("virtual_cluster", virtual_cluster, self._tenants)
            raise
        if type(count) is not int or not 1 <= count <= 2**31:
            count = as_int(count, "count", 1, 2**31)
        return tenant, names, row, count

    @staticmethod
    def _lookup(argument: str, name: Any, known: dict[str, Any]) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be a string, not {type(name).__name__}")
        if name not in known:
            raise KeyError(f"{argument}={name!r}: known are {list(known)}")
        return known[name]

    def _chain(self, chain: str) -> _ChainNames:
        names: _ChainNames = self._lookup("chain", chain, self._chains)
        return names

    def _level(self, chain: str, level: str) -> int:
        row: int = self._lookup("level", level, self._chain(chain).levels)
        return row

    def _leaves(self, chain: str, cells: Any) -> range:
        names = self._chain(chain)
        total = self._spec.chains[chain].leaves
        if isinstance(cells, range):
            if cells.step != 1 or not 0 <= cells.start < cells.stop <= total:
                raise ValueError(f"cells={cells}: not a range of leaves 0 to {total - 1}, step 1")
            return cells
        if isinstance(cells, tuple) and len(cells) == 2:
            per_cell = names.leaves[self._level(chain, cells[0])]
            index = as_int(cells[1], "cells[1]", 0, total // per_cell - 1)
            return range(index * per_cell, (index + 1) * per_cell)
        raise TypeError(f"cells must be a range of leaves or (level, index), not {cells!r}")

    def _hand_out(
        self,
        virtual_cluster: str,
        chain: str,
        names: _ChainNames,
        row: int,
        served: list[tuple[int, int, int, int]],
        victims: list[tuple[int, int]],
    ) -> tuple[Cell, ...]:
        """The cells that the kernel has just allocated, entered in the books.

        Interrupted, it gives them back, for nobody has got them.
        """
        try:
            preempted: dict[int, list[Cell]] = {}
            for handle, position in victims:
                gone = self._live.pop(handle, None)
                if gone is not None:  # it may be of a call that this one interrupted
                    preempted.setdefault(position, []).append(gone)
            leaves, level = names.leaves[row], names.names[row]
            cells = []
            for position, (handle, index, owned_row, virtual_index) in enumerate(served):
                cell = Cell(
                    handle,
                    virtual_cluster,
                    chain,
                    level,
                    index,
                    owned_row < 0,
                    range(index * leaves, (index + 1) * leaves),
                    None if owned_row < 0 else names.names[owned_row],
                    virtual_index,
                    tuple(preempted[position]) if position in preempted else (),
                )
                self._live[handle] = cell
                cells.append(cell)
            return tuple(cells)
        except BaseException:
            for handle, _ in victims:
                self._live.pop(handle, None)
            self._take_back([handle for handle, *_ in served])
            raise

    def _take_back(self, handles: list[int]) -> None:
        try:
            position = self._kernel.release_many(handles)
        finally:
            for handle in handles:
                self._live.pop(handle, None)
        if position >= 0:
            raise InvariantError(f"cell {handles[position]} was handed out, but not allocated")

    def _handle_of(self, cell: Cell) -> int:
        if not isinstance(cell, Cell):
            raise TypeError(f"cell must be a Cell, not {type(cell).__name__}")
        live = self._live.get(cell.id)
        if live is None or (live is not cell and live != cell):
            raise NotAllocatedError(f"{cell} is not allocated here")
        return live.id

    def _refusal(
        self, within_quota: bool, virtual_cluster: str, chain: str, level: str, count: int
    ) -> Exception:
        wanted = f"{count} of level {level!r} in chain {chain!r}"
        if within_quota:
            return NoHealthyCellError(
                f"{virtual_cluster!r} asks for {wanted}: the healthy hardware that could back "
                "them is in use or owed to others"
            )
        return QuotaExceededError(f"{virtual_cluster!r} owns too few free cells for {wanted}")
