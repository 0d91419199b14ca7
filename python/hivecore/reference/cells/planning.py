"""Plans a request, and what it does to other groups (HiveD, OSDI'20, section 3).

An opportunistic group gets idle leaves or waits. A guaranteed group is tried twice. Attempt 1 takes
nothing from guaranteed groups: only opportunistic work leaves the bound cells (*inter-VC
preemption*). Attempt 2 also preempts groups of lower priority in the same virtual cells (*intra-VC
preemption*). Lazy groups are downgraded first: they lose their virtual leaves, keep running
opportunistically, and are evicted only if the new group is mapped to their leaves anyway (*lazy
preemption*). A plan is made on a copy of the state in which the new group reserves its leaves, so
that nothing needs to be undone.

**What is fixed and what is free.** The first choice that can be mapped is taken if no other group
loses anything; a single pod whose first choice evicts others takes the first choice on idle leaves
only. These moves, and when and why a group waits, follow from the paper and the tie-breaking in the
docstring of `CellCluster`, and `Plan.is_fixed` is set. Otherwise several answers are right, and an
implementation may find a better one than the twin:

- which groups must leave, if any, and where the new one then goes;
- how a gang is placed among bad, excluded or partly occupied cells when none of its first choices
  can be mapped;
- how siblings below node level are merged for a pod that is too big for each;
- where unequal pods go that are confined below their domain, or limited in number per node.
"""

from collections import Counter
from typing import NamedTuple

from hivecore.reference.cells.cell_mapping import CellMapping, Placed
from hivecore.reference.cells.cells import Group, Plan, Reason
from hivecore.reference.cells.leaf_choice import (
    GUARANTEED,
    IDLE,
    OPPORTUNISTIC,
    Demand,
    choose_leaves,
)
from hivecore.reference.cells.packing import Choice, Unit
from hivecore.reference.cells.requests import ALONE, Request, class_of_leaves, is_lower
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Chooser

__all__ = ["Planner"]

_NEW = -1  # the handle of the planned group


class _Way(NamedTuple):
    """The places of all pods, and the groups that this downgrades."""

    placed: Placed
    downgrades: list[int]

    @property
    def leaves(self) -> list[int]:
        return [leaf for pod in self.placed.values() for leaf, _ in pod]


