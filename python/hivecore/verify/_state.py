"""The state of jobs, followed action by action."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from hivecore.errors import InvariantError
from hivecore.quotas import QuotaRequest
from hivecore.scheduler import Job, PlacedPod, Role, Scheduler

__all__ = [
    "OF_CLASS",
    "Group",
    "Has",
    "Lone",
    "State",
    "amounts_of",
    "group_of",
    "hold",
    "is_of_devices",
    "lone_pod",
    "pod_name",
]


def hold(holds: bool, rule: str, what: str) -> None:
    """Raise `InvariantError` unless a rule holds."""
    if not holds:
        raise InvariantError(f"{rule}: {what}")


#: Suffix of the name under which a tree counts a unit's devices.
_DEVICES = "//devices"
#: Between a device class and a resource of its devices in quotas.
OF_CLASS = ".deviceclass.resource.k8s.io"


def is_of_devices(what: str) -> bool:
    """Whether this is a resource of a device class in quotas."""
    return what.partition(f"{OF_CLASS}/")[2].startswith(("capacity/", "counters/"))


class Has(NamedTuple):
    """A job and its pods."""

    job: Job
    pods: list[PlacedPod]


class Lone(Job, frozen=True, kw_only=True):
    """An extra pod of an elastic role as a job of its own, "job/role/number"."""

    @property
    def of(self) -> str:
        """The job of the pod."""
        return self.name.rsplit("/", 2)[0]


class Group(NamedTuple):
    """Pods on cells: (chain, node, GPU, level of the tenant's own cell) of each GPU."""

    owner: str
    tenant: str
    pin: str | None
    gpus: list[tuple[str, str, int, str]]


def group_of(owner: str, tenant: str, pin: str | None, placement: Any, mine: bool) -> Group:
    """Return the cells of a group.

    :param mine: whether it is guaranteed, so that it uses cells of its tenant.
    """
    gpus = [
        (pod.chain, pod.node, gpu, level if mine else "")
        for pod in placement
        for gpu, level in zip(pod.leaf_indices, pod.preassigned, strict=True)
    ]
    hold(not mine or all(level for *_, level in gpus), "guarantee", f"{owner!r} is on no cells")
    return Group(owner, tenant, pin, gpus)


class State:
    """What each job has, action by action."""

    def __init__(self, before: Scheduler) -> None:
        self.before = before
        self.jobs = {name: before.job(name) for name in before}
        self.tree = None if before.quotas is None else before.quotas.copy()
        self.network = None if before.topology is None else before.topology.copy()
        self.claims = None if before.claims is None else before.claims.copy()
        #: job -> what its devices take of capacities and counters, as charged to quotas
        self.of_devices: dict[str, Counter[str]] = defaultdict(Counter)
        if self.tree is not None and self.claims is not None:
            for name in filter(self.tree.members, self.tree.owners):
                for what, amount in self.tree.request(name).amounts:
                    if is_of_devices(what):
                        self.of_devices[self.job_of(name)][what] += Fraction(amount)  # type: ignore[assignment]
        self.preempting: dict[str, list[str]] = defaultdict(list)
        #: jobs that ask for nothing once they have stopped
        self.rejected: set[str] = set()
        #: what has been taken of each node since the start
        self.taken: dict[str, Counter[str]] = defaultdict(Counter)
        self.groups: list[Group] = []
        if before.cells is not None:
            for name in before.cells.groups():
                group = before.cells.group(name)
                tenant, pin = group.group.virtual_cluster, group.group.pinned_cell
                self.groups.append(group_of(name, tenant, pin, group.placement, group.guaranteed))
        of = {name: before.status(name) for name in before}
        #: jobs that others may have to start after
        self.known = set(of)
        #: jobs that must stop and have not restarted
        self.stopping = {name for name, status in of.items() if status.for_job}
        #: job -> jobs that it shares with; the first holds what they share
        self.together = {
            name: list(status.shares)
            for name, status in of.items()
            if status.pods and status.shares
        }
        for shared in list(self.together.values()):
            self.together.update(dict.fromkeys(shared, shared))
        #: jobs that quotas admitted before their victims stopped, which now have stopped
        self.admitted_before: set[str] = set()
        #: by job, and by extra pod, which comes and leaves by itself
        self.has: dict[str, Has] = {}
        for name, status in of.items():
            job = before.job(name)
            self.has[name] = Has(job, [pod for pod in status.pods if not lone_pod(job, pod)])
            lone = [(other, pod) for pod in status.pods if (other := lone_pod(job, pod))]
            self.has |= {other.name: Has(other, [pod]) for other, pod in lone}
        #: by victim, the job for which it has to stop
        self.winners = {name: before.status(name).for_job for name in self.has}
        self.stopping |= {name for name, winner in self.winners.items() if winner}
        for winner, status in of.items():
            if not status.victims:
                continue
            if status.state == "reserved":
                self.has.pop(winner)
            # A job may start with its reserved places once all of its victims have stopped.
            victims = {name: before.status(name) for name in status.victims}
            if all(victim.has_stopped for victim in victims.values()):
                if status.state == "reserved" and status.pods:
                    self.admitted_before.add(winner)
                self.hold_no_more(winner)
                for name, victim in victims.items():
                    self.leave(name, ends=victim.is_ending)

    def job_of(self, owner: str) -> str:
        """Return the job of a name in quotas, cells or a network.

        The name is the job's, optionally with "lent", "lost", "lost/role/number" or "role/number",
        and perhaps more after "//".
        """
        name = owner.partition("//")[0]
        if name in self.jobs:
            return name
        *_, last = parts = name.split("/")
        ends = (1, 0, 0) if last in ("lent", "lost") else (0, 2, 3) if last.isdecimal() else ()
        names = ("/".join(parts[:-end]) for end in ends if end)
        return next((candidate for candidate in names if candidate in self.jobs), name)

    def job_of_pod(self, owner: str) -> str:
        """Return the job of a name in devices, "job/role/number"."""
        return owner.partition("//")[0].rsplit("/", 2)[0]

    def job_of_claim(self, claim: str) -> str:
        """Return the job of a claim, "job/role/number/template"."""
        return claim.partition("//")[0].rsplit("/", 3)[0]

    def hold_no_more(self, name: str) -> None:
        """Drop everything that is reserved for a job, or for its failed pods."""
        if self.before.state(name) != "reserved":
            self._hold_no_more_for_failed(name)
            return
        self.groups = [group for group in self.groups if self.job_of(group.owner) != name]
        if self.network is not None:
            for owner in self.network.owners:
                if self.job_of(owner) == name:
                    self.network.release(owner)
        self.free_devices(name)

    def _hold_no_more_for_failed(self, name: str) -> None:
        """Drop everything that is reserved for failed pods of a job, which have no claims."""
        own = f"{name}/lost"

        def is_held(owner: str) -> bool:
            unit = owner.partition("//")[0]
            return unit == own or (unit.startswith(f"{own}/") and self.job_of(owner) == name)

        self.groups = [group for group in self.groups if not is_held(group.owner)]
        for owner in filter(is_held, () if self.network is None else self.network.owners):
            assert self.network is not None
            self.network.release(owner)

    def give_up(self, victim: str) -> None:
        """Drop what is reserved for the job for which an extra pod has to stop, as it ends now."""
        winner = self.winners.get(victim, "")
        if winner and self.before.state(winner) == "reserved":
            self.hold_no_more(winner)

    def devices_of(self, name: str) -> list[tuple[str, str]]:
        """Return (namespace, name) of a job's claims that hold devices."""
        claims = () if self.claims is None else self.claims.claims
        parts = [owner.split("/", 1) for owner in claims]
        return [
            (namespace, claim) for namespace, claim in parts if self.job_of_claim(claim) == name
        ]

    def _charges_for_devices(self, name: str) -> list[str]:
        """Return the owners in a tree that stand for the devices of a job's pods."""
        owners = () if self.tree is None else self.tree.owners
        return [of for of in owners if of.endswith(_DEVICES) and self.job_of(of) == name]

    def free_devices(self, name: str) -> None:
        """Release the devices of a job's claims."""
        self.of_devices.pop(name, None)
        for owner in self._charges_for_devices(name):
            assert self.tree is not None
            self.tree.release(owner)
        for namespace, claim in self.devices_of(name):
            assert self.claims is not None
            self.claims.release(f"{namespace}/{claim}")

    def join(self, name: str, others: Iterable[str]) -> None:
        """Let a job share what others have."""
        host = next(iter(others))
        self.together[name] = self.together.setdefault(host, [host])
        self.together[name].append(name)

    def holds(self, name: str) -> bool:
        """Whether a job has its own pods; of jobs that share, only the first has."""
        return self.together.get(name, [name])[0] == name

    def entry_of(self, owner: str) -> str:
        """Return the job or extra pod of a name in a part."""
        return owner if owner in self.has else self.job_of(owner)

    def extras(self, name: str) -> list[str]:
        """Return the extra pods of a job."""
        return [key for key, (of, _) in self.has.items() if isinstance(of, Lone) and of.of == name]

    def vacate(self, name: str) -> None:
        """Release a job's places; quotas still count it."""
        job, pods = self.has[name]
        self.count(job, pods, -1)
        self.groups = [group for group in self.groups if self.entry_of(group.owner) != name]
        self.free_devices(name)

    def leave(self, name: str, *, ends: bool = False) -> None:
        """Release all that a job has; unless it ends, it requests it again."""
        if name not in self.has and name not in self.jobs:
            return  # an extra pod, which left with its job
        for extra in self.extras(name):
            self.leave(extra, ends=True)
        self.stopping.discard(name)
        if ends:
            self.known.discard(name)
        shared = self.together.pop(name, [name])
        held = shared[0] == name
        shared.remove(name)
        if shared:
            self.hand_on(name, shared[0], held=held, ends=ends)
            return
        self.vacate(name)
        job, _ = self.has.pop(name)
        if self.tree is not None:
            for owner in {name, *_joining(job)} & set(self.tree.owners):
                if owner == name and not ends:
                    self.tree.evict(owner)
                else:
                    self.tree.release(owner)
            if isinstance(job, Lone):
                self.keep_first(job)

    def stop(self, name: str, pods: Iterable[PlacedPod]) -> None:
        """Stop pods of a job that run; its other pods run on."""
        if name not in self.has:
            return
        job, placed = self.has[name]
        gone = [pod for pod in placed if pod in pods]
        if gone and len(gone) == len(placed):
            for extra in self.extras(name):
                self.give_up(extra)
            self.leave(name)
            return
        for pod in pods:
            extra = pod_name(job, pod)
            if extra in self.has and pod in self.has[extra].pods:
                self.leave(extra)
        self.count(job, gone, -1)
        placed[:] = [pod for pod in placed if pod not in gone]
        nodes = {pod.node for pod in gone}
        self.groups = [
            group._replace(gpus=[gpu for gpu in group.gpus if gpu[1] not in nodes])
            if self.entry_of(group.owner) == name
            else group
            for group in self.groups
        ]
        for owner in {pod_name(job, pod) for pod in gone} if self.tree is not None else ():
            if self.tree is not None and owner in self.tree.owners:
                self.tree.evict(owner)

    def take_over(self, name: str, before: Iterable[PlacedPod], after: Iterable[PlacedPod]) -> None:
        """Give pods of a running job new numbers, unless they have them already."""
        for old, new in zip(before, after, strict=True) if name in self.has else ():
            job, placed = self.has[name]
            extra = pod_name(job, old)
            if extra in self.has and old in self.has[extra].pods:
                self.has.pop(extra)
                if self.tree is not None:
                    self.tree.release(extra)
                placed.append(new)
            elif old in placed:
                placed[placed.index(old)] = new

    def keep_first(self, lone: Lone) -> None:
        """Let only the first waiting extra pod of a role wait."""
        assert self.tree is not None
        names = self.extra_names(self.jobs[lone.of], lone.roles[0].name)
        for name in [extra for extra in names if extra not in self.has][1:]:
            self.tree.release(name)

    def extra_names(self, job: Job, role_name: str) -> list[str]:
        """Return the extra pods of a role that run or wait, in order."""
        owners = set() if self.tree is None else set(self.tree.owners)
        role = next(known for known in job.roles if known.name == role_name)
        names = (f"{job.name}/{role_name}/{number}" for number in role.extra_numbers)
        return [name for name in names if name in owners]

    def hand_on(self, name: str, heir: str, *, held: bool, ends: bool) -> None:
        """Pass what a job shares on to the others."""
        self.has.pop(name)
        if held:
            self.groups = [
                group._replace(owner=heir) if group.owner == name else group
                for group in self.groups
            ]
            for namespace, claim in self.devices_of(name):
                assert self.claims is not None
                old, new = f"{namespace}/{claim}", f"{namespace}/{heir}{claim[len(name) :]}"
                self.claims.rename(old, new)
            self.of_devices[heir] = self.of_devices.pop(name, Counter())
            if self.tree is not None:
                self.tree.exchange(name, heir)
                for owner in self._charges_for_devices(name):
                    request = self.tree.request(owner).replace(name=heir + owner[len(name) :])
                    self.tree.release(owner)
                    self.tree.recover(request, 1)
        if ends and self.tree is not None:
            self.tree.release(name)

    def reject(self, name: str) -> None:
        """Note that a job which had to stop cannot restart."""
        self.rejected.add(name)
        self.known.discard(name)
        if name not in self.has and self.tree is not None and name in self.tree.owners:
            self.tree.release(name)

    def must_stop(self, name: str) -> None:
        """Note that a job must stop.

        Until then it keeps its GPUs, without cells of its tenant, and no pods join it.
        """
        self.stopping |= {name, *self.extras(name)}
        self.groups = [
            group._replace(gpus=[(*gpu[:3], "") for gpu in group.gpus])
            if self.entry_of(group.owner) == name
            else group
            for group in self.groups
        ]
        if self.tree is not None:
            for owner in self.tree.owners:
                if self.job_of(owner) == name != owner and not self.tree.members(owner):
                    self.tree.release(owner)

    def count(self, job: Job, pods: Iterable[PlacedPod], times: int) -> None:
        """Add or subtract what pods take of their nodes."""
        for pod in pods:
            taken = self.taken[pod.node]
            taken["slots"] += times
            for name, amount in amounts_of(job, [pod], self.before.gpu_memory).items():
                taken[name] += times * amount

    def ask_for_devices(self, job: Job, pods: tuple[PlacedPod, ...]) -> None:
        """Update what a tree counts for devices of starting pods."""
        assert self.tree is not None
        taken = self.of_devices[job.name].items()
        more = {what: Fraction(ceil(1000 * amount), 1000) for what, amount in taken}
        is_first = len(self.has[job.name].pods) == len(pods)
        asking = {job.name} if is_first else {pod_name(job, pod) for pod in pods}
        for owner in [name for name in self.tree.owners if self.job_of(name) == job.name]:
            if owner in asking or self.tree.members(owner):
                for what, amount in self.tree.request(owner).amounts:
                    more[what] = more.get(what, Fraction()) - Fraction(amount)
        more = {what: amount for what, amount in more.items() if is_of_devices(what) and amount}
        if more:
            name = min(asking)
            self.tree.submit(self.tree.request(name).replace(name=name + _DEVICES, amounts=more))

    def admitted(self, job: Job, pods: tuple[PlacedPod, ...], *, lent: bool) -> None:
        """Update what a tree counts when a job starts or a pod joins it."""
        assert self.tree is not None
        is_first = len(self.has[job.name].pods) == len(pods)
        names = [job.name] if is_first else [pod_name(job, pod) for pod in pods]
        for name in [*names, *[name + _DEVICES for name in names]]:
            if not name.endswith(_DEVICES) or name in self.tree.owners:
                request = self.tree.request(name)
                self.tree.release(name)
                self.tree.recover(request, 1)
        if is_first and not lent:
            self.expect_joining(job)

    def expect_joining(self, job: Job) -> None:
        """Let a job's remaining pods wait to join it, in any order."""
        assert self.tree is not None
        if self.before.has_order:
            return
        for name in _joining(job):
            self.ask(name, job)
        self.expect_extras(job)

    def expect_extras(self, job: Job) -> None:
        """Let another extra pod of each role wait, unless one waits already."""
        if self.tree is None or self.before.has_order:
            return
        for role in job.roles:
            prefix = f"{job.name}/{role.name}/"
            owners = self.extra_names(job, role.name)
            missing = (number for number in role.extra_numbers if f"{prefix}{number}" not in owners)
            number = next(missing, None)
            waits = any(owner not in self.has for owner in owners)
            if number is not None and not waits:
                self.ask(f"{prefix}{number}", job.replace(guaranteed=False, preemptible=True))

    def ask(self, name: str, job: Job) -> None:
        """Let a pod of a job wait."""
        assert self.tree is not None
        pods = [PlacedPod(name.split("/")[-2], 0, "")]
        amounts = amounts_of(job, pods, self.before.gpu_memory)
        self.tree.submit(
            QuotaRequest(
                name, job.quota, amounts, priority=job.priority, preemptible=job.preemptible
            )
        )


def pod_name(job: Job, pod: PlacedPod) -> str:
    """Return a pod's name in all parts."""
    return f"{job.of if isinstance(job, Lone) else job.name}/{pod.role}/{pod.index}"


def _joining(job: Job) -> Iterator[str]:
    """Yield the names of the pods that a job can start without."""
    for role in job.roles:
        yield from (f"{job.name}/{role.name}/{i}" for i in role.joining_numbers)


def lone_pod(job: Job, pod: PlacedPod) -> Lone | None:
    """Return an extra pod as a job of its own; ``None`` for other pods."""
    role = next(known for known in job.roles if known.name == pod.role)
    if pod.index not in role.extra_numbers:
        return None
    alone = (role.replace(pods=1, min_pods=1, max_pods=None, spares=0),)
    name = pod_name(job, pod)
    return Lone(name, job.tenant, alone, guaranteed=False, quota=job.quota, where=job.where)


def amounts_of(job: Job, pods: Iterable[PlacedPod], gpu_memory: int | None) -> Counter[str]:
    """Return what pods take, by resource.

    :param gpu_memory: see `Scheduler.gpu_memory`.
    """
    of: dict[str, Counter[str]] = {
        role.name: Counter({"gpu": _gpus(role, gpu_memory), **dict(role.resources)})
        for role in job.roles
    }
    return sum((of[pod.role] for pod in pods), Counter())


def _gpus(role: Role, gpu_memory: int | None) -> Any:
    need = None if role.devices is None else role.devices.need("gpu")
    if need is None or gpu_memory is None:
        return role.gpus
    of = dict(need.amounts)
    if of.get("memory_ratio") == 100:
        return role.gpus
    share = Decimal(max(of.get("core", 0), of.get("memory_ratio", 0))) / 100
    if gpu_memory:
        share = max(share, Decimal(ceil(Fraction(1000 * of.get("memory", 0), gpu_memory))) / 1000)
    return role.gpus * (min(share, Decimal(1)) or 1)
