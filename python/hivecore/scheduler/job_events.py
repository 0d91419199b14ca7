"""What a scheduler is told of jobs."""

from collections.abc import Iterable
from typing import Any

from hivecore._arguments import as_float, as_text, as_tuple
from hivecore.scheduler.actions import Move, PlacedPod, Reject
from hivecore.scheduler.cluster_events import ClusterEvents
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.amending import amend, estimate
from hivecore.scheduler.ledger.ends import end, ends_alone, give_back, has_stopped, stop
from hivecore.scheduler.ledger.lines import offer_idle_cells, push, requeue, tell_if_parked
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import lose, may_lose
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import carry_out, may_move
from hivecore.scheduler.plain import plain_fields, plain_record
from hivecore.scheduler.rounds.adopting import adopt, checked_pods
from hivecore.scheduler.rounds.reservations import give_up_late
from hivecore.scheduler.stages.units import Kind

__all__ = ["JobEvents"]


class JobEvents(ClusterEvents):
    """A scheduler that is told of jobs that come, end, fail, stop and move."""

    def submit(self, job: Job, now: float) -> None:
        """A job arrives.

        :raises ValueError: there is a job of this name, or the next `decide` rejects such a job; no
            part enforces a constraint of the job; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        A job that could not run on the empty, healthy cluster is rejected by the next `decide`.
        Constraints are all of `Where` but ``prefer``, `Role.resources`, `Role.devices` beyond whole
        GPUs, and a `Job.quota` that is not its tenant's. Other fields without a part are ignored.
        """
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {type(job).__name__}")
        with self._lock:
            state = self._state
            moment = state.moment(now)
            self._check_new(job)
            kind = self._submit(state, job, moment)
            if self._log is not None:
                self._logged += 1
                self._log.submit(job, kind.number, moment)

    def _submit(self, state: State, job: Job, moment: float) -> Kind:
        """Let a job wait, or reject it."""
        kind = state.kinds.enforced(job) or self._enforced(state, job)
        reason = state.kinds.impossible(kind, state.stages.impossible)
        if reason:
            state.happens(moment)
            state.outbox.append(Reject(job.name, reason))
            state.rejected.add(job.name)
            return kind
        live, before = Live.submitted(job, kind), state.now
        state.add(live)
        try:  # which costs less than a transaction
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
        tell_if_parked(state, live)
        return kind

    def _enforced(self, state: State, job: Job) -> Kind:
        """The kind of a job, if the parts enforce its constraints."""
        if not self._is_rerun and (reason := state.stages.unenforced(job)):
            raise ValueError(f"job={job.name!r}: {reason}")
        kind = state.kinds.of(job)
        if not self._is_rerun:
            state.kinds.note_enforced(kind)
        return kind

    def adopt(
        self, job: Job, pods: Iterable[PlacedPod], now: float, *, since: float | None = None
    ) -> None:
        """A job runs already: after the log was lost, or on the first day of this scheduler.

        :param pods: those that run: at least the ``min_pods`` of each role, from 0 on, and its
            spares. With cells they name their GPUs; other devices that they do not name are chosen.
        :param since: when it started; ``None``: now.
        :raises ValueError: there is a job of this name; pods are missing, cannot be where they are,
            or are not in one domain; as of `submit`; jobs run in an order; or a time is wrong.
        :raises StaleDecisionError: another job is there, which the message names if it is known.
        :raises TypeError: an argument is of a wrong type.

        Quotas count the job, whatever their limits are. In cells it has the lowest cells of its
        tenant that are free there; else it runs as an opportunistic job. Unhealthy devices are to
        be reported afterwards. After an error nothing has changed.

        >>> from hivecore.scheduler import Job, PlacedPod, Scheduler
        >>> scheduler = Scheduler()
        >>> scheduler.adopt(Job("train", "vision", 8), [PlacedPod("pod", 0, "n1")], now=60.0)
        >>> scheduler.state("train")
        'running'
        """
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {type(job).__name__}")
        given = as_tuple(pods, "pods")
        for pod in given:
            if not isinstance(pod, PlacedPod):
                raise TypeError(f"pods must hold PlacedPods, not {type(pod).__name__}")
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
            told = {} if since is None else {"since": begun}
            rows = [plain_record(pod) for pod in given]
            self._note("adopt", job=plain_record(job), pods=rows, **told)

    def _check_new(self, job: Job) -> None:
        if reason := self._state.name_in_use(job):
            raise ValueError(f"job={job.name!r}: {reason}")
        if job.name in self._state.jobs or job.name in self._state.rejected:
            raise ValueError(f"job={job.name!r}: there is one of this name")

    def amend(self, job: str, now: float, **changes: Any) -> None:
        """Change what a job asks for; it keeps its place among the jobs of its priority.

        :param changes: fields of `Job` with their new values. All but ``name`` and ``tenant`` of a
            job that waits; only ``run_time`` of a job that runs.
        :raises KeyError: there is no such job.
        :raises ValueError: a field cannot change, or is out of range; no part enforces a constraint
            of the job, as with `submit`; there are no changes; or the time goes back.
        :raises TypeError: there is no such field, or a value is of a wrong type.

        If a job's victims have to stop, it waits for them no more, but they still stop. A job that
        can never start as it is now is rejected by the next `decide`.

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
        """A running job has ended.

        :raises KeyError: there is no such job.
        :raises ValueError: it does not run, or the time goes back.
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
        """Remove a job, whether it runs or waits.

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
        """A running job has failed: it waits again, at its old place in the queue.

        :param pod: "role/index" of a pod that has failed. If it has joined its job later, or
            `Job.on_failure` says so, it alone waits again, and the others run on. ``None``: the
            whole job.
        :raises KeyError: there is no such job, or it has no such pod.
        :raises ValueError: it does not run, or the time goes back.
        """
        with self._lock:
            live = self._running(job)
            moment = self._state.moment(now)
            unit = None
            if pod is not None:
                name = as_text(pod, "pod")
                live = live.extras.get(f"{job}/{name}", live)
                unit = live.unit_of(name)
                if unit is None:
                    raise KeyError(f"pod={pod!r}: job {job!r} runs no such pod")
                gone = [one for one in unit.placed if f"{one.role}/{one.index}" == name]
            with self._state.transaction():
                self._state.happens(moment)
                if live.for_job:
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
        """A job that `decide` preempted has stopped, or a pod by which it is to `Shrink`.

        :param pod: "role/index" of the pod; ``None``: the whole job.
        :raises KeyError: there is no such job, or it has no such pod above its least.
        :raises ValueError: it does not have to stop, or has stopped already; or the time goes back.
        """
        with self._lock:
            live, name = self._live(job), pod if pod is None else as_text(pod, "pod")
            if name is not None:
                if f"{job}/{name}" not in live.extras:
                    raise KeyError(f"pod={name!r}: job {job!r} has no such pod above its least")
                live = live.extras[f"{job}/{name}"]
            moment = self._state.moment(now)
            if not live.for_job or live.has_stopped:
                raise ValueError(f"job={live.job.name!r}: it was not to stop")
            with self._state.transaction():
                self._state.now = moment
                has_stopped(self._state, live)
            self._note("stopped", job=job, **({} if name is None else {"pod": name}))

    def move(self, moves: Move | Iterable[Move], now: float) -> None:
        """Jobs have stopped and continue elsewhere, as a plan of `plan_moves` says.

        :param moves: a move, or those of a step of a plan: all jobs stop before the first starts
            again.
        :raises KeyError: there is no such job.
        :raises ValueError: a job does not run, is not preemptible, has to stop, or is named twice;
            there are no moves; or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        :raises StaleDecisionError: something has changed since the plan was made, so that a job is
            not where its move says, or would not get what it says.

        The jobs count as started now. Their quotas do not change.
        """
        given = (moves,) if isinstance(moves, Move) else as_tuple(moves, "moves")
        with self._lock:
            moment = self._state.moment(now)
            lives = [self._movable(one) for one in given]
            if not lives or len({live.job.name for live in lives}) < len(lives):
                raise ValueError("moves: must be of one job at least, and of each but once")
            with self._state.transaction():
                for live in lives:
                    live.note(self._state.log)
                    for unit in live.units:
                        unit.note(self._state.log)
                carry_out(self._state.stages.without_quotas(), lives, given)
                self._state.happens(moment)
                for live in lives:
                    self._state.restart(live, moment)
            self._note("move", moves=[plain_record(one) for one in given])

    def _movable(self, move: Move) -> Live:
        if not isinstance(move, Move):
            raise TypeError(f"moves must hold Moves, not {type(move).__name__}")
        live = self._live(move.job)
        if not may_move(self._state.stages, live):
            raise ValueError(f"moves: job {move.job!r} does not run, has to stop, or has to stay")
        return live

    def advance(self, now: float) -> None:
        """Time has passed: give up jobs that have waited too long for their victims.

        :raises ValueError: it goes back.
        """
        with self._lock:
            moment = self._state.moment(now)
            with self._state.transaction():
                self._state.now = moment
                give_up_late(self._state)
            self._note("advance")
