"""Audits a state by rebuilding it from its groups.

Booking refuses invalid states: a virtual leaf that is held twice, a binding that splits a cell,
nested roots, or a split that leaves too little for owned cells. The order of booking does not
matter, because S is nowhere lower with fewer roots bound.
"""

from hivecore.errors import InvariantError
from hivecore.reference.cells.state import State

__all__ = ["audit"]


def audit(state: State) -> None:
    """Raise `InvariantError` if the state is inconsistent."""
    again = State(state.forests, state.pools)
    for handle, group in state.groups.items():
        owners = again.reserver if group.preempting else again.user
        _hold(owners.keys().isdisjoint(group.leaves), f"{handle} is on leaves of another group")
        owners.update(dict.fromkeys(group.leaves, handle))
        _hold(not group.preempting or group.virtual is not None, f"{handle} reserves without right")
        _hold(group.priority >= 0 or group.virtual is None, f"{handle} is opportunistic but holds")
    for handle, group in state.groups.items():
        for leaf, virtual in group.pairs:
            holder = again.holder(leaf)
            _hold(state.pools[virtual[0]].vc == group.vc, f"{handle} holds another's {virtual}")
            if holder == handle:
                _hold(again.book(leaf, virtual), f"leaf {leaf} cannot be bound to {virtual}")
            elif holder is not None:
                theirs = dict(state.groups[holder].pairs)
                _hold(theirs[leaf] == virtual, f"leaf {leaf} is reserved by another virtual leaf")
    for name in ("user", "reserver", "pair", "bound", "partner", "rooted"):
        _hold(getattr(again, name) == getattr(state, name), f"{name} is not what follows")
    _hold(all(min(state.surplus(f.chain)) >= 0 for f in state.forests), "too little is free")


def _hold(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(message)
