"""Pods that run already though the scheduler does not know: their jobs are adopted where they are.

The log was lost, the cluster ran GPU pods before this scheduler, or somebody else has bound a pod.
What pods have of their nodes is in their annotations; what these do not say is chosen. What runs is
counted, whatever the rules of its job say: without its rules, and if need be on the account of
`OTHERS`, if it cannot run under its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from hivecore.errors import StaleDecisionError
from hivecore.interop.extender.gangs import Member, Slot
from hivecore.interop.extender.requests import PREFIX, shape_of
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.quotas import Quota
from hivecore.scheduler import Job, JobStatus, PlacedPod, Role, Scheduler, SchedulerEvent, Where

__all__ = ["OTHERS", "Adopter", "ContradictionError", "check_devices", "event_of", "lone_name"]

OTHERS = "hivecore-others"
"""The tenant of pods whose own cannot be charged, and of other schedulers' pods."""
_LONE = f"{PREFIX}lone:"
_WHOLE = 100


class ContradictionError(BadCall, ValueError):
    """Two pods have the same device, as they say: it cannot be told which of them does."""


def event_of(name: str, **arguments: object) -> SchedulerEvent:
    """An event of now.

    >>> event_of("cancel", job="a").arguments
    (('job', 'a'),)
    """
    return SchedulerEvent(name, None, tuple(arguments.items()))


def lone_name(pod: str) -> str:
    """The job of a pod by itself.

    >>> lone_name("x/p")
    'pods:lone:x/p'
    """
    return _LONE + job_name(pod)


def check_devices(members: Iterable[Member]) -> None:
    """See that no device is said to be of two pods.

    :raises ContradictionError: it names them.
    """
    users: dict[tuple[str, str, int], list[tuple[str, int]]] = defaultdict(list)
    for member in members:
        for one in member.held:
            if one.type == "gpu":
                amounts = dict(one.amounts)
                share = amounts.get("core", amounts.get("memory_ratio", 0))
                users[member.node, one.type, one.minor].append((member.name, share))
    for (node, type_, minor), pods in users.items():
        if len(pods) > 1 and sum(share for _, share in pods) > _WHOLE:
            (first, _), (second, _), *_ = sorted(pods, key=lambda pod: -pod[1])
            message = f"the pods {show(first)} and {show(second)} both have {type_} {minor} of "
            raise ContradictionError(
                400, f"{message}{show(node)}, as their annotations say: which one has it?"
            )


