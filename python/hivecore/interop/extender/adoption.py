"""Adopts pods that run without the scheduler's knowledge.

That is the case if the log was lost, if the cluster ran GPU pods before this scheduler, or if
another scheduler bound a pod. The pods' annotations name their GPUs; where they do not, GPUs are
chosen. A running job always counts: without its placement rules if it breaks them, and under the
tenant `OTHERS` if it does not fit its own quota.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from hivecore.errors import StaleDecisionError
from hivecore.interop.extender.gangs import Member, Slot
from hivecore.interop.extender.requests import PREFIX, shape_of
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.quotas import Quota
from hivecore.scheduler import Job, JobStatus, PlacedPod, Role, Scheduler, SchedulerEvent, Where

__all__ = ["OTHERS", "Adopter", "ContradictionError", "check_devices", "event_of", "lone_name"]

OTHERS = "hivecore-others"
"""The tenant of pods that fit no quota of their own, and of other schedulers' pods."""
_LONE = f"{PREFIX}lone:"
_WHOLE = 100


class ContradictionError(BadCall, ValueError):
    """Two pods claim the same device in their annotations."""


def event_of(name: str, **arguments: object) -> SchedulerEvent:
    """Return an event without a time: it happens now.

    >>> event_of("cancel", job="a").arguments
    (('job', 'a'),)
    """
    return SchedulerEvent(name, None, tuple(arguments.items()))


def lone_name(pod: str) -> str:
    """Return the job name of a pod without a gang.

    >>> lone_name("x/p")
    'pods:lone:x/p'
    """
    return _LONE + job_name(pod)


def check_devices(members: Iterable[Member]) -> None:
    """Check that pods that share a GPU have at most 100% of it together.

    :raises ContradictionError: they have more; the message names two of them.
    """
    users: dict[tuple[str, str, int], list[tuple[str, int]]] = defaultdict(list)
    for member in members:
        for device in member.held:
            if device.type == "gpu":
                amounts = dict(device.amounts)
                share = amounts.get("core", amounts.get("memory_ratio", 0))
                users[member.node, device.type, device.minor].append((member.name, share))
    for (node, type_, minor), pods in users.items():
        if len(pods) > 1 and sum(share for _, share in pods) > _WHOLE:
            (first, _), (second, _), *_ = sorted(pods, key=lambda pod: -pod[1])
            message = f"the pods {show(first)} and {show(second)} both have {type_} {minor} of "
            raise ContradictionError(
                400, f"{message}{show(node)}, as their annotations say: which one has it?"
            )


