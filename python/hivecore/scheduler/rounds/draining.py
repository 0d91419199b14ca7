"""Drains nodes: their jobs move to other nodes, or stop and wait again."""

from hivecore.scheduler.ledger.changes import stop_job_on
from hivecore.scheduler.ledger.ends import give_up
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.starts import move_whole

__all__ = ["drain_nodes"]


def drain_nodes(state: State) -> None:
    """Let jobs leave draining nodes, the most important first."""
    names = state.running.keys()
    known = names if state.on_draining is None else names & state.on_draining
    affected = [
        (live, node)
        for live in map(state.running.__getitem__, known)
        for node in dict.fromkeys(pod.node for unit in live.placed for pod in unit.placed)
        if node in state.draining
    ]
    state.on_draining = {live.job.name for live, _ in affected}
    leaving = [entry for entry in affected if _leaves(state, *entry)]
    for live, node in sorted(leaving, key=_precedence):
        if state.jobs.get(live.job.name) is live and live.runs:
            stop_job_on(state, live, node, _moved)


def _leaves(state: State, live: Live, node: str) -> bool:
    """Whether a job must leave now, since its node has to be empty at some time."""
    job, by = live.job, state.draining[node]
    if live.for_job or not job.preemptible:
        return False
    return state.end_of(live) > by or state.now >= by


def _precedence(entry: tuple[Live, str]) -> tuple[bool, bool, int, int]:
    # Extra pods come last: they must not take the numbers of lost pods.
    live, _ = entry
    return bool(live.extra_of), live.is_weak, -live.job.priority, live.number


def _moved(state: State, live: Live, node: str) -> bool:
    """Move a whole job at once if it fits elsewhere; false if not."""
    name = live.job.name
    shares = len(state.stages.members(name)) > 1
    may_move = live.state == "running" and not live.extra_of and not shares
    if may_move and live.held is not None:
        give_up(state, live)
    return may_move and move_whole(state, live, node=node)
