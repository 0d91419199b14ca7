"""Decides which running groups keep their guarantee when there are too few cells.

When HiveD restarts, perhaps with other virtual clusters, it keeps running groups and removes the
guarantee of those that no longer fit; here they also regain it. A group is *booked* where it runs:
a leaf in a root of its pool joins that root, and the free cell around any other leaf becomes a new
root. Either all leaves of a group can be booked, or it runs on opportunistically, downgraded.

After a restart, important groups are booked first, then those with the lower first leaf. Subsets of
a bookable set are bookable. So a newcomer that fits beside the others changes nothing; otherwise it
displaces less important ones, of which those that still fit are booked again in the same order. The
outcome is that of booking all groups in order, in whatever order they are recovered. Groups that
preempt or are being preempted keep what they hold. Whenever cells become free, downgraded groups
that fit are promoted where they are.
"""

from collections.abc import Iterable
from dataclasses import replace

from hivecore.reference.cells.cells import PhysicalCell, VirtualLeaf
from hivecore.reference.cells.state import State

__all__ = ["admitted", "promote"]


def promote(state: State) -> None:
    """Book all downgraded groups that fit."""
    downgraded = [handle for handle in state.groups if _is_downgraded(state, handle)]
    for handle in _by_rank(state, downgraded):
        _book(state, handle)


def admitted(state: State, newcomer: int) -> tuple[State, list[int]]:
    """Return a state with the group booked if possible, and the groups downgraded for it."""
    if _book(state, newcomer):
        return state, []
    after = state.copy()
    movable = [
        handle
        for handle in state.groups
        if _is_downgraded(state, handle)
        or (state.groups[handle].virtual is not None and not _is_fixed(state, handle))
    ]
    ranked = _by_rank(state, movable)
    others = ranked[ranked.index(newcomer) + 1 :]
    lower = [handle for handle in others if state.groups[handle].virtual is not None]
    for handle in lower:
        after.downgrade(handle)
    if not _book(after, newcomer):
        return state, []
    for handle in others:
        as_before = handle in lower and after.book_all(state.groups[handle].pairs)
        if as_before:
            after.groups[handle] = state.groups[handle]
        else:
            _book(after, handle)
    promote(after)
    return after, state.by_sequence({h for h in lower if after.groups[h].virtual is None})


def _is_downgraded(state: State, handle: int) -> bool:
    group = state.groups[handle]
    return group.virtual is None and group.pools is not None


def _is_fixed(state: State, handle: int) -> bool:
    group = state.groups[handle]
    return group.preempting or any(leaf in state.reserver for leaf in group.leaves)


def _by_rank(state: State, handles: Iterable[int]) -> list[int]:
    """Return important groups first, then those with the lower first leaf."""

    def rank(handle: int) -> tuple[int, int, int]:
        group = state.groups[handle]
        return -group.priority, min(group.leaves, default=state.end_leaf), handle

    return sorted(handles, key=rank)


def _book(state: State, handle: int) -> bool:
    """Book all leaves of a downgraded group; False if nothing has changed."""
    group = state.groups[handle]
    assert group.pools is not None
    virtual: list[list[VirtualLeaf]] = []
    booked: list[int] = []
    for pod, pools in zip(group.pods, group.pools, strict=True):
        virtual.append([])
        for leaf, pool in zip(pod, pools, strict=True):
            held = _virtual_leaf(state, leaf, pool)
            if held is None or not state.book(leaf, held):
                for other in booked:
                    state.unbook(other)
                return False
            booked.append(leaf)
            virtual[-1].append(held)
    state.groups[handle] = replace(group, virtual=virtual, pools=None)
    return True


def _virtual_leaf(state: State, leaf: int, pool: int) -> VirtualLeaf | None:
    """Return a virtual leaf of the pool, in the root around the leaf or in a new one."""
    owner = state.pools[pool]
    index = state.forests[owner.chain].above(leaf, owner.level)
    cell = PhysicalCell(owner.chain, owner.level, index)
    root = state.partner.get(cell)
    if root not in state.roots(pool):
        roots = state.unbound_roots(pool)
        if not roots or not state.may_be_root(cell):
            return None
        root = roots[0]
    return state.virtual_leaf(root, leaf)
