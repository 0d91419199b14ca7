"""Checks that every start obeys all rules."""

from collections.abc import Iterable, Mapping

from hivecore.scheduler import (
    Action,
    Job,
    Move,
    Preempt,
    Promote,
    Reject,
    Scheduler,
    Shrink,
    Start,
    Stop,
    TakeOver,
)
from hivecore.verify._cells import check_chain, group_of_start
from hivecore.verify._claims import check_claims
from hivecore.verify._devices import check_devices
from hivecore.verify._pods import (
    check_balance,
    check_extra,
    check_gang,
    check_nodes,
    check_per_node,
    check_sharing,
    check_topology,
)
from hivecore.verify._quotas import check_quota
from hivecore.verify._state import Has, Lone, State, amounts_of, lone_pod

__all__ = ["verify_actions", "verify_start"]


def verify_start(action: Start, job: Job, before: Scheduler) -> None:
    """Raise `InvariantError` with the first rule that a start violates; the message begins with it.

    :param action: from `Scheduler.decide`.
    :param job: as submitted.
    :param before: a copy of the scheduler from before the start. If reservations may have expired
        (``reservation_seconds``), call `Scheduler.advance` on it first.
    :raises InvariantError: a rule is violated.
    :raises ValueError: cells guarantee something, but the start, which was read from a file, lacks
        the cells.

    The rules: *gang*: each role starts whole or with its minimum, each pod once, after the jobs
    that it waits for, with what it asks for. *health*: no unhealthy nodes or devices. *nodes*: only
    allowed nodes, within what is free, with no more pods of a role than allowed. *devices*: no
    device twice or beyond its capacity. *nearness*: NICs and GPUs together as requested.
    *partition*: a row of the fabric's table. *claims*: each claim of a pod has a valid allocation,
    see `DraCluster.verify`. *topology*: one domain holds all pods, in multiples, and no domain more
    than allowed. *guarantee*: each tenant stays within its cells, and all owned cells can still be
    bound (S >= 0); a job on lent cells, or that must stop, uses none of its tenant's. *sharing*: a
    job that shares has the pods of the jobs that it shares with. *quota*: sums along the path are
    within max, runtime and total, non-preemptible ones within min; runtimes may have changed since
    the victims were chosen. Cost: O(jobs, nodes, GPUs).

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, PlacedPod, Scheduler, Start
    >>> from hivecore.verify import verify_start
    >>> tree = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler, job = Scheduler(quotas=tree), Job("train", "vision", 6)
    >>> scheduler.submit(job, now=0.0)
    >>> before = scheduler.copy()
    >>> verify_start(scheduler.decide(now=0.0)[0], job, before)
    >>> verify_start(Start("train", ()), job, before)
    Traceback (most recent call last):
    hivecore.errors.InvariantError: gang: role 'pod' of 'train' starts with 0 pods of 1
    """
    verify_actions([action], {job.name: job}, before)


def verify_actions(actions: Iterable[Action], jobs: Mapping[str, Job], before: Scheduler) -> None:
    """Verify all starts of a `Scheduler.decide`, each after the actions before it.

    :param jobs: the starting jobs, as submitted.
    :param before: the scheduler before the decision; if reservations expire, after ``advance`` to
        its time.
    :raises InvariantError: see `verify_start`.
    :raises KeyError: a starting job is not in ``jobs``.
    :raises ValueError: see `verify_start`; or jobs move that share GPUs or are on cells, for which
        there are no rules here.
    """
    actions = list(actions)
    moves = [action for action in actions if isinstance(action, Move)]
    if moves and (
        before.cells is not None or any(before.status(move.job).shares for move in moves)
    ):
        raise ValueError("actions: jobs on cells, or that share GPUs, move, which is not verified")
    state = State(before)
    left: set[str] = set()  # as all moves happen together
    for action in actions:
        if isinstance(action, Preempt):
            state.must_stop(action.job)
            if action.why == "order":  # it leaves before any job starts
                state.leave(action.job)
            else:
                state.preempting[action.for_job].append(action.job)
        elif isinstance(action, Shrink):
            for pod in action.pods:
                name = f"{action.job}/{pod.role}/{pod.index}"
                state.must_stop(name)
                if action.why == "order":
                    state.leave(name)
                else:
                    state.preempting[action.for_job].append(name)
        elif isinstance(action, Reject):
            state.reject(action.job)
        elif isinstance(action, Stop):
            state.stop(action.job, action.pods)
        elif isinstance(action, TakeOver):
            state.take_over(action.job, action.before, action.pods)
        elif isinstance(action, Move):
            for name in () if action.job in left else [move.job for move in moves]:
                for extra in state.extras(name):
                    state.leave(extra, ends=True)
                state.vacate(name)
                state.has[name].pods.clear()
                left.add(name)
            job, _ = state.has[action.job]
            _check(Start(action.job, action.pods), job, state, is_charged=True, moves=True)
            state.expect_extras(job)
        elif isinstance(action, Start | Promote):
            for name in state.preempting.pop(action.job, ()):
                state.leave(name, ends=name in state.rejected)
            job = jobs[action.job]
            lone = lone_pod(job, action.pods[0]) if action.pods else None
            if isinstance(action, Start) and lone is not None:
                check_extra(action, job, lone, state)
                if state.tree is not None and lone.name not in state.tree.owners:
                    state.ask(lone.name, lone)  # another one had started before, and left again
                _check(action, lone, state, is_charged=False)
                state.expect_extras(job)
                continue
            _check(action, job, state, is_charged=_runs_again(action, job, state))
            if isinstance(action, Start):
                check_balance(action, job, state)


def _runs_again(action: Start | Promote, job: Job, state: State) -> bool:
    """Whether failed pods restart while the others of their job have run on."""
    has = state.has.get(job.name)
    first = {(role.name, number) for role in job.roles for number in role.first_numbers}
    is_first = all((pod.role, pod.index) in first for pod in action.pods)
    return isinstance(action, Start) and has is not None and bool(has.pods) and is_first


def _check(
    action: Start | Promote, job: Job, state: State, *, is_charged: bool, moves: bool = False
) -> None:
    """Raise `InvariantError` if an action may not start a job in a state, and apply it.

    :param is_charged: whether the job's quota already counts what the action starts.
    :param moves: whether the job ran before.
    """
    before = state.before
    if isinstance(action, Promote):
        state.vacate(job.name)
        state.has.pop(job.name)
    if not isinstance(job, Lone):
        check_gang(action, job, state, moves=moves)
    if isinstance(action, Start) and action.shares_with:
        check_sharing(action, job, state)
        return
    state.has.setdefault(job.name, Has(job, [])).pods.extend(action.pods)
    state.count(job, action.pods, 1)
    check_nodes(action, job, state)
    check_per_node(job, state)
    if before.topology is not None:
        check_topology(action, job, state)
    if before.devices is not None:
        check_devices(action, job, state, before.devices)
    if before.claims is not None:
        check_claims(action, job, state)
    if before.cells is not None and amounts_of(job, action.pods, None)["gpu"]:
        lent = isinstance(action, Start) and action.lent
        group = group_of_start(action, job, mine=job.guaranteed and not lent)
        state.groups.append(group)
        for chain in {chain for chain, *_ in group.gpus}:
            check_chain(chain, before.cells.spec, state.groups)
    if state.tree is None or is_charged:
        return
    state.ask_for_devices(job, action.pods)
    if isinstance(action, Promote):
        state.expect_joining(job)
        return
    check_quota(action, job, state, state.tree)
    state.admitted(job, action.pods, lent=action.lent)
