"""The jobs of pods that have to stop for other jobs, and their pods that still run."""

from collections.abc import Iterable, Mapping

from hivecore.interop.extender.gangs import Gang, Member
from hivecore.interop.extender.requests import PREFIX
from hivecore.interop.kubernetes.messages import show
from hivecore.scheduler import Action, Preempt, Scheduler, Start

__all__ = ["Victims"]


class Victims:
    """The jobs of pods that have to stop for other jobs.

    :param gangs: the pods of each job, by its name.
    """

    def __init__(self, scheduler: Scheduler, gangs: Mapping[str, Gang]) -> None:
        self._scheduler, self._gangs = scheduler, gangs
        jobs = (job for job in scheduler if job.startswith(PREFIX))
        self._jobs = {job for job in jobs if scheduler.status(job).for_job}
        self._heirs: dict[str, str] | None = None  # of `_find_heirs`

    def add(self, job: str) -> None:
        """Note that a job has to stop."""
        if job.startswith(PREFIX):
            self._jobs.add(job)

    def changed(self) -> None:
        """Note that the scheduler has changed."""
        self._heirs = None

    def of(self, job: str) -> dict[str, list[str]]:
        """Return the ids of the pods to evict for a job, by node.

        They include victims whose preemptor is gone only if this job is the one that can start or
        preempt without them.
        """
        status = self._scheduler.status(job) if job in self._scheduler else None
        if status is None or status.state not in ("pending", "reserved"):
            return {}
        heirs = self._heirs_of(self._stopping())
        left = {victim for victim, heir in heirs.items() if heir == job}
        jobs = left.union(status.victims)
        if left and status.state == "pending":
            jobs |= self._next(job, left)
        pods: dict[str, list[str]] = {}
        for pod in self._running(sorted(jobs)):
            pods.setdefault(pod.node, []).append(pod.identity)
        return {node: sorted(pods[node]) for node in sorted(pods)}

    def leaving(self) -> dict[str, str]:
        """Return the pods to evict, by identity, each with the reason.

        A victim whose preemptor is gone stays, unless another job can start or preempt without it,
        or some of its pods have been replaced: those wait, so the rest leaves and all start again.
        """
        stopping = self._stopping()
        stopping |= self._heirs_of(stopping)
        reasons = {
            job: f"has to stop for {show(winner)}" if winner else "has lost pods, and starts again"
            for job, winner in stopping.items()
            if winner or self._has_lost_pods(job)
        }
        return {
            pod.identity: f"its job {show(pod.job)} {reasons[pod.job]}"
            for pod in self._running(reasons)
        }

    def _has_lost_pods(self, job: str) -> bool:
        """Whether other pods of a running job wait in place of some that are gone."""
        gang = self._gangs.get(job)
        if gang is None or not gang.unbound:
            return False
        bound = sum(bool(pod.node) and pod.slot is not None for pod in gang.members.values())
        return bound < len(self._scheduler.status(job).pods)

    def _running(self, jobs: Iterable[str]) -> Iterable[Member]:
        gangs = (self._gangs[job] for job in jobs if job in self._gangs)
        return (pod for gang in gangs for pod in gang.members.values() if pod.node)

    def _stopping(self) -> dict[str, str]:
        """Return the jobs that have to stop, each with the job for which; "": that one is gone."""
        stopping: dict[str, str] = {}
        for job in sorted(self._jobs):
            winner = self._scheduler.status(job).for_job if job in self._scheduler else ""
            if not winner:
                self._jobs.discard(job)
                continue
            is_there = winner in self._scheduler and job in self._scheduler.status(winner).victims
            stopping[job] = winner if is_there else ""
        return stopping

    # --- victims whose preemptors are gone

    def _heirs_of(self, stopping: Mapping[str, str]) -> dict[str, str]:
        """Return `_find_heirs` of victims whose preemptor is gone, kept until a change."""
        if self._heirs is None:
            self._heirs = self._find_heirs([job for job, winner in stopping.items() if not winner])
        return self._heirs

    def _next(self, job: str, left: Iterable[str]) -> set[str]:
        """Return the further victims of a job, if these were gone."""
        actions = self._without(left)
        return {
            action.job
            for action in actions
            if isinstance(action, Preempt) and action.for_job == job
        }

    def _find_heirs(self, left: list[str]) -> dict[str, str]:
        """Return which of these victims have to stop for another job, with that job."""
        heirs: dict[str, str] = {}
        # All of them first, then without each in turn: the fewest stop that admit another job.
        for kept in ("", *left) if left else ():
            fewer = [job for job in (heirs or left) if job != kept]
            heir = self._admitted(fewer, left)
            if heir:
                heirs = dict.fromkeys(fewer, heir)
            elif not kept:
                break
        return heirs

    def _admitted(self, stopped: list[str], left: list[str]) -> str:
        """Return the first other job that starts or preempts once these have stopped, or ""."""
        for action in self._without(stopped) if stopped else ():
            winner = action.for_job if isinstance(action, Preempt) else ""
            winner = action.job if isinstance(action, Start) else winner
            if winner and winner not in left:
                return winner
        return ""

    def _without(self, stopped: Iterable[str]) -> list[Action]:
        """Return what the scheduler would decide if these victims had stopped."""
        with self._scheduler.what_if() as branch:
            for job in sorted(stopped):
                if not branch.status(job).has_stopped:
                    branch.stopped(job, branch.now)
            return branch.decide(branch.now)