class Adopter:
    """Finds out with which events a scheduler takes up jobs that run.

    :param branch: the scheduler as it may be changed for trial, see `Scheduler.what_if`.
    """

    def __init__(self, branch: Scheduler) -> None:
        self._branch = branch
        self.events: list[SchedulerEvent] = []
        self._sick = set(branch.summary().unhealthy)
        self._healed: dict[str, None] = {}
        self._used: dict[str, set[int]] = defaultdict(set)
        for name in branch if branch.cells is not None else ():
            for pod in branch.status(name).pods:
                self._used[pod.node].update(pod.gpus)

    def told(self) -> list[SchedulerEvent]:
        """All events; nodes are as healthy after them as before."""
        after = [event_of("set_node", node=node, healthy=False) for node in self._healed]
        return [*self.events, *after]

    def job(self, name: str) -> tuple[Job, JobStatus]:
        """A job as it is now."""
        return self._branch.job(name), self._branch.status(name)

    def cancel(self, job: str) -> None:
        """A job that waits is another one now."""
        self._branch.cancel(job, self._branch.now)
        self.events.append(event_of("cancel", job=job))

    def adopt(self, job: Job, members: Sequence[Member], is_other: bool = False) -> dict[str, Slot]:
        """Adopt a job with the pods of it that run; their places by identity.

        :param is_other: whether others than this scheduler look after it.
        :raises ValueError: they cannot be where they are.
        """
        own = _with_numbers(job, members)
        other = job.replace(
            tenant=OTHERS, quota=OTHERS, where=Where(), together=(), guaranteed=True, priority=0
        ).replace(preemptible=False)
        jobs = [other] if is_other else [job, job.replace(where=Where(), together=()), other]
        reason: Exception | None = None
        for has_names in (True, False):
            pods = [self._placed(member, slot, has_names) for member, slot in own]
            for one in jobs:
                try:
                    self._try(_startable(one, own), pods)
                except (KeyError, ValueError, StaleDecisionError) as error:
                    reason = reason or error
                    continue
                for pod in pods:
                    self._used[pod.node].update(pod.gpus)
                return {member.identity: slot for member, slot in own}
        raise ValueError(str(reason.args[0] if reason is not None else "it has no pods"))

    def _try(self, job: Job, pods: list[PlacedPod]) -> None:
        events = [event_of("adopt", job=job, pods=tuple(pods))]
        if not self._branch.places(job):
            events = [event_of("adopt", job=job, pods=tuple(one.replace(node="") for one in pods))]
        quotas = self._branch.quotas
        if job.tenant == OTHERS and quotas is not None and OTHERS not in quotas.quotas:
            events.insert(0, event_of("set_quota", quota=Quota(OTHERS, max={}, outside=True)))
        self._tell(events, pods)

    def readopt(self, job: Job, pods: Sequence[PlacedPod], since: float) -> bool:
        """Have a job that runs run on as this one; whether it can."""
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
        """A pod of a job that runs is elsewhere than at its place; whether it can be there."""
        slot = member.slot
        assert slot is not None
        moved = [
            self._placed(member, slot, has_names=True) if (one.role, one.index) == slot else one
            for one in pods
        ]
        bare = job.replace(where=Where(), together=())
        return any(self.readopt(one, moved, since) for one in (job, bare))

    def _tell(self, events: list[SchedulerEvent], pods: Iterable[PlacedPod]) -> None:
        """Tell the branch, on nodes that are healthy for the moment; after an error nothing."""
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

    def _placed(self, member: Member, slot: Slot, has_names: bool) -> PlacedPod:
        """A pod where it is, with the devices that it names."""
        minors: dict[str, tuple[int, ...]] = {}
        for one in member.held if has_names else ():
            minors[one.type] = (*minors.get(one.type, ()), one.minor)
        number = member.request.gpus
        if self._branch.cells is not None and len(minors.get("gpu", ())) != number:
            minors["gpu"] = tuple(self._free(member.node, number))
        return PlacedPod(*slot, member.node, tuple(minors.items()))

    def _free(self, node: str, number: int) -> list[int]:
        used = self._used[node]
        free = (gpu for gpu in count() if gpu not in used)
        found = [next(free) for _ in range(number)]
        used.update(found)
        return found


def _with_numbers(job: Job, members: Sequence[Member]) -> list[tuple[Member, Slot]]:
    """The place of each pod: what it had, as far as all pods of its role have one from 0 on."""
    roles = {member.identity: _role_of(job, member) for member in members}
    found: list[tuple[Member, Slot]] = []
    for role in job.roles:
        own = [member for member in members if roles[member.identity] == role.name]
        said = [member.said[1] for member in own if member.said and member.said[0] == role.name]
        keeps = 0 in said and len(set(said)) == len(said) and max(said) < role.pods
        numbers = _numbers(said if keeps else ())
        for member in own:
            is_said = keeps and member.said is not None and member.said[0] == role.name
            number = member.said[1] if is_said and member.said else next(numbers)
            found.append((member, (role.name, number)))
    return found


def _numbers(taken: Iterable[int]) -> Iterator[int]:
    gone = set(taken)
    return (number for number in count() if number not in gone)


def _role_of(job: Job, member: Member) -> str:
    shape = member.shape_in(job)
    return next((role.name for role in job.roles if shape_of(role) == shape), job.roles[0].name)


def _startable(job: Job, own: Sequence[tuple[Member, Slot]]) -> Job:
    """A job that starts with the pods that it has, and those before the first gap above all."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for _, slot in own:
        numbers[slot[0]].add(slot[1])
    roles: list[Role] = []
    for role in job.roles:
        first = next(number for number in count() if number not in numbers[role.name])
        pods = max(role.pods, *(number + 1 for number in numbers[role.name]), 1)
        roles.append(role.replace(pods=pods, min_pods=first))
    return job.replace(roles=roles)
