"""Jobs that move in a round: each has one `Move`, and none that is evicted in the same round before
others use the places that it leaves.
"""

from hivecore.scheduler.actions import Move, Promote, Start, Stop
from hivecore.scheduler.ledger.state import State

__all__ = ["has_moved", "leaves_instead", "stays_instead"]


def has_moved(state: State, move: Move, node: str = "") -> None:
    """Say that a job moves, off a drained ``node``; one move if none started since the last."""
    earlier, drained = state.moved.get(move.job, (None, ""))
    if earlier is not None and not _starts_since(state, earlier):
        move = move.replace(before=earlier.before)
        state.unsaid.append((earlier, move))
    else:
        state.outbox.append(move)
    state.moved[move.job] = move, node or drained


def leaves_instead(state: State, name: str) -> None:
    """Let a job that stops in this round stop for the drained node, and not move away from it."""
    move, node = state.moved.pop(name)
    state.unsaid.append((move, Stop(name, move.before, node)))


def stays_instead(state: State, name: str) -> None:
    """Let a job that is evicted in this round not move before, unless its old places are in use."""
    move, _ = state.moved.pop(name)
    nodes = {pod.node for pod in move.before}
    others = [other for other, _ in state.moved.values()]
    used = {pod.node for action in _starts_since(state, move) + others for pod in action.pods}
    if nodes.isdisjoint(used) and not any(pod.claims for pod in move.before):
        state.unsaid.append((move, None))


def _starts_since(state: State, move: Move) -> list[Start | Promote | Move]:
    at = next((i for i, action in enumerate(state.outbox) if action is move), 0)
    return [action for action in state.outbox[at:] if isinstance(action, Start | Promote)]
