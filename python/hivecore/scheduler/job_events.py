"""Events of jobs."""

from collections.abc import Collection, Iterable
from typing import Any

from hivecore._arguments import as_float, as_instance, as_text, as_tuple
from hivecore._record import check_fields
from hivecore.scheduler.actions import Move, PlacedPod, Reject
from hivecore.scheduler.cluster_events import ClusterEvents
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.amending import amend, estimate
from hivecore.scheduler.ledger.ends import end, ends_alone, give_back, has_stopped, stop
from hivecore.scheduler.ledger.lines import offer_idle_cells, push, report_if_parked, requeue
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import called, lose, may_lose
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import carry_out, may_move
from hivecore.scheduler.plain import plain_fields, plain_record
from hivecore.scheduler.rounds.adopting import adopt, checked_pods
from hivecore.scheduler.rounds.reservations import give_up_late
from hivecore.scheduler.stages.units import Kind, Unit

__all__ = ["JobEvents"]


class JobEvents(ClusterEvents):
    """The events of `Scheduler` that concern jobs: they arrive, end, fail, stop or move."""

    def submit(self, job: Job, now: float) -> None:
        """Submit a job.

        :raises ValueError: its name is in use, also by a job that the next `decide` rejects; no
            part enforces one of its constraints; all jobs of a quota would request more than
            2**62 of a resource; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The next `decide` rejects a job that could not run on the empty, healthy cluster.
        Constraints are all fields of `Where` except ``prefer``, `Role.resources`, `Role.devices`
        beyond whole GPUs, and a `Job.quota` that differs from the tenant. Other fields are ignored
        if no part reads them.
        """
        as_instance(job, "job", Job)
        with self._lock:
            state = self._state
            moment = state.moment(now)
            self._check_new(job)
            kind = self._submit(state, job, moment)
            if self._log is not None:
                self._logged += 1
                self._log.submit(job, kind.number, moment)

    def _submit(self, state: State, job: Job, moment: float) -> Kind:
        """Queue a job, or reject it."""
        kind = state.kinds.enforced(job) or self._enforced(state, job)
        reason = state.kinds.impossible(kind, state.stages.impossible)
        if reason:
            state.happens(moment)
            state.outbox.append(Reject(job.name, reason))
            state.rejected.add(job.name)
            return kind
        live, before = Live.submitted(job, kind), state.now
        state.add(live)
        try:  # faster than a transaction
            state.stages.submit(live.units[0])
            state.now = moment
            try:
                push(state, live.units[0])
            except BaseException:
                state.stages.withdraw(live.units[0])
                raise
        except BaseException:
            state.now = before
            state.drop(live)
            raise
        state.happens(moment)
        state.stages.come(job)
        offer_idle_cells(state, live)
        report_if_parked(state, live)
        return kind

    def _enforced(self, state: State, job: Job) -> Kind:
        """The kind of a job whose constraints the parts enforce."""
        if not self._is_rerun and (reason := state.stages.unenforced(job)):
            raise ValueError(f"job={job.name!r}: {reason}")
        kind = state.kinds.of(job)
        if not self._is_rerun:
            state.kinds.note_enforced(kind)
        return kind

    def adopt(
        self, job: Job, pods: Iterable[PlacedPod], now: float, *, since: float | None = None
    ) -> None:
        """Add a job that runs already, for instance after a log was lost, or when this scheduler
        replaces another.

        :param pods: its running pods: at least the first ``min_pods`` of each role, and the spares.
            With cells they must name their GPUs. Other devices are chosen if they are not named.
        :param since: when it started, in seconds; ``None``: now.
        :raises ValueError: the name is in use; pods are missing, cannot run on their nodes, or are
            not in one domain; a constraint is not enforced, see `submit`; jobs run in an order; or
            a time is wrong.
        :raises StaleDecisionError: another job uses the resources; the message names it if it is
            known.
        :raises TypeError: an argument is of a wrong type.

        Quotas count the job regardless of limits. With cells it gets the smallest free cells of its
        tenant that contain its GPUs; if there are none, it is opportunistic. Report unhealthy
        devices afterwards. An error changes nothing.

        >>> from hivecore.scheduler import Job, PlacedPod, Scheduler
        >>> scheduler = Scheduler()
        >>> scheduler.adopt(Job("train", "vision", 8), [PlacedPod("pod", 0, "n1")], now=60.0)
        >>> scheduler.state("train")
        'running'
        """
        as_instance(job, "job", Job)
        given = as_tuple(pods, "pods")
        for i, pod in enumerate(given):
            if not isinstance(pod, PlacedPod):
                raise TypeError(f"pods must hold PlacedPods, not {type(pod).__name__}")
            check_fields(pod, f"pods[{i}]")
        with self._lock:
            state = self._state
            moment = state.moment(now)
            begun = moment if since is None else as_float(since, "since")
            if not 0 <= begun <= moment:
                raise ValueError(f"since={begun!r}: must be from 0 to now")
            self._check_new(job)
            if state.order is not None:
                raise ValueError("job: jobs run in an order, see reorder")
            with state.transaction():
                state.happens(moment)
                placed = checked_pods(state, job, given)
                adopt(state, job, self._enforced(state, job), placed, begun)
            more = {} if since is None else {"since": begun}
            rows = [plain_record(pod) for pod in given]
            self._note("adopt", job=plain_record(job), pods=rows, **more)

    def _check_new(self, job: Job) -> None:
        state, name = self._state, job.name
        is_like_a_unit = "/" in name or name in state.like_units
        if is_like_a_unit and (reason := state.name_in_use(job)):
            raise ValueError(f"job={job.name!r}: {reason}")
        if name in state.jobs or name in state.rejected:
            raise ValueError(f"job={job.name!r}: there is a job of this name")

    def amend(self, job: str, now: float, **changes: Any) -> None:
        """Change the request of a job; it keeps its position among jobs of its priority.

        :param changes: fields of `Job` with new values. A waiting job may change all but ``name``
            and ``tenant``, a running job only ``run_time``.
        :raises KeyError: there is no such job.
        :raises ValueError: a field cannot change, or is out of range; no part enforces a
            constraint, see `submit`; there are no changes; or the time goes back.
        :raises TypeError: there is no such field, or a value is of a wrong type.

        A reserved job no longer waits for its victims, which still have to stop. The next `decide`
        rejects the job if it can never start now.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Scheduler
        >>> quotas = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> scheduler = Scheduler(quotas=quotas)
        >>> for name, gpus in (("train", 6), ("tune", 4)):
        ...     scheduler.submit(Job(name, "vision", gpus), now=0.0)
        >>> started = scheduler.decide(now=0.0)
        >>> scheduler.amend("tune", now=5.0, roles=2)
        >>> [action.job for action in scheduler.decide(now=5.0)]
        ['tune']
        """
        with self._lock:
            live, state = self._live(job), self._state
            moment = state.moment(now)
            fixed = {"name", "tenant"} if not live.runs else set(changes) - {"run_time"}
            for field in sorted(fixed & set(changes)):
                how = live.state if live.runs else "known"
                raise ValueError(f"changes: {field!r} of a job that is {how} cannot change")
            if not changes:
                raise ValueError("changes must not be empty")
            changed = live.job.replace(**changes)
            if reason := state.name_in_use(changed):
                raise ValueError(f"job={job!r}: {reason}")
            with state.transaction():
                state.happens(moment)
                if live.runs:
                    estimate(state, live, changed)
                else:
                    amend(state, live, changed, self._enforced(state, changed))
            self._note("amend", job=job, changes=plain_fields(changed, changes))

    def finish(self, job: str, now: float) -> None:
        """Report that a running job, or one that had to stop, has ended. The scheduler forgets it;
        all of its resources are free, so no pod of it may run any more.

        :raises KeyError: there is no such job.
        :raises ValueError: the job does not run, or the time goes back.
        """
        with self._lock:
            live = self._running(job)
            moment = self._state.moment(now)
            if ends_alone(self._state, live):
                self._state.stages.check_holds(live.units[0])
                self._state.happens(moment)
                end(self._state, live)
            else:
                with self._state.transaction():
                    self._state.happens(moment)
                    end(self._state, live)
            self._note("finish", job=job)

    def _running(self, name: str) -> Live:
        live = self._live(name)
        if not live.runs:
            raise ValueError(f"job={name!r}: it is {live.state}, not running")
        return live

    def cancel(self, job: str, now: float) -> None:
        """Remove a job in any state. The scheduler forgets it; all of its resources are free, so
        stop its pods before. For a victim this counts as `stopped`.

        :raises KeyError: there is no such job.
        :raises ValueError: the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._state.moment(now)
            with self._state.transaction():
                self._state.happens(moment)
                end(self._state, live)
            self._note("cancel", job=job)

    def fail(self, job: str, now: float, pod: str | None = None) -> None:
        """Report that a running job or a pod of it has failed. What failed returns to its place in
        the queue, and its resources are free.

        :param pod: "role/index" of a failed pod. If it joined the job later, or `Job.on_failure`
            allows it, the other pods run on; otherwise the whole job fails, and its other pods have
            to be stopped before this call. For a job that has to stop for another, nothing changes
            until `stopped`. A spare that takes over in the next `decide` still has its old number.
            ``None``: the whole job.
        :raises KeyError: there is no such job, or it has no such pod.
        :raises ValueError: the job does not run, or the time goes back.
        """
        with self._lock:
            live = self._running(job)
            moment = self._state.moment(now)
            unit, outbox = None, self._state.outbox
            if pod is not None:
                name, outbox = called(self._state, job, as_text(pod, "pod"))
                live = live.extras.get(f"{job}/{name}", live)
                unit = live.unit_of(name)
                if unit is None:
                    raise KeyError(f"pod={pod!r}: job {job!r} runs no such pod")
                gone = [placed for placed in unit.placed if f"{placed.role}/{placed.index}" == name]
            with self._state.transaction():
                self._state.happens(moment)
                self._state.outbox = outbox
                if live.for_job:
                    if unit is None or not _runs_on(live, unit, gone):
                        has_stopped(self._state, live)
                elif unit is live.units[0] and may_lose(self._state, live, gone):
                    lose(self._state, live, gone)
                elif unit is None or unit in (live.units[0], live.lent):
                    stop(self._state, live)
                else:
                    give_back(self._state, unit, end=False)
                    requeue(self._state, unit)
            self._note("fail", job=job, pod=pod)

    def stopped(self, job: str, now: float, pod: str | None = None) -> None:
        """Report that a victim of `Preempt`, or a pod of `Shrink`, has stopped.

        :param pod: "role/index" of the pod; ``None``: the whole job.
        :raises KeyError: there is no such job, or it has no such pod above `Role.min_pods`.
        :raises ValueError: the job does not have to stop, or has stopped already; or the time goes
            back.
        """
        with self._lock:
            live, name = self._live(job), pod if pod is None else as_text(pod, "pod")
            if name is not None:
                if f"{job}/{name}" not in live.extras:
                    raise KeyError(f"pod={name!r}: job {job!r} has no such pod above min_pods")
                live = live.extras[f"{job}/{name}"]
            moment = self._state.moment(now)
            if live.has_stopped:
                raise ValueError(f"job={live.job.name!r}: it has stopped already")
            if not live.for_job:
                raise ValueError(f"job={live.job.name!r}: it does not have to stop")
            with self._state.transaction():
                self._state.now = moment
                has_stopped(self._state, live)
            self._note("stopped", job=job, **({} if name is None else {"pod": name}))

    def move(self, moves: Move | Iterable[Move], now: float) -> None:
        """Report that jobs have moved, as a plan of `plan_moves` says.

        :param moves: a move, or the moves of one step of a plan: all jobs stopped before any
            started again.
        :raises KeyError: there is no such job.
        :raises ValueError: a job does not run, is not preemptible, has to stop, or is named twice;
            there are no moves; or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        :raises StaleDecisionError: the scheduler has changed since the plan: a job is not where its
            move says, or would get another place.

        The jobs count as started now. Their quotas do not change.
        """
        given = (moves,) if isinstance(moves, Move) else as_tuple(moves, "moves")
        with self._lock:
            moment = self._state.moment(now)
            lives = [self._movable(move) for move in given]
            if not lives or len({live.job.name for live in lives}) < len(lives):
                raise ValueError("moves: must name at least one job, and each job once")
            with self._state.transaction():
                for live in lives:
                    live.note(self._state.log)
                    for unit in live.units:
                        unit.note(self._state.log)
                carry_out(self._state.stages.without_quotas(), lives, given)
                self._state.happens(moment)
                for live in lives:
                    self._state.restart(live, moment)
            self._note("move", moves=[plain_record(move) for move in given])

    def _movable(self, move: Move) -> Live:
        if not isinstance(move, Move):
            raise TypeError(f"moves must hold Moves, not {type(move).__name__}")
        live = self._live(move.job)
        if not may_move(self._state.stages, live):
            raise ValueError(f"moves: job {move.job!r} does not run, has to stop, or has to stay")
        return live

    def advance(self, now: float) -> None:
        """Report that time has passed: jobs that waited too long for their victims are no longer
        reserved.

        :raises ValueError: the time goes back.
        """
        with self._lock:
            moment = self._state.moment(now)
            with self._state.transaction():
                self._state.now = moment
                give_up_late(self._state)
            self._note("advance")


def _runs_on(live: Live, unit: Unit, gone: Collection[PlacedPod]) -> bool:
    """Whether other pods of a job run on without failed ones."""
    is_first = unit in (live.units[0], live.lent)
    has_others = len(gone) < sum(len(each.placed) for each in live.placed)
    return has_others and (not is_first or live.job.on_failure != "job")
