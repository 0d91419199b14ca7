"""A small Slurm in memory: it misbehaves as the real one was seen to."""

import re
from dataclasses import dataclass

from hivecore.interop.slurm import compress_hostlist, expand_hostlist
from hivecore.interop.slurm.live.features import has_features
from hivecore.interop.slurm.live.queue import EXCLUDED, EXCLUDED_OF_ALL


@dataclass
class FakeJob:
    number: int
    count: int
    each: int
    account: str = "vision"
    partition: str = "main"
    held: bool = True
    nodes: tuple = ()
    wanted: tuple = ()
    barred: tuple = ()
    gpus: dict = None
    restarts: int = 0
    nice: int = 0
    begin: float = 0.0
    limit: str = "1:00:00"
    dependency: str = "(null)"
    kind: str = ""
    features: str = ""
    reservation: str = ""
    most: int = 0  # nodes
    sharing: str = "OK"
    contiguous: int = 0
    switches: int = 0
    may_requeue: bool = True  # no job of srun or salloc, nor one with --no-requeue
    admin_comment: str = "hivecore:"  # of the submit plugin; "": it is not used


class FakeSlurm:
    """Answers the commands that a broker runs; `tick` starts what may start."""

    def __init__(self, nodes=4, gpus=8):
        self.free = {f"n{i}": set(range(gpus)) for i in range(1, nodes + 1)}
        self.total, self.down = gpus, set()
        self.sizes = {}  # by node, where it has another number of GPUs
        self.kinds, self.features, self.partitions = {}, {}, {}  # by node, where it has some
        self.closed = set()  # partitions
        self.jobs, self.last, self.now = {}, 0, 0.0
        self.ended = {}
        self.answers = True
        self.crash_after = None  # so many commands are obeyed before the broker dies
        self.obeyed = []

    def submit(self, count=1, each=1, **more):
        self.last += 1
        self.jobs[self.last] = FakeJob(self.last, count, each, gpus={}, **more)
        return str(self.last)

    def end(self, number):
        self.ended[int(number)] = job = self.jobs.pop(int(number))
        self._free(job)

    def _free(self, job):
        for node, gpus in job.gpus.items():
            self.free[node] |= gpus
        job.nodes, job.gpus = (), {}

    def lose(self, node):
        """A node goes down: its jobs are requeued, not held."""
        self.down.add(node)
        for job in self.jobs.values():
            if node in job.nodes:
                self._requeue(job)

    def _requeue(self, job):
        self._free(job)
        job.restarts, job.begin = job.restarts + 1, self.now + 120

    def tick(self):
        """Start what is released, in order; a list that is too short is filled up."""
        for job in self.jobs.values():
            if job.nodes or job.held or job.begin > self.now or job.dependency != "(null)":
                continue
            if len(job.wanted) > job.count:
                continue
            fit = [
                node
                for node, free in self.free.items()
                if node not in self.down and len(free) >= job.each and node not in job.barred
                if len(free) == self.total or not (job.sharing == "NO" or self._is_closed(node))
                if job.kind in self.kinds.get(node, "")
                if has_features(job.features, self.features.get(node, ()))
                if {*job.partition.split(",")} & {*self._partitions_of(node)} - self.closed
            ]
            if not set(job.wanted) <= set(fit):
                continue
            chosen = [*job.wanted, *(node for node in fit if node not in job.wanted)][: job.count]
            if len(chosen) == job.count:
                job.nodes = tuple(sorted(chosen))
                for node in chosen:
                    most = None if job.sharing == "NO" else job.each
                    job.gpus[node] = set(sorted(self.free[node])[:most])
                    self.free[node] -= job.gpus[node]

    def _is_closed(self, node):
        return any(node in job.nodes and job.sharing != "OK" for job in self.jobs.values())

    def __call__(self, command, text=""):
        if not self.answers:
            raise OSError("squeue: Unable to contact slurm controller (connect failure)")
        if command in (EXCLUDED, EXCLUDED_OF_ALL):
            jobs = [job for job in self.jobs.values() if command != EXCLUDED or not job.nodes]
            rows = [(job.number, compress_hostlist(job.barred)) for job in jobs]
            return "".join(f"{number}|{nodes}\n" for number, nodes in rows)
        if command[0] == "squeue":
            return "".join(self._row(job) for job in reversed(self.jobs.values()))
        if command[0] == "sinfo":
            return "".join(map(self._node_rows, self.free))
        if "-d" in command:
            return "".join(self._details(line.split()[-1]) for line in text.splitlines())
        for line in self._commands(text):
            if self.crash_after is not None:
                self.crash_after -= 1
                if self.crash_after < 0:
                    raise KeyboardInterrupt
            self._obey(line)
        return text

    def _commands(self, text):
        for line in text.splitlines():
            word, _, jobs = line.partition(" ")
            if word == "release":
                yield from (f"release {job}" for job in jobs.split(","))
            else:
                yield line

    def _partitions_of(self, node):
        return self.partitions.get(node, ("main", "spare"))

    def _node_rows(self, node):
        state = "down*" if node in self.down else "idle"
        kind = f"{self.kinds[node]}:" if node in self.kinds else ""
        features = ",".join(self.features.get(node, ())) or "(null)"
        row = f"{node}|{state}|gpu:{kind}{self.sizes.get(node, self.total)}|64"
        return "".join(
            f"{row}|{part}|{features}|{'down' if part in self.closed else 'up'}\n"
            for part in self._partitions_of(node)
        )

    def _row(self, job):
        state, reason = ("RUNNING", "None") if job.nodes else ("PENDING", "Resources")
        if not job.nodes and not job.held and job.begin > self.now:
            reason = "BeginTime"
        nodes = compress_hostlist(job.nodes) if job.nodes else ""
        values = [job.number, state, reason, 0 if job.held else 7, job.count, nodes]
        kind = f"{job.kind}:" if job.kind else ""
        values += [
            f"gres:gpu:{kind}{job.each}" if job.each else "N/A",
            "N/A",
            "N/A",
            "N/A",
            job.nice,
            job.restarts,
            job.limit,
        ]
        values += [int(job.begin) or "N/A", job.account, "ann", job.partition, "(null)"]
        wanted = compress_hostlist(job.wanted) if job.wanted else ""
        values += [job.dependency, wanted, job.reservation or "(null)"]
        values += [job.most or job.count, job.sharing, job.contiguous, job.switches]
        values += [f"{job.features or '(null)'};", job.admin_comment]
        return "|".join(map(str, values)) + "|\n"

    def _details(self, number):
        parts = "".join(
            f"   Nodes={node} CPU_IDs=0 Mem=0 GRES=gpu:{len(gpus)}(IDX:{','.join(map(str, gpus))})"
            for node, gpus in self.jobs[int(number)].gpus.items()
        )
        return f"JobId={number} JobName=x{parts} MinCPUsNode=1\n"

    def _obey(self, line):
        self.obeyed.append(line)
        number = int(re.search(r"(?:jobid=| )(\d+)", line)[1])
        job = self.jobs.get(number)
        word = line.split()[0]
        if job is None and line.startswith("requeuehold ") and "incomplete" not in line:
            job = self.jobs[number] = self.ended.pop(number)  # it runs a second time
            job.held = True
        if job is None:
            return
        if word == "hold" and not job.nodes:
            job.held = True
        elif word == "release":
            job.held = False
        elif word == "requeuehold" and job.nodes and job.may_requeue:
            self._requeue(job)
            job.held = True
        elif word == "update":
            for pair in line.split()[2:]:
                key, _, value = pair.partition("=")
                if key == "reqnodelist":
                    job.wanted = expand_hostlist(value)
                elif key == "excnodelist":
                    job.barred = expand_hostlist(value)
                elif key == "starttime":
                    job.begin = 0.0
                elif key == "admincomment":
                    job.admin_comment = value
