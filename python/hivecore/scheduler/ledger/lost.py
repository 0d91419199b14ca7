"""Failed pods of a job that runs on: spares and extra pods take their numbers; the rest wait to be
placed near the other pods.

The first unit of the job keeps its name, its kind and the pods that run. The quota stays charged
for all pods, so the failed pods only need a place.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable

from hivecore.scheduler.actions import Action, PlacedPod, TakeOver
from hivecore.scheduler.ledger.ends import forget, give_up
from hivecore.scheduler.ledger.extras import expect_extras
from hivecore.scheduler.ledger.lines import requeue, take_off
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.stages.units import Pod, Unit

__all__ = ["called", "forget_lost", "lose", "may_lose", "regain", "take_over_on"]

_Taken = list[tuple[PlacedPod, PlacedPod]]


def may_lose(state: State, live: Live, gone: Collection[PlacedPod]) -> bool:
    """Whether a job runs on without these of its first pods."""
    runs_on = live.job.on_failure != "job" and state.order is None
    return runs_on and live.state == "running" and len(gone) < len(live.units[0].placed)


def lose(state: State, live: Live, gone: Iterable[PlacedPod]) -> None:
    """Record that pods of a job have failed, and queue them."""
    first, failed = live.units[0], {id(pod) for pod in gone}
    left = [pod for pod in first.placed if id(pod) not in failed]
    bad = state.stages.unhealthy()
    taken = _take_over(live, left, bad)
    forget_lost(state, live)
    first.note(state.log)
    before = first.gpus
    _rebook(state, live, left, taken=taken)
    taken += _take_extras(state, live, bad)
    for lost in live.lose(state.kinds):
        # the tenant is not charged for these pods while they wait
        assert first.departure is not None
        whole = first.departure.charge
        charge = min(whole, before - first.gpus)
        before -= charge
        lost.departure = first.departure._replace(charge=charge)
        first.departure = first.departure._replace(charge=whole - charge)
        requeue(state, lost)
    state.count_again()
    expect_extras(state, live)
    if taken:
        pods, spares = tuple(after for _, after in taken), tuple(before for before, _ in taken)
        state.outbox.append(TakeOver(live.job.name, pods, spares))


def _rebook(
    state: State,
    live: Live,
    pods: Iterable[PlacedPod],
    *,
    other: Unit | None = None,
    taken: _Taken | None = None,
) -> None:
    """Set the pods of a job's first unit. See `Stages.rebook` for the arguments."""
    first = live.units[0]
    order = {pod: i for i, pod in enumerate(first.pods)}
    placed = tuple(sorted(pods, key=lambda pod: order[Pod(pod.role, pod.index)]))
    kind = first.kind
    if len(placed) < len(first.pods):
        kind = state.kinds.part(live.job, [Pod(pod.role, pod.index) for pod in placed])
    state.stages.rebook(first, kind, placed, other=other, taken=taken or ())
    state.outdate_promises()
    state.note_change(live.job.name)


def called(state: State, job: str, pod: str) -> tuple[str, list[Action]]:
    """A pod's number, "role/index", after takeovers still in the outbox, and the rest of that."""
    for i, action in enumerate(state.outbox):
        if not isinstance(action, TakeOver) or action.job != job:
            continue
        for before, after in zip(action.before, action.pods, strict=True):
            if f"{before.role}/{before.index}" == pod:
                pods = tuple(other for other in action.pods if other is not after)
                spares = tuple(other for other in action.before if other is not before)
                said = [TakeOver(job, pods, spares)] if pods else []
                outbox = [*state.outbox[:i], *said, *state.outbox[i + 1 :]]
                return f"{after.role}/{after.index}", outbox
    return pod, state.outbox


def take_over_on(state: State, node: str) -> None:
    """Let spares and extra pods on a node that has recovered take the numbers of failed pods."""
    for live in [live for live in state.jobs.values() if live.ranks_lost]:
        extras = [extra for extra in live.extras.values() if extra.runs]
        if any(pod.node == node for holder in (live, *extras) for pod in holder.units[0].placed):
            lose(state, live, ())


def _take_over(live: Live, left: list[PlacedPod], bad: Container[str]) -> _Taken:
    """Give the numbers of pods that are not in ``left`` to spares there on good nodes."""
    placed = {(pod.role, pod.index) for pod in left}
    spares: defaultdict[str, list[PlacedPod]] = defaultdict(list)
    for placed_pod in reversed(left):
        pod = Pod(placed_pod.role, placed_pod.index)
        if live.job.is_spare(*pod) and placed_pod.node not in bad:
            spares[pod.role].append(placed_pod)
    taken: _Taken = []
    for pod in live.units[0].pods:
        if pod not in placed and spares[pod.role] and not live.job.is_spare(*pod):
            spare = spares[pod.role].pop()
            taken.append((spare, spare.replace(index=pod.number)))
            left.remove(spare)
            left.append(taken[-1][1])
    return taken


def _take_extras(state: State, live: Live, bad: Container[str]) -> _Taken:
    """Give the numbers of failed pods to extra pods that are not on bad nodes, the newest first. On
    cells extra pods have no guarantee, and keep their numbers.
    """
    taken: _Taken = []
    first = live.units[0]
    placed = {(pod.role, pod.index) for pod in first.placed}
    for pod in first.pods if live.extras and not state.stages.places_by_cells else ():
        extras = [extra for extra in live.extras.values() if extra.runs and not extra.for_job]
        newest = max(
            (
                extra
                for extra in extras
                if extra.units[0].pods[0].role == pod.role
                and extra.units[0].placed[0].node not in bad
            ),
            key=lambda extra: (extra.since, extra.number),
            default=None,
        )
        if pod in placed or live.job.is_spare(*pod) or newest is None:
            continue
        unit = newest.units[0]
        before = unit.placed[0]
        taken.append((before, before.replace(index=pod.number)))
        unit.note(state.log)
        _rebook(state, live, [*first.placed, taken[-1][1]], other=unit, taken=taken[-1:])
        state.stages.withdraw(unit)
        forget(state, newest)
    return taken


def regain(state: State, live: Live, lost: Unit) -> None:
    """Record that failed pods have been placed again."""
    first = live.units[0]
    first.note(state.log)
    lost.note(state.log)
    _rebook(state, live, [*first.placed, *lost.placed], other=lost)
    forget_lost(state, live, lost)
    state.waiting.touch((("started", live.job.name),))


def forget_lost(state: State, live: Live, gone: Unit | None = None) -> None:
    """Let failed pods of a job no longer wait.

    :param gone: those that are in no queue. The others still wait, unless all pods are placed.
    """
    if live.held is not None and gone is None:
        give_up(state, live)
    first = live.units[0]
    first.note(state.log)
    live.note(state.log)
    ended = live.lost if gone is None or len(first.placed) == len(first.pods) else [gone]
    for unit in ended:
        if unit is not gone:
            take_off(state, unit)
        assert first.departure is not None and unit.departure is not None
        charge = first.departure.charge + unit.departure.charge
        first.departure = first.departure._replace(charge=charge)
    live.units = [unit for unit in live.units if unit not in ended]
    live.reported = None
