"""What hivecore would have started, and when, beside what a live Slurm starts; nothing is changed.

A job ends in the shadow as long after its start there as it really ran, once that is known; until
then it runs on, at most for its time limit.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from copy import deepcopy
from typing import Self

from hivecore._record import Record
from hivecore.interop.slurm.live.commands import run_command
from hivecore.interop.slurm.live.node_states import is_usable
from hivecore.interop.slurm.live.places import Places
from hivecore.interop.slurm.live.queue import (
    EXCLUDED_OF_ALL,
    NODES,
    QUEUE,
    SlurmJob,
    SlurmNode,
    read_excluded,
    read_nodes,
    read_queue,
)
from hivecore.scheduler import Preempt, Scheduler, Start
from hivecore.scheduler.history.capacity import gpus_by_node

__all__ = ["Shadow", "ShadowRow"]


class ShadowRow(Record, frozen=True):
    """A job in Slurm and in the shadow; times are in seconds, ``None``: not yet.

    :param first: when it was seen first.
    :param slurm: when Slurm started it.
    :param shadow: when hivecore would have started it.
    """

    job: str
    tenant: str
    gpus: int
    first: float
    slurm: float | None = None
    shadow: float | None = None


class Shadow:
    """Follows a live Slurm with a scheduler of its own.

    :param scheduler: with the nodes of Slurm by name, and victims that stop at once.
    :param run: as of `Broker`.
    :param tenant: as of `read_queue`.
    :param spare: as of `read_queue`.
    :raises ValueError: the scheduler's victims take time to stop.

    It begins with an empty cluster in which all jobs that are there arrive at once, those that run
    first. Jobs that a `Broker` leaves to Slurm are not in it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        run: Callable[..., str] = run_command,
        *,
        tenant: str = "account",
        spare: Collection[str] = (),
    ) -> None:
        if not scheduler.immediate:
            raise ValueError("scheduler: its victims take time to stop, those of a shadow do not")
        self.scheduler = scheduler
        self._run, self._tenant, self._spare = run, tenant, tuple(spare)
        self._places = Places("")
        self._healthy: dict[str, bool] = {}  # nodes as the scheduler knows them
        self._rows: dict[str, ShadowRow] = {}
        self._lengths: dict[str, float] = {}  # by job how long it really ran
        self._now = 0.0

    def __copy__(self) -> Self:
        return deepcopy(self)

    @property
    def rows(self) -> tuple[ShadowRow, ...]:
        """All jobs that were seen, in this order."""
        return tuple(self._rows.values())

    @property
    def table(self) -> str:
        """A line for each job with the seconds that it waited in both, and their means."""
        lines = [_line("job", "tenant", "GPUs", "Slurm", "hivecore")]
        for row in self._rows.values():
            waits = [_wait(row.first, start) for start in (row.slurm, row.shadow)]
            lines.append(_line(row.job, row.tenant, str(row.gpus), *waits))
        both = [
            (max(0.0, row.slurm - row.first), row.shadow - row.first)
            for row in self._rows.values()
            if row.slurm is not None and row.shadow is not None
        ]
        if both:
            means = [f"{sum(waits) / len(both):.1f}" for waits in zip(*both, strict=True)]
            lines.append(_line("mean", f"of {len(both)}", "", *means))
        return "".join(lines)

    @property
    def waits(self) -> dict[str, list[float]]:
        """The seconds that jobs waited which have started, in "Slurm" and in "hivecore"."""
        rows = self._rows.values()
        starts = {"Slurm": [(row.first, row.slurm) for row in rows]}
        starts["hivecore"] = [(row.first, row.shadow) for row in rows]
        return {
            name: [max(0.0, start - first) for first, start in each if start is not None]
            for name, each in starts.items()
        }

    def step(self, now: float) -> None:
        """One round.

        :raises OSError: Slurm does not answer.
        :raises ValueError: what Slurm prints cannot be read.
        """
        self._now = max(now, self.scheduler.now)
        nodes = read_nodes(self._run(NODES))
        node_gpus = max((node.gpus for node in nodes), default=0)
        self._places.renew(nodes)
        self._tell_nodes(nodes)
        text = self._run(QUEUE)
        read = read_queue(
            text,
            tenant=self._tenant,
            spare=self._spare,
            node_gpus=node_gpus,
            has_cells=self.scheduler.cells is not None,
        )
        excluded = read_excluded(self._run(EXCLUDED_OF_ALL))
        placed = [self._places.with_place(job, excluded.get(job.id, ())) for job in read]
        known = self._rows.keys()  # one that is left to Slurm later runs on
        jobs = {job.id: job for job in placed if job.id in known or (job.job and not job.left)}
        for job in sorted(jobs.values(), key=lambda job: (job.waits, job.number)):
            self._see(job)
        for name, row in self._rows.items():
            if name not in jobs and name not in self._lengths:
                self._lengths[name] = 0.0 if row.slurm is None else self._now - row.slurm
        self._end_jobs()
        self._decide()

    def _tell_nodes(self, nodes: Collection[SlurmNode]) -> None:
        """Let no job start on nodes that Slurm does not have, or not with as many GPUs."""
        books = gpus_by_node(self.scheduler)
        states = {node.name: node.state for node in nodes if node.gpus >= books.get(node.name, 0)}
        for name in books:
            state = states.get(name, "down").replace("planned", "idle").rstrip("-")
            healthy = is_usable(state)  # whatever Slurm plans for it
            if self._healthy.get(name, True) != healthy:
                self._healthy[name] = healthy
                self.scheduler.set_node(name, healthy, self._now)

    def _see(self, job: SlurmJob) -> None:
        if job.id not in self._rows:
            if job.waits and (job.depends or job.is_later(self._now)):
                return  # Slurm could not start it either
            assert job.job is not None
            self._rows[job.id] = ShadowRow(job.id, job.tenant, job.job.gpus, self._now)
            with suppress(KeyError, ValueError):  # a tenant that the file does not have
                self.scheduler.submit(job.job, self._now)
        if not job.waits and self._rows[job.id].slurm is None:
            started = min(job.start or self._now, self._now)
            self._rows[job.id] = self._rows[job.id].replace(slurm=started)

    def _end_jobs(self) -> None:
        for name in [*self.scheduler]:
            since = self.scheduler.status(name).since
            limit = self.scheduler.job(name).run_time or float("inf")
            if since is None:
                if self._rows[name].slurm is None and name in self._lengths:
                    self.scheduler.cancel(name, self._now)  # by its user
            elif self._now - since >= self._lengths.get(name, limit):
                self.scheduler.finish(name, self._now)

    def _decide(self) -> None:
        for action in self.scheduler.decide(self._now):
            if isinstance(action, Start | Preempt):
                started = self._now if isinstance(action, Start) else None
                self._rows[action.job] = self._rows[action.job].replace(shadow=started)


def _wait(first: float, start: float | None) -> str:
    return "waits" if start is None else f"{max(0.0, start - first):.1f}"


def _line(job: str, tenant: str, gpus: str, slurm: str, shadow: str) -> str:
    return f"{job:<10} {tenant:<12} {gpus:>5} {slurm:>9} {shadow:>9}\n"
