"""The integer core of HiveD's affinity-group scheduler (OSDI'20, sections 3 to 5), for reading.

What is held is in `State`; `Planner` turns a request into a plan without changing anything; this
class carries plans out. A mutator works on a copy of the state and puts it in place at the end, so
that a failure leaves everything as it was.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError, StaleDecisionError
from hivecore.reference.cells.audit import audit
from hivecore.reference.cells.cells import (
    PREEMPT,
    WAIT,
    Forest,
    Group,
    Plan,
    VirtualCell,
    VirtualLeaf,
)
from hivecore.reference.cells.doomed import doomed
from hivecore.reference.cells.leaf_choice import OPPORTUNISTIC
from hivecore.reference.cells.planning import Planner
from hivecore.reference.cells.recovery import admitted, promote
from hivecore.reference.cells.requests import pools_of, request_of
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Chooser, Request

__all__ = ["GroupScheduler", "GroupState", "UnitState"]


class GroupState(NamedTuple):
    """A live group."""

    vc: int
    priority: int
    lazy: bool
    preempting: bool
    pods: list[list[int]]
    virtual: list[list[VirtualLeaf]] | None
    being_preempted: bool


class UnitState(NamedTuple):
    """A virtual node, or a whole owned cell below node level."""

    pool: int
    cell: int
    leaves: int
    available: int
    used: int
    node: int
    """-1: not bound."""


class GroupScheduler:
    """Gangs on virtual and physical cells; the readable twin of the kernel of the same name.

    A chain is (fan-outs from the leaf up, roots, node level), a pool (tenant, chain, level, count)
    and a pin (tenant, chain, level, cell). Pools are numbered as given, pins after them.

    >>> scheduler = GroupScheduler([([4, 2], 2, 1)], 1, [(0, 0, 1, 2)], [])  # 4 nodes, 2 owned
    >>> plan = scheduler.schedule(0, 0, -1, 0, [1, 4], None, -1, False, False, None, None)
    >>> plan.pods, plan.virtual[0]
    ([[0], [4, 5, 6, 7]], [(0, 0)])
    >>> group = scheduler.commit(plan, False)
    >>> scheduler.free_cells(0, 2), scheduler.surplus(0)
    (array([1]), [8, 2, 1])
    """

    def __init__(
        self,
        chains: Sequence[tuple[Sequence[int], int, int]],
        tenants: int,
        pools: Sequence[tuple[int, int, int, int]],
        pins: Sequence[tuple[int, int, int, int]],
    ) -> None:
        self._state = State.new(chains, pools, pins)
        self._free_slots: list[int] = []  # the last one is used next
        self._slots = 0
        self._next_sequence = 0

    # Planning

    def schedule(self, *arguments: Any, **options: Any) -> Plan:
        """What to do about a request, which `request_of` makes of these arguments."""
        return Planner(self._state, request_of(self._state, *arguments, **options)).plan()

    def units(self, vc: int, chain: int, pool: int) -> list[UnitState]:
        """The units that a request may use."""
        request = Request(vc, chain, pools_of(self._state, vc, chain, pool), 0, ())
        forest = self._state.forests[chain]
        return [
            UnitState(
                unit.pool,
                unit.number,
                unit.leaves,
                unit.available,
                unit.used,
                -1
                if unit.cell is None
                else unit.cell // forest.many(forest.node_level, unit.level),
            )
            for unit in Chooser(self._state, request, OPPORTUNISTIC).all_units()
        ]

    def available(self, vc: int, chain: int, pool: int) -> int:
        """How many leaves these units have available together."""
        return sum(unit.available for unit in self.units(vc, chain, pool))

    # Carrying out

    def commit(self, plan: Plan, lazy: bool) -> int:
        """Let the planned group run; nobody may be on its leaves any more."""
        if plan.outcome == WAIT:
            raise ValueError("plan.outcome must not be wait")
        return self._carry_out(plan, lazy, preempting=False)

    def reserve(self, plan: Plan, lazy: bool) -> int:
        """Take the planned leaves from under their users, who are to leave."""
        if plan.outcome != PREEMPT:
            raise ValueError("plan.outcome must be preempt")
        return self._carry_out(plan, lazy, preempting=True)

    def _carry_out(self, plan: Plan, lazy: bool, preempting: bool) -> int:
        after = self.copy()
        state = after._state
        leaves = [leaf for pod in plan.pods for leaf in pod]
        named = plan.downgrades + plan.cancels
        for handle, stamp in zip(named, plan.stamps, strict=True):
            if handle not in state.groups or state.groups[handle].sequence != stamp:
                raise StaleDecisionError(f"group {handle} is not what it was")
        for handle in plan.downgrades:
            if state.groups[handle].virtual is None:
                raise StaleDecisionError(f"group {handle} is downgraded already")
        reservers = {state.reserver[leaf] for leaf in leaves if leaf in state.reserver}
        if reservers != set(plan.cancels):
            raise StaleDecisionError("other groups reserve the leaves now")
        for handle in plan.cancels:
            state.withdraw(handle)
            after._free_slots.append(handle)
        for handle in plan.downgrades:
            state.downgrade(handle)
        sequence = after._next_sequence
        group = Group(
            plan.vc, plan.priority, bool(lazy), preempting, plan.pods, plan.virtual, sequence
        )
        pairs = dict(group.pairs)
        for leaf in leaves:
            user = state.user.get(leaf)
            if leaf in state.bad or (user is not None and not preempting):
                raise StaleDecisionError(f"leaf {leaf} is bad or used now")
            if user is not None and leaf in state.pair:
                lower = state.groups[user].priority < plan.priority
                if not lower or state.pair[leaf] != pairs[leaf]:
                    raise StaleDecisionError(f"leaf {leaf} is used by another group now")
        after._enter(group)
        if plan.cancels or plan.downgrades:
            promote(state)
        self.__dict__ = after.__dict__
        return self._handle_of(sequence)

    def _enter(self, group: Group) -> None:
        """Book all leaves of a new group, over whoever holds them."""
        state = self._state
        handle = self._free_slots.pop() if self._free_slots else self._slots
        self._slots = max(self._slots, handle + 1)
        self._next_sequence += 1
        state.groups[handle] = group
        for leaf in group.leaves:
            (state.reserver if group.preempting else state.user)[leaf] = handle
            if leaf in state.pair:
                state.unbook(leaf)
        for leaf, virtual in group.pairs:
            if not state.book(leaf, virtual):
                raise StaleDecisionError(f"leaf {leaf} cannot be bound as planned now")

    def _handle_of(self, sequence: int) -> int:
        groups = self._state.groups
        return next(handle for handle in groups if groups[handle].sequence == sequence)

    def _live(self, handle: int) -> Group:
        if handle not in self._state.groups:
            raise ValueError(f"handle must be that of a live group: {handle}")
        return self._state.groups[handle]

    def _preempting(self, handle: int) -> Group:
        group = self._live(handle)
        if not group.preempting:
            raise ValueError(f"handle must be that of a preempting group: {handle}")
        return group

    def confirm(self, handle: int) -> None:
        """A preempting group whose victims have all left runs now; its leaves must be healthy."""
        group, state = self._preempting(handle), self._state
        if self.victims(handle) or not state.bad.isdisjoint(group.leaves):
            raise ValueError(
                f"handle must be that of a group without victims and bad leaves: {handle}"
            )
        for leaf in group.leaves:
            del state.reserver[leaf]
            state.user[leaf] = handle
        state.groups[handle] = replace(group, preempting=False)

    def cancel(self, handle: int) -> None:
        """A preempting group gives up; what it reserved goes back to the users."""
        self._preempting(handle)
        self._state.withdraw(handle)
        self._free_slots.append(handle)
        promote(self._state)

    def release(self, handle: int) -> None:
        """A group has ended."""
        self._live(handle)
        self._state.remove(handle)
        self._free_slots.append(handle)
        promote(self._state)

    def recover(
        self,
        vc: int,
        priority: int,
        lazy: bool,
        pods: Sequence[Sequence[int]],
        pools: Sequence[Sequence[int]],
        displace: bool = True,
    ) -> tuple[int, bool, list[int]]:
        """Put back a group that runs: (handle, whether it is downgraded, who was for it)."""
        for leaf in (leaf for pod in pods for leaf in pod):
            if self._state.holder(leaf) is not None:
                raise ValueError(f"pods: leaf {leaf} is used or reserved")
        after = self.copy()
        group = Group(
            vc,
            priority,
            bool(lazy),
            False,
            [list(pod) for pod in pods],
            None,
            after._next_sequence,
            None if priority < 0 else _known(pools),
        )
        after._enter(group)
        handle = after._handle_of(group.sequence)
        displaced: list[int] = []
        if not displace:
            promote(after._state)
        elif group.pools is not None:
            after._state, displaced = admitted(after._state, handle)
        self.__dict__ = after.__dict__
        return handle, priority >= 0 and self._state.groups[handle].virtual is None, displaced

    def restore(
        self,
        vc: int,
        priority: int,
        lazy: bool,
        preempting: bool,
        pods: Sequence[Sequence[int]],
        virtual: Sequence[Sequence[VirtualLeaf]] | None,
        pools: Sequence[Sequence[int]] | None = None,
    ) -> int:
        """Put back a group as it was told, after all groups with lower sequence numbers."""
        state = self._state
        if pools is None and virtual is None and priority >= 0 and not any(pods):
            pools = [[] for _ in pods]  # nothing is unknown
        after = self.copy()
        group = Group(
            vc,
            priority,
            bool(lazy),
            bool(preempting),
            [list(pod) for pod in pods],
            None if virtual is None else [[(p, v) for p, v in pod] for pod in virtual],
            after._next_sequence,
            _known(pools),
        )
        for leaf, held in group.pairs:
            if state.forest_of(leaf).chain != state.pools[held[0]].chain:
                raise ValueError(f"virtual: leaf {leaf} is in another chain than {held}")
        for leaf in group.leaves:
            user = state.user.get(leaf)
            if leaf in state.reserver or (user is not None and not preempting):
                raise ValueError(f"pods: leaf {leaf} is used or reserved")
            if leaf in state.pair:
                lower = user is not None and state.groups[user].priority < priority
                if not lower or state.pair[leaf] != dict(group.pairs)[leaf]:
                    raise ValueError(f"virtual: leaf {leaf} is held by another virtual leaf")
        try:
            after._enter(group)
        except StaleDecisionError as error:
            raise ValueError(f"virtual: {error}") from None
        self.__dict__ = after.__dict__
        return self._handle_of(group.sequence)

    def set_health(self, first: int, end: int, healthy: bool) -> None:
        """Mark the leaves from ``first`` up to ``end``; whoever holds them keeps them."""
        if healthy:
            self._state.bad.difference_update(range(first, end))
        else:
            self._state.bad.update(range(first, end))

    # Looking

    def victims(self, handle: int) -> list[int]:
        """The other groups that still use a group's leaves, by sequence."""
        users = {self._state.user.get(leaf, handle) for leaf in self._live(handle).leaves}
        return self._state.by_sequence(users - {handle})

    def wanted_pools(self, handle: int) -> list[list[int]] | None:
        """Per pod and leaf the pool that a downgraded group is to be in; None: it is not one."""
        group = self._live(handle)
        if group.virtual is not None or group.pools is None:
            return None
        return [list(pod) for pod in group.pools]

    def placement_good(self, handle: int, suggested: Sequence[Sequence[int] | None] | None) -> bool:
        """Whether all leaves are healthy and on suggested nodes (per chain; None: all of them)."""
        state = self._state
        group = self._live(handle)
        for leaf in group.leaves:
            forest = state.forest_of(leaf)
            nodes = None if suggested is None else suggested[forest.chain]
            bad = leaf in state.bad
            if bad or (nodes is not None and forest.above(leaf, forest.node_level) not in nodes):
                return False
        return True

    def group(self, handle: int) -> GroupState:
        """A live group."""
        group = self._live(handle)
        virtual = group.virtual
        reserved = any(leaf in self._state.reserver for leaf in group.leaves)
        return GroupState(
            group.vc,
            group.priority,
            group.lazy,
            group.preempting,
            [list(pod) for pod in group.pods],
            None if virtual is None else [list(pod) for pod in virtual],
            reserved and not group.preempting,
        )

    def handles(self) -> list[int]:
        """All live groups by sequence."""
        return self._state.by_sequence(set(self._state.groups))

    def surplus(self, chain: int) -> list[int]:
        """S of every level."""
        return self._state.surplus(self._forest(chain).chain)

    def free_cells(self, chain: int, level: int) -> npt.NDArray[np.int64]:
        """The canonical free list of a level, ascending."""
        return _array(self._state.listed(chain, level))

    def unbound_roots(self, pool: int) -> int:
        """How many whole cells of a pool nothing is in."""
        return len(self._state.unbound_roots(pool))

    def bindings(self, pool: int, level: int) -> npt.NDArray[np.int64]:
        """Per virtual cell of a level: the physical cell, -1 if it is not bound."""
        owner = self._state.pools[pool]
        widths = self._state.forests[owner.chain].widths
        cells = range(owner.count * widths[owner.level] // widths[level])
        bound = self._state.bound
        return _array([bound.get(VirtualCell(pool, level, cell), -1) for cell in cells])

    def leaf_users(self, chain: int) -> npt.NDArray[np.int64]:
        """Per leaf of a chain: the group that runs there, or -1."""
        forest = self._forest(chain)
        leaves = range(forest.first_leaf, forest.end_leaf)
        return _array([self._state.user.get(leaf, -1) for leaf in leaves])

    def leaf_reservers(self, chain: int) -> npt.NDArray[np.int64]:
        """Per leaf of a chain: the group that preempts there, or -1."""
        forest = self._forest(chain)
        leaves = range(forest.first_leaf, forest.end_leaf)
        return _array([self._state.reserver.get(leaf, -1) for leaf in leaves])

    def idle_leaves(self, chain: int) -> npt.NDArray[np.int32]:
        """Per node of a chain: the healthy leaves that nobody uses or has reserved."""
        forest, state = self._forest(chain), self._state
        width = forest.widths[forest.node_level]
        nodes = range(forest.first_leaf, forest.end_leaf, width)
        idle = [
            sum(state.holder(x) is None and x not in state.bad for x in range(node, node + width))
            for node in nodes
        ]
        return np.array(idle, np.int32)

    def bad_leaves(self, chain: int) -> npt.NDArray[np.int64]:
        """The bad leaves of a chain (numbered over all chains), ascending."""
        forest = self._forest(chain)
        leaves = range(forest.first_leaf, forest.end_leaf)
        return _array([leaf for leaf in leaves if leaf in self._state.bad])

    def doomed(self, chain: int) -> list[tuple[int, int, int]]:
        """(level, tenant, count): owned cells for which no healthy hardware is left."""
        return doomed(self._state, self._forest(chain).chain)

    def _forest(self, chain: int) -> Forest:
        return self._state.forests[chain]

    # The whole

    def copy(self) -> "GroupScheduler":
        """An independent scheduler in the same state."""
        other = GroupScheduler.__new__(GroupScheduler)
        other.__dict__.update(self.__dict__)
        other._state = self._state.copy()
        other._free_slots = self._free_slots.copy()
        return other

    def check(self) -> None:
        """Raise `InvariantError` if anything that must hold does not."""
        audit(self._state)
        slots = sorted([*self._state.groups, *self._free_slots])
        if slots != list(range(self._slots)):
            raise InvariantError(f"handles {slots} are not those up to {self._slots}")


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def _known(pools: Sequence[Sequence[int]] | None) -> list[list[int]] | None:
    """The pools of all leaves, or nothing if some are unknown."""
    if pools is None or any(pool < 0 for pod in pools for pool in pod):
        return None
    return [list(pod) for pod in pools]
