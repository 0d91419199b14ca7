"""A full audit of a state: everything that must follow from who holds what, computed anew."""

from collections import Counter

from hivecore.errors import InvariantError
from hivecore.reference.cells.cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.state import State

__all__ = ["audit"]


def audit(state: State) -> None:
    """Raise `InvariantError` if the state is inconsistent."""
    _audit_owners(state)
    _audit_bindings(state)
    for forest in state.forests:
        surplus = state.surplus(forest.chain)
        _hold(min(surplus) >= 0, f"chain {forest.chain} cannot serve all that is owned: {surplus}")


def _hold(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(message)


def _audit_owners(state: State) -> None:
    user: dict[int, int] = {}
    reserver: dict[int, int] = {}
    for handle, group in state.groups.items():
        owners = reserver if group.preempting else user
        for leaf in group.leaves:
            _hold(leaf not in owners, f"leaf {leaf} has two owners")
            owners[leaf] = handle
        _hold(not group.preempting or group.virtual is not None, f"{handle} reserves without right")
        _hold(group.priority >= 0 or group.virtual is None, f"{handle} is opportunistic but holds")
    _hold(user == state.user, "the users are not those of the groups")
    _hold(reserver == state.reserver, "the reservers are not those of the groups")
    pairs = {}
    for handle, group in state.groups.items():
        for leaf, virtual in group.pairs:
            _hold(state.pools[virtual[0]].vc == group.vc, f"{handle} holds another's {virtual}")
            if state.holder(leaf) == handle:
                pairs[leaf] = virtual
            else:
                above = state.pair.get(leaf)
                _hold(above == virtual, f"leaf {leaf} is reserved by another virtual leaf")
    _hold(pairs == state.pair, "the pairs are not those of the holders")
    _hold(len(set(pairs.values())) == len(pairs), "a virtual leaf is held twice")


def _audit_bindings(state: State) -> None:
    bound: dict[VirtualCell, int] = {}
    used: Counter[VirtualCell] = Counter()
    touched: Counter[PhysicalCell] = Counter()
    for number, pool in enumerate(state.pools):
        if pool.pin is not None:
            bound[VirtualCell(number, pool.level, 0)] = pool.pin
    for leaf, virtual in state.pair.items():
        for cell, physical in state.path(leaf, virtual):
            _hold(bound.setdefault(cell, physical.number) == physical.number, f"{cell} is torn")
            used[cell] += 1
    _hold(bound == state.bound, "the bindings are not those of the pairs")
    _hold(used == state.used, "the used leaves are not those of the pairs")
    partner = {}
    for cell, index in bound.items():
        physical = PhysicalCell(state.pools[cell.pool].chain, cell.level, index)
        _hold(physical not in partner, f"{physical} is bound twice")
        partner[physical] = cell
    _hold(partner == state.partner, "the partners are not those of the bindings")
    for physical in filter(state.is_root, partner):
        touched.update(state.around(physical))
        roots = list(filter(state.is_root, state.around(physical)))
        _hold(len(roots) == 1, f"a root is inside another: {roots}")
    _hold(touched == state.touched, "the roots counted per cell are not those bound")