class Planner:
    """Plans a request in a state that it does not change."""

    def __init__(self, state: State, request: Request) -> None:
        self.state, self.request = state, request
        self.failures = 0  # choices that could not be mapped

    def plan(self) -> Plan:
        """Return the plan."""
        request = self.request
        preempts = False
        if request.priority < 0:
            way = self._first(IDLE)
        else:
            way = self._gentler(self._first(OPPORTUNISTIC))
            if preempts := way is None:
                way = self._first(GUARANTEED)
        is_free = request.is_mixed and request.is_constrained
        if way is not None:
            return self._as_plan(way, is_free or preempts or bool(self._victims(way)))
        one_by_one = request.is_single or request.units is not None
        is_free |= self._may_merge() or (self.failures > 0 and not one_by_one)
        return Plan("wait", self._reason(), request.vc, request.priority, is_fixed=not is_free)

    def _first(self, reach: int) -> _Way | None:
        """Return the first choice that can be mapped."""
        chooser = Chooser(self.state, self.request, reach)
        for choice in chooser.choices():
            way = self._mapped(chooser, choice)
            if way is None:
                self.failures += 1
            else:
                return way
        return None

    def _gentler(self, way: _Way | None) -> _Way | None:
        """Return the choice, or another for a single pod that spares other groups."""
        request = self.request
        if way is None or not self._victims(way) or not request.is_single:
            return way
        if request.evictions == ALONE:
            return way
        return self._first(IDLE) or way

    # From a choice to leaves

    def _mapped(self, chooser: Chooser, choice: Choice) -> _Way | None:
        request, downgrades = self.request, self._downgraded(chooser, choice)
        if request.priority < 0:
            return _Way(self._in_nodes(chooser, choice), [])
        trial = self.state.copy()
        trial.groups[_NEW] = Group(request.vc, request.priority, False, True, [], [])
        for handle in downgrades:
            trial.downgrade(handle)
        leaf_class = class_of_leaves(trial, request, chooser.reach)
        placed = CellMapping(trial, request, leaf_class, _NEW).map(choice)
        if placed is None or self._has_too_many(placed):
            return None
        return _Way(placed, downgrades)

    def _in_nodes(self, chooser: Chooser, choice: Choice) -> Placed:
        """Place opportunistic pods, whose units are nodes."""
        placed: Placed = {}
        for unit, demands in choice.items():
            chosen = self._leaves_in(chooser, unit, demands)
            for demand, leaves in zip(demands, chosen, strict=True):
                placed[demand.position] = [(leaf, (-1, -1)) for leaf in leaves]
        return placed

    def _leaves_in(self, chooser: Chooser, unit: Unit, demands: list[Demand]) -> list[list[int]]:
        assert unit.cell is not None
        forest, within = chooser.forest, self.request.group_within
        chosen = choose_leaves(forest, unit.level, unit.cell, demands, within, chooser.leaf_class)
        assert chosen is not None, "a unit takes only what fits into it"
        return chosen

    def _downgraded(self, chooser: Chooser, choice: Choice) -> list[int]:
        """Return the lazy groups that the choice would preempt where it is bound."""
        lazy, groups = set[int](), self.state.groups
        for unit, demands in choice.items():
            if chooser.reach < GUARANTEED or unit.cell is None:
                continue
            for leaf in (x for pod in self._leaves_in(chooser, unit, demands) for x in pod):
                holder = self.state.holder(leaf)
                if holder is not None and chooser.leaf_class(leaf) == GUARANTEED:
                    lazy.add(holder)
        return [
            h for h in self.state.by_sequence(lazy) if groups[h].lazy and not groups[h].preempting
        ]

    def _has_too_many(self, placed: Placed) -> bool:
        """Whether a node has more pods than allowed."""
        forest, most = self.state.forests[self.request.chain], self.request.most
        nodes = Counter(forest.above(pod[0][0], forest.node_level) for pod in placed.values())
        return most is not None and any(pods > most[node] for node, pods in nodes.items())

    # Answers

    def _victims(self, way: _Way) -> list[int]:
        user = self.state.user
        return self.state.by_sequence({user[leaf] for leaf in way.leaves if leaf in user})

    def _as_plan(self, way: _Way, is_free: bool) -> Plan:
        state, request = self.state, self.request
        pods, victims = [way.placed[n] for n in range(len(way.placed))], self._victims(way)
        cancels = state.by_sequence(
            {state.reserver[leaf] for leaf in way.leaves if leaf in state.reserver}
        )
        stamps = tuple(state.groups[handle].sequence for handle in way.downgrades + cancels)
        return Plan(
            "preempt" if victims else "bind",
            "",
            request.vc,
            request.priority,
            [[leaf for leaf, _ in pod] for pod in pods],
            [[virtual for _, virtual in pod] for pod in pods] if request.priority >= 0 else None,
            victims,
            cancels,
            way.downgrades,
            stamps,
            is_fixed=not is_free,
        )

    def _reason(self) -> Reason:
        request, state = self.request, self.state
        if self.failures:
            return "mapping"
        if request.units is not None:
            return "policy"
        pairs = state.pair.items()
        mine = [leaf for leaf, (pool, _) in pairs if pool in request.pools]
        reach = IDLE if request.priority < 0 else OPPORTUNISTIC
        if request.priority >= 0 and any(is_lower(state, request, leaf) for leaf in mine):
            reach = GUARANTEED
        room = sum(unit.available for unit in Chooser(state, request, reach).units)
        return "fragmented" if room >= request.total else "capacity"

    def _may_merge(self) -> bool:
        """Whether siblings below node level may be merged."""
        request, node = self.request, self.state.forests[self.request.chain].node_level
        pools = [self.state.pools[pool] for pool in request.pools]
        below = any(pool.pin is None and pool.level < node for pool in pools)
        free = request.units is None and request.group_within < 0
        return request.priority >= 0 and request.merge and below and free
