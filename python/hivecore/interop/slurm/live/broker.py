"""The broker: it makes Slurm run what a scheduler decides.

Each round compares all that Slurm says with all that the scheduler believes, and corrects either.
What a broker remembers from round to round only saves work, so it can begin beside running jobs,
may die between any two commands, and need not know whether Slurm has obeyed: what did not happen
shows in the next round. A job that runs elsewhere than decided is adopted where it runs.
"""

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from math import inf
from operator import attrgetter
from typing import Any, Self

from hivecore._arguments import LONGEST, as_choice
from hivecore._record import between
from hivecore._thousandths import Amount
from hivecore.errors import StaleDecisionError
from hivecore.interop.slurm.live.commands import HOW, commands, run_command
from hivecore.interop.slurm.live.places import Places
from hivecore.interop.slurm.live.queue import (
    EXCLUDED,
    NODES,
    QUEUE,
    TYPED_QUEUE,
    SlurmJob,
    SlurmNode,
    lines_of,
    read_details,
    read_excluded,
    read_nodes,
    read_queue,
)
from hivecore.scheduler import (
    Action,
    Job,
    PlacedPod,
    Preempt,
    Reject,
    Role,
    Scheduler,
    Start,
    Where,
)
from hivecore.scheduler.history.capacity import gpus_by_node

__all__ = ["Broker"]

_RUNS = ("running", "lent")
_MOST_SWITCH_WAIT = 300.0  # seconds
_seconds = between(0.0, LONGEST)
_Gpus = Mapping[str, tuple[int, ...]]


