"""HiveD's affinity-group scheduler (OSDI'20, sections 3 to 5), on numbers instead of names.

A group is a gang: all of its pods get leaves at once, or none does. `State` has what groups hold,
`Planner` turns a request into a plan without side effects, and this class carries plans out:

    schedule -> bind     commit                                   the group runs until release
             -> preempt  reserve, the victims leave, confirm      the same
                         reserve, cancel                          the victims stay after all
             -> wait

A mutator works on a copy of the state and installs it at the end, so that a failure changes
nothing. A plan may be carried out later; it is stale if something that it needs has changed. Freed
cells go to groups that run without their guarantee (`promote`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError, StaleDecisionError
from hivecore.reference.cells.audit import audit
from hivecore.reference.cells.cells import Group, Plan, VirtualCell, VirtualLeaf
from hivecore.reference.cells.doomed import doomed
from hivecore.reference.cells.leaf_choice import OPPORTUNISTIC
from hivecore.reference.cells.planning import Planner
from hivecore.reference.cells.recovery import admitted, promote
from hivecore.reference.cells.requests import Request, pools_of, request_of
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Chooser

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
    """A virtual node, or an owned cell below node level."""

    pool: int
    cell: int
    leaves: int
    available: int
    used: int
    node: int
    """-1 if unbound"""


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
        """Plan a request; for the arguments see `request_of`."""
        return Planner(self._state, request_of(self._state, *arguments, **options)).plan()

    def units(self, vc: int, chain: int, pool: int) -> list[UnitState]:
        """Return the units that opportunistic requests of a tenant may use in a chain."""
        request = Request(vc, chain, pools_of(self._state, vc, chain, pool), 0, ())
        units = Chooser(self._state, request, OPPORTUNISTIC).all_units()
        nodes = ((unit, -1 if unit.node is None else unit.node) for unit in units)
        return [UnitState(u.pool, u.number, u.leaves, u.available, u.used, at) for u, at in nodes]

    def available(self, vc: int, chain: int, pool: int) -> int:
        """Return the number of available leaves in these units."""
        return sum(unit.available for unit in self.units(vc, chain, pool))

    # Carrying out

    def commit(self, plan: Plan, lazy: bool) -> int:
        """Start the planned group; its victims must have left."""
        if plan.outcome == "wait":
            raise ValueError("plan.outcome must not be wait")
        return self._carry_out(plan, lazy, preempting=False)

    def reserve(self, plan: Plan, lazy: bool) -> int:
        """Reserve the planned leaves, whose users must leave."""
        if plan.outcome != "preempt":
            raise ValueError("plan.outcome must be preempt")
        return self._carry_out(plan, lazy, preempting=True)

    def _carry_out(self, plan: Plan, lazy: bool, preempting: bool) -> int:
        after = self.copy()
        state = after._state
        for handle, stamp in zip(plan.downgrades + plan.cancels, plan.stamps, strict=True):
            if handle not in state.groups or state.groups[handle].sequence != stamp:
                raise StaleDecisionError(f"group {handle} is not what it was")
        if any(state.groups[handle].virtual is None for handle in plan.downgrades):
            raise StaleDecisionError("a group is downgraded already")
        group = Group(plan.vc, plan.priority, bool(lazy), preempting, plan.pods, plan.virtual)
        reservers = {state.reserver[leaf] for leaf in group.leaves if leaf in state.reserver}
        if reservers != set(plan.cancels):
            raise StaleDecisionError("other groups reserve the leaves now")
        for handle in plan.cancels:
            state.withdraw(handle)
            after._free_slots.append(handle)
        for handle in plan.downgrades:
            state.downgrade(handle)
        obstacle = _obstacle(state, group)
        if obstacle or not state.bad.isdisjoint(group.leaves):
            raise StaleDecisionError(obstacle or "leaves are bad now")
        handle = after._enter(group)
        if plan.cancels or plan.downgrades:
            promote(state)
        self.__dict__ = after.__dict__
        return handle

    def _enter(self, group: Group) -> int:
        """Book all leaves of a new group, even over groups that hold them; return its handle."""
        state = self._state
        handle = self._free_slots.pop() if self._free_slots else self._slots
        self._slots = max(self._slots, handle + 1)
        state.groups[handle] = replace(group, sequence=self._next_sequence)
        self._next_sequence += 1
        for leaf in group.leaves:
            (state.reserver if group.preempting else state.user)[leaf] = handle
            if leaf in state.pair:
                state.unbook(leaf)
        if not state.book_all(group.pairs):
            raise StaleDecisionError("leaves cannot be bound as planned now")
        return handle

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
        """Start a preempting group whose victims have left; its leaves must be healthy."""
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
        """Cancel a preempting group; its reserved leaves return to their users."""
        self._preempting(handle)
        self._state.withdraw(handle)
        self._free_slots.append(handle)
        promote(self._state)

    def release(self, handle: int) -> None:
        """Remove a group that has ended."""
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
        """Restore a running group: (handle, is downgraded, groups downgraded for it)."""
        held = [x for pod in pods for x in pod if self._state.holder(x) is not None]
        if held:
            raise ValueError(f"pods: leaf {held[0]} is used or reserved")
        after, wanted = self.copy(), None if priority < 0 else _known(pools)
        group = Group(vc, priority, bool(lazy), False, _lists(pods), None, pools=wanted)
        handle, displaced = after._enter(group), list[int]()
        if not displace:
            promote(after._state)
        elif wanted is not None:
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
        """Restore a group that `group` returned, after all groups with lower sequence numbers."""
        state, after = self._state, self.copy()
        if pools is None and virtual is None and priority >= 0 and not any(pods):
            pools = [[] for _ in pods]  # nothing is unknown
        held = None if virtual is None else [[(p, v) for p, v in pod] for pod in virtual]
        group = Group(vc, priority, bool(lazy), bool(preempting), _lists(pods), held)
        for leaf, (pool, _) in group.pairs:
            if state.forest_of(leaf).chain != state.pools[pool].chain:
                raise ValueError(f"virtual: leaf {leaf} is in another chain than its virtual leaf")
        if obstacle := _obstacle(state, group):
            raise ValueError(f"pods: {obstacle}")
        try:
            handle = after._enter(replace(group, pools=_known(pools)))
        except StaleDecisionError as error:
            raise ValueError(f"virtual: {error}") from None
        self.__dict__ = after.__dict__
        return handle

    def set_health(self, first: int, end: int, healthy: bool) -> None:
        """Mark the leaves from ``first`` to ``end`` - 1; groups keep theirs."""
        if healthy:
            self._state.bad.difference_update(range(first, end))
        else:
            self._state.bad.update(range(first, end))

    # Looking

    def victims(self, handle: int) -> list[int]:
        """Return the groups that still use a group's leaves, by sequence."""
        users = {self._state.user.get(leaf, handle) for leaf in self._live(handle).leaves}
        return self._state.by_sequence(users - {handle})

    def wanted_pools(self, handle: int) -> list[list[int]] | None:
        """Return a downgraded group's pools per pod and leaf; None for other groups."""
        group = self._live(handle)
        if group.virtual is not None or group.pools is None:
            return None
        return [list(pod) for pod in group.pools]

    def placement_good(self, handle: int, suggested: Sequence[Sequence[int] | None] | None) -> bool:
        """Whether all leaves are healthy and on suggested nodes (by chain; None: any node)."""

        def is_good(leaf: int) -> bool:
            forest = self._state.forest_of(leaf)
            nodes = None if suggested is None else suggested[forest.chain]
            is_named = nodes is None or forest.above(leaf, forest.node_level) in nodes
            return is_named and leaf not in self._state.bad

        return all(map(is_good, self._live(handle).leaves))

    def group(self, handle: int) -> GroupState:
        """Return a live group."""
        group, virtual = self._live(handle), self._live(handle).virtual
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
        """Return all live groups by sequence."""
        return self._state.by_sequence(set(self._state.groups))

    def surplus(self, chain: int) -> list[int]:
        """Return S of every level."""
        return self._state.surplus(chain)

    def free_cells(self, chain: int, level: int) -> npt.NDArray[np.int64]:
        """Return the free list of a level, ascending."""
        return _array(self._state.listed(chain, level))

    def unbound_roots(self, pool: int) -> int:
        """Return the number of a pool's cells that no group uses."""
        return len(self._state.unbound_roots(pool))

    def bindings(self, pool: int, level: int) -> npt.NDArray[np.int64]:
        """Return the physical cell of each virtual cell of a level; -1 if unbound."""
        owner = self._state.pools[pool]
        widths = self._state.forests[owner.chain].widths
        cells = range(owner.count * widths[owner.level] // widths[level])
        bound = self._state.bound
        return _array([bound.get(VirtualCell(pool, level, cell), -1) for cell in cells])

    def leaf_users(self, chain: int) -> npt.NDArray[np.int64]:
        """Return the group that runs on each leaf of a chain, or -1."""
        return _array([self._state.user.get(leaf, -1) for leaf in self._leaves(chain)])

    def leaf_reservers(self, chain: int) -> npt.NDArray[np.int64]:
        """Return the group that preempts on each leaf of a chain, or -1."""
        return _array([self._state.reserver.get(leaf, -1) for leaf in self._leaves(chain)])

    def idle_leaves(self, chain: int) -> npt.NDArray[np.int32]:
        """Return the number of healthy leaves of each node that no group uses or has reserved."""
        forest, state = self._state.forests[chain], self._state
        idle = [0 for _ in forest.cells(forest.node_level)]
        for leaf in self._leaves(chain):
            node = forest.above(leaf, forest.node_level)
            idle[node] += state.holder(leaf) is None and leaf not in state.bad
        return np.array(idle, np.int32)

    def bad_leaves(self, chain: int) -> npt.NDArray[np.int64]:
        """Return the bad leaves of a chain (numbered over all chains), ascending."""
        return _array([leaf for leaf in self._leaves(chain) if leaf in self._state.bad])

    def doomed(self, chain: int) -> list[tuple[int, int, int]]:
        """Return (level, tenant, count) of owned cells without healthy hardware."""
        return doomed(self._state, chain)

    def _leaves(self, chain: int) -> range:
        forest = self._state.forests[chain]
        return range(forest.first_leaf, forest.end_leaf)

    # The whole

    def copy(self) -> "GroupScheduler":
        """Return an independent copy."""
        other = GroupScheduler.__new__(GroupScheduler)
        other.__dict__.update(self.__dict__)
        other._state = self._state.copy()
        other._free_slots = self._free_slots.copy()
        return other

    def check(self) -> None:
        """Raise `InvariantError` if an invariant does not hold."""
        audit(self._state)
        slots = sorted([*self._state.groups, *self._free_slots])
        if slots != list(range(self._slots)):
            raise InvariantError(f"handles {slots} are not those up to {self._slots}")


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def _lists(pods: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(pod) for pod in pods]


def _known(pools: Sequence[Sequence[int]] | None) -> list[list[int]] | None:
    """Return the pools of all leaves, or nothing if some are unknown."""
    if pools is None or any(pool < 0 for pod in pools for pool in pod):
        return None
    return _lists(pools)


def _obstacle(state: State, group: Group) -> str | None:
    """Return why a new group cannot have its leaves.

    A preempting group takes them from their users. Guaranteed users have a lower priority and hold
    them through the same virtual leaves.
    """
    pairs = dict(group.pairs)
    for leaf in group.leaves:
        user = state.user.get(leaf)
        if leaf in state.reserver or (user is not None and not group.preempting):
            return f"leaf {leaf} is used or reserved"
        if leaf in state.pair and user is not None:
            lower = state.groups[user].priority < group.priority
            if not lower or state.pair[leaf] != pairs[leaf]:
                return f"leaf {leaf} is held by another group"
    return None