class Adopter:
    """Collects the events with which a scheduler adopts running jobs.

    :param branch: a scratch copy of the scheduler, see `Scheduler.what_if`.
    :param members: running pods; GPUs that they name are not chosen for others.
    """

    def __init__(self, branch: Scheduler, members: Iterable[Member] = ()) -> None:
        self._branch = branch
        self.events: list[SchedulerEvent] = []
        self._sick = set(branch.summary().unhealthy)
        self._healed: dict[str, None] = {}
        self._used: dict[str, set[int]] = defaultdict(set)
        for name in branch if branch.cells is not None else ():
            self._use(branch.status(name).pods)
        self._named: dict[str, set[int]] = defaultdict(set)
        for member in members:
            self._named[member.node].update(_named(member).get("gpu", ()))

    def all_events(self) -> list[SchedulerEvent]:
        """Return all events, ending with those that restore the health of nodes."""
        after = [event_of("set_node", node=node, healthy=False) for node in self._healed]
        return [*self.events, *after]

    def job(self, name: str) -> tuple[Job, JobStatus]:
        """Return a job and its status in the scheduler, by name."""
        return self._branch.job(name), self._branch.status(name)

    def has(self, job: Job, pod: Member) -> bool:
        """Whether this job of one pod is in the scheduler, where the pod is."""
        if job.name not in self._branch:
            return False
        known, status = self.job(job.name)
        return known.roles == job.roles and any(map(pod.is_at, status.pods))

    def cancel(self, job: str) -> None:
        """Cancel a job, if the scheduler has it."""
        if job in self._branch:
            self._branch.cancel(job, self._branch.now)
            self.events.append(event_of("cancel", job=job))

    def adopt(
        self,
        job: Job,
        members: Sequence[Member],
        is_other: bool = False,
        yielding: Callable[[], Sequence[str]] = tuple,
    ) -> dict[str, Slot]:
        """Adopt a job with its running pods, in place of one of its name; return their slots.

        :param is_other: whether another scheduler manages the job.
        :param yielding: returns jobs to cancel if there is no room, or not on the named devices.
        :raises ValueError: the pods cannot be where they are.
        """
        own = _with_numbers(job, members)
        other = job.replace(
            tenant=OTHERS, quota=OTHERS, where=Where(), together=(), guaranteed=True, priority=0
        ).replace(preemptible=False)
        jobs = [other] if is_other else [job, job.replace(where=Where(), together=()), other]
        reason: Exception | None = None
        for may_cancel, has_names in ((False, True), (True, True), (False, False), (True, False)):
            gone = yielding() if may_cancel else ()
            if may_cancel and not gone:
                continue
            pods = self._placed(own, has_names)
            for candidate in jobs:
                try:
                    self._try(_startable(candidate, own), pods, gone)
                except (KeyError, ValueError, StaleDecisionError) as error:
                    reason = reason or error
                    continue
                self._use(pods)
                if not has_names and (named := [member.name for member, _ in own if member.held]):
                    text = "%s may use other GPUs than are counted: those that it names do not do"
                    LOG.warning(f"pod {text}: %s", ", ".join(named), reason)
                return {member.identity: slot for member, slot in own}
        raise ValueError(str(reason.args[0] if reason is not None else "it has no pods"))

    def _try(self, job: Job, pods: list[PlacedPod], gone: Sequence[str]) -> None:
        events = [event_of("adopt", job=job, pods=tuple(pods))]
        if not self._branch.places(job):
            events = [event_of("adopt", job=job, pods=tuple(pod.replace(node="") for pod in pods))]
        quotas = self._branch.quotas
        if job.tenant == OTHERS and quotas is not None and OTHERS not in quotas.quotas:
            events.insert(0, event_of("set_quota", quota=Quota(OTHERS, max={}, outside=True)))
        names = [name for name in (job.name, *gone) if name in self._branch]
        cancels = [event_of("cancel", job=name) for name in names]
        self._tell([*cancels, *events], pods)

    def readopt(self, job: Job, pods: Sequence[PlacedPod], since: float) -> bool:
        """Replace a running job by this definition, if its pods fit; return whether they do."""
        events = [
            event_of("cancel", job=job.name),
            event_of("adopt", job=job, pods=tuple(pods), since=since),
        ]
        try:
            self._tell(events, pods)
        except (KeyError, ValueError, StaleDecisionError):
            return False
        return True

    def move(self, job: Job, pods: Iterable[PlacedPod], since: float, member: Member) -> bool:
        """Move a running job's pod to the node where it really is; return whether it fits there."""
        slot = member.slot
        assert slot is not None
        (own,) = self._placed([(member, slot)], has_names=True)
        moved = [own if (pod.role, pod.index) == slot else pod for pod in pods]
        bare = job.replace(where=Where(), together=())
        if not any(self.readopt(variant, moved, since) for variant in (job, bare)):
            return False
        self._use(moved)
        return True

    def _tell(self, events: list[SchedulerEvent], pods: Iterable[PlacedPod]) -> None:
        """Apply events to the branch with all nodes healthy; an error leaves it unchanged."""
        sick = sorted({pod.node for pod in pods} & self._sick)
        events = [*(event_of("set_node", node=node, healthy=True) for node in sick), *events]
        with self._branch.what_if() as trial:
            for event in events:
                event.tell(trial, trial.now)
        for event in events:
            event.tell(self._branch, self._branch.now)
        self._sick.difference_update(sick)
        self._healed.update(dict.fromkeys(sick))
        self.events += events

    def _use(self, pods: Iterable[PlacedPod]) -> None:
        for pod in pods:
            self._used[pod.node].update(pod.gpus)

    def _placed(self, own: Sequence[tuple[Member, Slot]], has_names: bool) -> list[PlacedPod]:
        """Return where pods are, with the devices that they name."""
        pods: list[PlacedPod] = []
        chosen: dict[str, set[int]] = defaultdict(set)
        for member, slot in own:
            minors, node = _named(member) if has_names else {}, member.node
            number = member.request.gpus
            if self._branch.cells is not None and len(minors.get("gpu", ())) != number:
                taken = self._used[node] | self._named[node] | chosen[node]
                free = (gpu for gpu in count() if gpu not in taken)
                minors["gpu"] = tuple(next(free) for _ in range(number))
                chosen[node].update(minors["gpu"])
            pods.append(PlacedPod(*slot, node, tuple(minors.items())))
        return pods


def _named(member: Member) -> dict[str, tuple[int, ...]]:
    """Return the devices that a running pod names, by type."""
    minors: dict[str, tuple[int, ...]] = {}
    for device in member.held:
        minors[device.type] = (*minors.get(device.type, ()), device.minor)
    return minors


def _with_numbers(job: Job, members: Sequence[Member]) -> list[tuple[Member, Slot]]:
    """Return each pod's slot: its own number if its role has all numbers from 0 on."""
    roles = {member.identity: _role_of(job, member) for member in members}
    numbered: list[tuple[Member, Slot]] = []
    for role in job.roles:
        own = [member for member in members if roles[member.identity] == role.name]
        said = [member.said[1] for member in own if member.said and member.said[0] == role.name]
        keeps = 0 in said and len(set(said)) == len(said) and max(said) < role.pods
        numbers = _numbers(said if keeps else ())
        for member in own:
            is_said = keeps and member.said is not None and member.said[0] == role.name
            number = member.said[1] if is_said and member.said else next(numbers)
            numbered.append((member, (role.name, number)))
    return numbered


def _numbers(taken: Iterable[int]) -> Iterator[int]:
    gone = set(taken)
    return (number for number in count() if number not in gone)


def _role_of(job: Job, member: Member) -> str:
    shape = member.shape_in(job)
    return next((role.name for role in job.roles if shape_of(role) == shape), job.roles[0].name)


def _startable(job: Job, own: Sequence[tuple[Member, Slot]]) -> Job:
    """Return a job that can start with these pods; those before the first gap are its minimum."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for _, slot in own:
        numbers[slot[0]].add(slot[1])
    roles: list[Role] = []
    for role in job.roles:
        first = next(number for number in count() if number not in numbers[role.name])
        pods = max(role.pods, *(number + 1 for number in numbers[role.name]), 1)
        roles.append(role.replace(pods=pods, min_pods=first))
    return job.replace(roles=roles)