class Broker:
    """Lets a scheduler decide for a Slurm of which jobs with GPUs wait held.

    :param scheduler: with the nodes of Slurm by name, and victims that take time to stop.
    :param run: runs a command with a text as its input and returns what it prints, or raises
        `OSError`.
    :param tenant: as of `read_queue`.
    :param spare: as of `read_queue`.
    :param how: as of `commands`.
    :param typed: as of `commands`.
    :param patience: seconds that a released job may take to start, or a victim to stop, before
        Slurm gets the command again.
    :param node_interval: seconds after which Slurm is asked for its nodes again; it is asked at
        once when a job does not start, or has to be started again.
    :param switch_wait: seconds that a job waits, from when it could start, for a place under fewer
        switches: where one domain of a layer could hold it, and its nodes would be in several.
        ``None``: a tenth of its time limit, at most the 300 seconds of Slurm's ``max_switch_wait``.
    :raises ValueError: the scheduler's victims stop at once, or a value is out of range.

    ``problems`` has by job why hivecore cannot place it or account for it, in words.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        run: Callable[..., str] = run_command,
        *,
        tenant: str = "account",
        spare: Collection[str] = (),
        how: str = "require",
        typed: bool = False,
        patience: float = 10.0,
        node_interval: float = 5.0,
        switch_wait: float | None = None,
    ) -> None:
        if scheduler.immediate:
            raise ValueError("scheduler: its victims stop at once, those of Slurm take time")
        self.scheduler = scheduler
        self.problems: dict[str, str] = {}
        self._run, self._tenant, self._spare = run, tenant, tuple(spare)
        self._how, self._typed = as_choice(how, "how", HOW), typed
        self._places = Places(self._how, typed)
        self._patience = _seconds(patience, "patience")
        self._node_interval = _seconds(node_interval, "node_interval")
        self._switch_wait: float | None = None
        if switch_wait is not None:
            self._switch_wait = _seconds(switch_wait, "switch_wait")
        #: by job until when it waits for fewer switches; infinite: it waits for them no more
        self._close: dict[str, float] = {}
        self._next_nodes = -1e18  # when Slurm is asked for its nodes again
        self._nodes_read = -1e18
        self._jobs: dict[str, SlurmJob] = {}
        self._rows: dict[str, SlurmJob] = {}  # by what squeue has printed
        self._nodes: dict[str, SlurmNode] = {}
        #: nodes of the scheduler that Slurm does not have, or of which it has fewer GPUs
        self._lacking: set[str] = set()
        self._in_books: dict[str, Amount] = {}  # by node of the scheduler how many GPUs it has
        self._node_gpus = 0  # of the largest
        self._healthy: dict[str, bool] = {}  # as the scheduler knows it
        self._odd: set[str] = set()  # nodes with jobs that the scheduler cannot account for
        # By job the time and restarts of its release.
        self._released: dict[str, tuple[float, int]] = {}
        self._stopping: dict[str, float] = {}  # by victim when its stop was requested
        #: by job its nodes and restarts when it was found where the scheduler believes it is
        self._right: dict[str, tuple[tuple[str, ...], int]] = {}
        self._refused: dict[str, Job | None] = {}  # as they were when the scheduler refused them
        #: jobs that Slurm could have started: what it says of their start is what it expected
        self._free: dict[str, None] = {}
        self._let_go: dict[str, float] = {}  # by job that is left to Slurm when it was released
        self._now = 0.0

    def __copy__(self) -> Self:
        return deepcopy(self)

    @property
    def jobs(self) -> dict[str, SlurmJob]:
        """The jobs that ask for GPUs, as Slurm described them in the last round, by number."""
        return self._jobs.copy()

    @property
    def switch_waits(self) -> dict[str, float]:
        """By job that could start until when it waits for fewer switches, in seconds."""
        return {name: end for name, end in self._close.items() if end < inf}

    def step(self, now: float) -> list[Action]:
        """One round: read Slurm, tell the scheduler, let it decide, tell Slurm.

        :returns: the actions that were decided; none if Slurm does not answer.
        :raises FileNotFoundError: Slurm's commands are not installed.
        :raises ValueError: what Slurm prints cannot be read.
        """
        self._now = max(_seconds(now, "now"), self.scheduler.now)
        try:
            lines = self._catch_up()
        except FileNotFoundError:
            raise
        except OSError:
            return []
        actions = self._decide()
        for action in actions:
            lines += self._carry_out(action)
        if lines:
            self._send(lines)
        return actions

    def _decide(self) -> list[Action]:
        self._wait_no_longer()
        actions = self.scheduler.decide(self._now)
        while back := [action for action in actions if self._holds_back(action)]:
            actions = [action for action in actions if action not in back]
            actions += self.scheduler.decide(self._now)
        return actions

    def _holds_back(self, action: Action) -> bool:
        """Whether a start is undone, as it would be under too many switches, or a job had to stop
        for another, could not be amended meanwhile, and may not run there now.
        """
        if isinstance(action, Preempt):
            self._close.setdefault(action.for_job, inf)
        if not isinstance(action, Start):
            return False
        job = self._jobs.get(action.job)
        nodes = {*job.job.where.nodes} if job and job.job else set()
        if job and nodes and not nodes.issuperset(pod.node for pod in action.pods):
            self.scheduler.fail(action.job, self._now)
            self._amend(job)
            return True
        if action.job in self._close:
            return False
        layer, wait = self._layer_for(action), self._wait_of(action.job)
        if not (layer and wait):
            return False
        self._close[action.job] = self._now + wait
        self.scheduler.fail(action.job, self._now)
        where = self.scheduler.job(action.job).where.replace(must=layer)
        self.scheduler.amend(action.job, self._now, where=where)
        return True

    def _wait_of(self, name: str) -> float:
        """How long a job may wait for a place under fewer switches."""
        if self._switch_wait is not None:
            return self._switch_wait
        limit = self.scheduler.job(name).run_time
        return _MOST_SWITCH_WAIT if limit is None else min(_MOST_SWITCH_WAIT, limit / 10)

    def _layer_for(self, start: Start) -> str:
        """The narrowest layer of which one domain could hold a job whose nodes are in several."""
        topology, job = self.scheduler.topology, self._jobs.get(start.job)
        if topology is None or job is None:
            return ""
        paths = {topology.domain(pod.node)[:-1] for pod in start.pods}
        allowed = self.scheduler.job(start.job).where.nodes or self._nodes
        fit = {name for name, node in self._nodes.items() if node.gpus >= job.each} & {*allowed}
        for at, layer in reversed([*enumerate(topology.layers)]):
            if len({path[: at + 1] for path in paths}) == 1:
                return ""
            if any(len(fit & {*domain}) >= job.count for domain in topology.domains(layer)):
                return layer
        return ""

    def _wait_no_longer(self) -> None:
        late = [name for name, end in self._close.items() if end <= self._now]
        for name in late:
            if name in self.scheduler and self.scheduler.state(name) == "pending":
                self._close[name] = inf
                where = self.scheduler.job(name).where.replace(must="")
                self.scheduler.amend(name, self._now, where=where)

    def _send(self, lines: list[str]) -> None:
        try:
            self._run(("scontrol",), "\n".join(_with_releases_joined(lines)) + "\n")
        except OSError:
            return  # the next round finds what was not done

    def _catch_up(self) -> list[str]:
        """Read Slurm and tell the scheduler; returns the commands for what must not be."""
        if self._now >= self._next_nodes:
            self._read_nodes()
        jobs = self._read_jobs()
        if any(map(self._has_no_start, jobs)):
            self._read_nodes()
        running = [job for job in jobs if job.nodes and not job.waits]
        details = self._details([job for job in running if self._is_new(job)])
        # from here on nothing is read: else an action could be for a job as it was a round ago
        changed = [job for job in jobs if not self._waits_as_before(job)]
        changed.sort(key=attrgetter("number"))  # squeue begins with the latest
        self._jobs = {job.id: job for job in jobs}
        self._forget_ended()
        lines = [line for job in changed if job.waits for line in self._waits(job)]
        lines += self._check_running(running, details)
        for name, node in self._nodes.items():
            odd = name in self._odd or name in self._lacking
            self._tell_node(name, node.healthy and not odd)
        for name in self._lacking - self._nodes.keys():
            self._tell_node(name, False)
        return lines

    def _read_nodes(self) -> None:
        self._nodes = {node.name: node for node in read_nodes(self._run(NODES))}
        node_gpus = max((node.gpus for node in self._nodes.values()), default=0)
        if self._places.renew(self._nodes.values()) or node_gpus != self._node_gpus:
            self._node_gpus, self._rows = node_gpus, {}
            self._in_books = {}
        parts = self.scheduler.topology, self.scheduler.devices, self.scheduler.cells
        known = {name for part in parts if part is not None for name in part.nodes}
        if self._in_books.keys() != known:
            self._in_books = {**dict.fromkeys(known, 0), **gpus_by_node(self.scheduler)}
        self._lacking = {
            name
            for name, gpus in self._in_books.items()
            if name not in self._nodes or self._nodes[name].gpus < gpus
        }
        self._next_nodes = self._now + self._node_interval
        self._nodes_read = self._now

    def _read_jobs(self) -> list[SlurmJob]:
        """The jobs that ask for GPUs; a row that was there in the last round is not read again."""
        text = self._run(TYPED_QUEUE if self._typed else QUEUE)
        rows = lines_of(text)
        new = [row for row in rows if row not in self._rows]
        read = read_queue(
            "\n".join(new),
            tenant=self._tenant,
            spare=self._spare,
            node_gpus=self._node_gpus,
            typed=self._typed,
            has_cells=self.scheduler.cells is not None,
        )
        waits = any(map(self._may_exclude, read))
        excluded = read_excluded(self._run(EXCLUDED)) if waits else {}
        read = tuple(self._places.with_place(job, excluded.get(job.id, ())) for job in read)
        known = self._rows | dict(zip(new, read, strict=True))
        self._rows = {row: known[row] for row in rows}
        return [
            job for job in self._rows.values() if job.each or job.problem or self._takes_whole(job)
        ]

    def _may_exclude(self, job: SlurmJob) -> bool:
        """Whether a waiting job may exclude nodes; an operator may have added some before."""
        has_none = bool(self._rows) and job.lists is not None and "exclude" not in job.lists
        return job.job is not None and job.waits and not has_none

    def _takes_whole(self, job: SlurmJob) -> bool:
        """Whether it asks for no GPUs and runs alone on nodes that have some."""
        return job.whole and any(self._size(node) for node in job.nodes)

    def _size(self, node: str) -> int:
        return self._nodes[node].gpus if node in self._nodes else 0

    def _waits_as_before(self, job: SlurmJob) -> bool:
        """Whether it is held as in the last round, and nothing was decided for it since."""
        name = job.id
        same = job.held and job.waits and self._jobs.get(name) is job and name in self.scheduler
        return same and name not in self._released and name not in self._stopping

    def _has_no_start(self, job: SlurmJob) -> bool:
        """Whether it waits though it ran, or was released a while ago: a node may be lost."""
        known = job.id in self._right or job.id in self._released
        return job.waits and known and not self._is_early(job)

    def _is_early(self, job: SlurmJob) -> bool:
        """Whether it was released a short while ago and has not run since."""
        released_at, restarts = self._released.get(job.id, (-1e18, 0))
        return self._now - released_at <= self._patience and restarts == job.restarts

    def _tell_node(self, name: str, healthy: bool) -> None:
        if self._healthy.get(name, True) != healthy:
            self._healthy[name] = healthy
            try:
                self.scheduler.set_node(name, healthy, self._now)
            except KeyError:
                return  # a node of Slurm that is not for this scheduler

    def _forget_ended(self) -> None:
        for name in [name for name in self.scheduler if name not in self._jobs]:
            self._end(name)
        by_job: tuple[dict[str, Any], ...] = (self.problems, self._released, self._stopping)
        by_job += self._right, self._close, self._let_go, self._refused, self._free
        for known in by_job:
            for name in known.keys() - self._jobs.keys():
                del known[name]
        self._places.forget_others(self._jobs)

    def _end(self, name: str) -> None:
        status = self.scheduler.status(name)
        if status.state in _RUNS and not status.for_job:
            self.scheduler.finish(name, self._now)
        elif not status.is_ending:
            self.scheduler.cancel(name, self._now)

    # --- jobs that wait in Slurm

    def _waits(self, job: SlurmJob) -> list[str]:
        name = job.id
        self._right.pop(name, None)
        if job.left:
            return self._leave(job)
        known = name in self.scheduler
        victim = known and self.scheduler.status(name).for_job
        if not job.held and self._is_early(job) and not victim:
            return []
        lines = [] if job.held else [f"hold {name}"]
        if not job.held and job.reason not in ("BeginTime", "None"):
            self._free[name] = None
        self._released.pop(name, None)
        if known:
            self._waits_again(job)
        if name in self.scheduler:
            self._amend(job)
        elif job.problem:
            self.problems[name] = job.problem
        elif not (job.depends or self._refused.get(name) == job.job or job.is_later(self._now)):
            self._submit(job)
        return lines

    def _leave(self, job: SlurmJob) -> list[str]:
        """Let Slurm decide; a job that was held after it had run stays held."""
        name = job.id
        self.problems[name] = job.problem
        self._stopping.pop(name, None)
        if name in self.scheduler and not self.scheduler.status(name).is_ending:
            self.scheduler.cancel(name, self._now)
        late = self._now - self._let_go.get(name, -1e18) > self._patience
        if not job.held or job.restarts or not late:
            return []
        self._let_go[name] = self._now
        wish = [f"update jobid={name} gres=gpu:{job.each}"] if self._typed else []
        return [*wish, f"release {name}"]  # where GPUs have types, only its comment says the wish

    def _waits_again(self, job: SlurmJob) -> None:
        """It has stopped for another job; or it ran and was requeued, or did not start."""
        name = job.id
        status, known = self.scheduler.status(name), self.scheduler.job(name)
        self._stopping.pop(name, None)
        if status.for_job:
            self.problems.pop(name, None)
            if not status.has_stopped:
                self.scheduler.stopped(name, self._now)
        elif status.state in _RUNS:
            # one that was adopted, otherwise than it is submitted, need not be possible
            wanted = job.job or known
            same = (wanted.roles, wanted.preemptible) == (known.roles, known.preemptible)
            (self.scheduler.fail if same else self.scheduler.cancel)(name, self._now)

    def _amend(self, job: SlurmJob) -> None:
        """What it asks for was changed; or it was adopted as it ran, and may run otherwise."""
        status, known = self.scheduler.status(job.id), self.scheduler.job(job.id)
        if status.state not in ("pending", "reserved") or status.for_job:
            return
        new = job.job
        # when Slurm could have started a job, before it was held again, is no wish
        is_wish = job.reason == "BeginTime" or job.id not in self._free
        later = job.depends or (is_wish and job.is_later(self._now))
        if later or new is None or new.tenant != known.tenant:
            self.scheduler.cancel(job.id, self._now)  # another round submits it, if it can be
            return
        fields = ("roles", "priority", "guaranteed", "run_time")
        wanted: dict[str, Any] = {name: getattr(new, name) for name in fields}
        changes = {name: it for name, it in wanted.items() if it != getattr(known, name)}
        if new.where.nodes != known.where.nodes:
            changes["where"] = known.where.replace(nodes=new.where.nodes)
        if changes:
            self.scheduler.amend(job.id, self._now, **changes)

    def _submit(self, job: SlurmJob) -> None:
        assert job.job is not None
        try:
            self.scheduler.submit(job.job, self._now)
            self.problems.pop(job.id, None)
        except (KeyError, ValueError) as error:
            self._refuse(job.id, str(error))

    def _refuse(self, name: str, why: str) -> None:
        self._refused[name] = self._jobs[name].job if name in self._jobs else None
        self.problems[name] = why

    # --- jobs that run in Slurm

    def _check_running(self, jobs: list[SlurmJob], details: Mapping[str, _Gpus]) -> list[str]:
        lines, new = [], []
        for job in jobs:
            if job.id in self.scheduler and self.scheduler.status(job.id).for_job:
                lines += self._stop_again(job)
            elif self._is_new(job):
                new.append(job)
        if not new and not self._odd:
            return lines
        wrong = [job for job in new if not self._is_right(job, details.get(job.id, {}))]
        for job in wrong:
            if job.id in self.scheduler:
                self.scheduler.cancel(job.id, self._now)
        if self._nodes_read == self._now:  # a job may also run on a node that takes no others
            for node in [node for job in wrong for node in job.nodes]:
                self._tell_node(node, True)
        self._odd = set()
        for job in wrong:
            self._adopt(job, details.get(job.id, {}))
        return lines

    def _is_new(self, job: SlurmJob) -> bool:
        """Whether a job that runs has not been found where the scheduler believes it is."""
        same = self._right.get(job.id) == (job.nodes, job.restarts) or job.state == "COMPLETING"
        return job.id not in self.scheduler or not same

    def _stop_again(self, job: SlurmJob) -> list[str]:
        if self._now - self._stopping.get(job.id, -1e18) <= self._patience:
            return []
        if job.id in self._stopping and job.state != "COMPLETING":
            for_job = self.scheduler.status(job.id).for_job
            self.problems[job.id] = f"has to stop for job {for_job}, but Slurm does not requeue it"
        self._stopping[job.id] = self._now
        return [f"requeuehold incomplete {job.id}"]

    def _details(self, jobs: list[SlurmJob]) -> dict[str, dict[str, tuple[int, ...]]]:
        names = [job.id for job in jobs if self._typed or job.id not in self.scheduler]
        if not names:
            return {}
        lines = "\n".join(f"show job {name}" for name in names)
        return read_details(self._run(("scontrol", "-d", "-o"), lines + "\n"))

    def _is_right(self, job: SlurmJob, gpus: _Gpus) -> bool:
        """Whether a job runs where the scheduler believes it runs."""
        if job.id not in self.scheduler:
            return False
        status = self.scheduler.status(job.id)
        if status.state not in _RUNS or {pod.node for pod in status.pods} != {*job.nodes}:
            return False
        most = None if job.whole else job.each
        if self._typed and any(gpus.get(pod.node, ()) != pod.gpus[:most] for pod in status.pods):
            return False
        self._right[job.id] = job.nodes, job.restarts
        return True

    def _adopt(self, job: SlurmJob, gpus: _Gpus) -> None:
        """Take up a job where it runs; where that cannot be, its nodes get no jobs."""
        since = min(max(job.start, 0.0), self._now)
        if job.left:
            self.problems.pop(job.id, None)
        adopted, placed = _as_it_runs(job, gpus, {node: self._size(node) for node in job.nodes})
        bare = [pod.replace(minors=()) for pod in placed]
        known = any(role.gpus for role in adopted.roles)
        reason = "" if known else "Slurm does not say how many GPUs it has"
        # without types GPUs of Slurm may be others in the books
        for pods in (placed, *[bare] * (not self._typed)) if known else ():
            try:
                self.scheduler.adopt(adopted, pods, self._now, since=since)
            except (KeyError, ValueError, StaleDecisionError) as error:
                reason = str(error)
            else:
                self._right[job.id] = job.nodes, job.restarts
                self.problems.pop(job.id, None)
                return
        self.problems[job.id] = reason
        self._odd.update(job.nodes)

    # --- what was decided

    def _carry_out(self, action: Action) -> list[str]:
        if isinstance(action, Reject) and self._close.get(action.job, inf) < inf:
            self._close[action.job] = inf  # it may fit elsewhere: the next round submits it
        elif isinstance(action, Reject):
            self._refuse(action.job, action.reason)
        job = self._jobs.get(getattr(action, "job", ""))
        if job is None or isinstance(action, Reject):
            return []
        if isinstance(action, Preempt):
            self._stopping[job.id] = self._now
        try:
            lines = commands(action, job, self._how, self._typed, nodes=self._nodes)
        except ValueError as error:
            if isinstance(action, Start):
                known = self.scheduler.job(job.id)
                self.scheduler.cancel(job.id, self._now)
                if job.job and job.job.roles == known.roles:  # else it was changed meanwhile
                    self._refuse(job.id, str(error))
            return []
        if isinstance(action, Start):
            self._released[job.id], self._free[job.id] = (self._now, job.restarts), None
            self._places.overwrites(job.id)
        return lines


def _with_releases_joined(lines: list[str]) -> list[str]:
    """One command releases all jobs at last: Slurm takes half the time that it takes for each."""
    jobs = [line.partition(" ")[2] for line in lines if line.startswith("release ")]
    rest = [line for line in lines if not line.startswith("release ")]
    return [*rest, f"release {','.join(jobs)}"] if jobs else rest


def _as_it_runs(
    job: SlurmJob, gpus: _Gpus, sizes: Mapping[str, int]
) -> tuple[Job, list[PlacedPod]]:
    """A job with a role for each number of GPUs that it has on a node, and its pods."""
    by_count: dict[int, list[str]] = {}
    for node in job.nodes:
        own = gpus.get(node, ())
        count = job.whole * sizes[node] or len(own) or job.each
        by_count.setdefault(count, []).append(node)
    names = {count: "node" if len(by_count) == 1 else f"gpus{count}" for count in by_count}
    apart = 1 if len(by_count) == 1 and len(job.nodes) > 1 else None
    roles = [
        Role(names[count], len(nodes), gpus=count, per_node=apart)
        for count, nodes in by_count.items()
    ]
    pods = [
        PlacedPod(
            names[count],
            index,
            node,
            (("gpu", gpus[node]),) if count and len(gpus.get(node, ())) == count else (),
        )
        for count, nodes in by_count.items()
        for index, node in enumerate(nodes)
    ]
    job_now = job.job or Job(job.id, job.tenant, [Role("node")], preemptible=not job.whole)
    where = job_now.where
    if where.nodes and not {*job.nodes} <= {*where.nodes}:
        where = Where()  # Slurm allows what it does
    return job_now.replace(roles=roles, where=where), pods
