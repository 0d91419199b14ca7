"""Pods for which their jobs have no place: extra pods of a gang, and pods that run already."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from hivecore.devices import DeviceAllocation
from hivecore.dra import ResourceClaim
from hivecore.errors import StaleDecisionError
from hivecore.gangs import GangSpec
from hivecore.interop.events.rounds import Round
from hivecore.interop.extender.adoption import Adopter, event_of, lone_name
from hivecore.interop.extender.claimed_pods import ClaimedPods
from hivecore.interop.extender.gang_objects import owner_of, renamed
from hivecore.interop.extender.gangs import Gang, Member, Slot
from hivecore.interop.extender.requests import (
    PREFIX,
    Request,
    completed,
    job_of,
    lacking,
    lone_job,
    shape_of,
)
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.scheduler import (
    Action,
    Job,
    Preempt,
    Reject,
    Role,
    Scheduler,
    SchedulerEvent,
    Start,
)

__all__ = ["RunningPods", "starts"]

_ALL = 2**31  # more than any number of pods
_REPLICA = 3  # slashes in the name of a gang that is a replica of a Workload's group


class RunningPods(ClaimedPods):
    """The part of `PodJobs` that adopts running pods, grows jobs and foresees refusals."""

    def __init__(self, scheduler: Scheduler, tell: Callable[[list[SchedulerEvent]], Round]) -> None:
        super().__init__(scheduler)
        self._tell = tell
        # kind -> object -> gang -> definition
        self._groups: dict[str, dict[str, Mapping[str, GangSpec]]] = {}
        self._by_owner: dict[str, dict[str, Gang]] = {}  # gangs, by the object that may define them
        self.answered: dict[str, None] = {}
        """Jobs whose gangs got a new answer."""
        self._events: list[SchedulerEvent] = []
        self._lone: dict[str, str] = {}  # jobs of pods without a gang -> the pod
        self._others: dict[str, Member] = {}
        self._new_others: dict[str, Member] = {}  # not counted yet
        self._uncounted: dict[str, Member] = {}  # running pods for which there was no room
        # Jobs inherited from a log; their pods are unknown until all are listed.
        self._inherited = {job: None for job in scheduler if job.startswith(PREFIX)}

    def see(self, actions: Iterable[Action]) -> None:
        """Follow actions of the scheduler."""
        raise NotImplementedError

    def _job(self, gang: Gang) -> Job:
        raise NotImplementedError

    def set_other(
        self,
        identity: str,
        name: str,
        request: Request,
        node: str,
        held: tuple[DeviceAllocation, ...],
    ) -> None:
        """Count a running pod of another scheduler, without making it a job of ours."""
        if identity not in self._others:
            self.lose(identity)
            job = lone_name(name)
            other = Member(identity, name, request, job, node=node, held=held)
            self._others[identity] = self._new_others[identity] = other
            self._unsettled[job] = None

    def _group(self, gang: str) -> GangSpec | None:
        """Return a gang's definition by an API; a `ValueError` if several differ."""
        owner, names = owner_of(gang), _names_of(gang)
        defined = [by_owner[owner] for by_owner in self._groups.values() if owner in by_owner]
        groups = [renamed(each[name], gang) for each in defined for name in names if name in each]
        if len(groups) > 1 and groups[0] != groups[1]:
            raise ValueError(f"two PodGroups {show(gang)}, of different APIs, say different things")
        return groups[0] if groups else None

    def _nodes(self) -> list[str]:
        """The nodes that are known to all parts that place pods."""
        parts = self._scheduler.cells, self._scheduler.topology, self._scheduler.devices
        known = [part.nodes for part in parts if part is not None]
        if not known:
            known = [() if self._scheduler.claims is None else self._scheduler.claims.nodes]
        return [node for node in known[0] if all(node in other for other in known[1:])]

    def _counted(self, job: Job) -> Job:
        """Return the job with only the resources that the scheduler counts."""
        counted = self._scheduler.counted(job)
        job = job.replace(roles=[_with_resources(role, counted) for role in job.roles])
        if self._scheduler.spreads(job):
            return job
        return job.replace(roles=[role.replace(per_node=None) for role in job.roles])

    def _job_of(
        self, pods: Sequence[Request], templates: Sequence[tuple[ResourceClaim, ...]], beside: int
    ) -> Job:
        """Return the job of a gang's pods, see `job_of`."""
        network = self._scheduler.topology
        layers = None if network is None else network.layers
        group = self._group(pods[0].gang)
        return self._counted(job_of(pods, group, layers, templates, beside))

    # --- pods in the place of those that are gone

    def counts(self) -> Mapping[str, int]:
        """Return how many pods are bound and how many wait."""
        bound = sum(1 for member in self.members.values() if member.node)
        return {"bound": bound, "waiting": len(self.members) - bound}

    def exchange(self, member: Member, offered: Iterable[str]) -> bool:
        """Swap a pod's place with that of a waiting pod of its role on an offered node, if there is
        one.

        kube-scheduler keeps a node for the pod for which it evicted the victims.
        """
        gang, own, nodes = self._gangs[member.job], member.slot, set(offered)
        if own is None or member.request.claims:
            return False
        waiting = {other.slot: other for other in gang.unbound if other is not member}
        for slot, place in gang.places(self._scheduler).items():
            if slot[0] == own[0] and place.node in nodes and slot in waiting:
                other = waiting[slot]
                gang.leave(member)
                gang.take(other, own)
                gang.take(member, slot)
                return True
        return False

    def _takes_free(self, gang: Gang, member: Member, offered: frozenset[str]) -> bool:
        """Give a pod a free place of its role on an offered node; return whether there is one."""
        if member.slot is None or member.request.claims:
            return False
        for slot, place in gang.places(self._scheduler).items():
            is_free = slot[0] == member.slot[0] and slot not in gang.taken
            if is_free and place.node in offered:
                gang.take(member, slot)
                return True
        return False

    def _unconfined(self, gang: Gang) -> Job:
        """Return a job that has started, without the nodes that were offered to it then."""
        job = self._scheduler.job(gang.name)
        if any(member.request.claims for member in gang.members.values()):
            return job  # its claims limit it to these
        return job.replace(where=job.where.replace(nodes=()))

    def _goes_elsewhere(self, gang: Gang, slot: Slot, offered: frozenset[str]) -> bool:
        """Place a pod again near the running pods of its job; return whether that worked.

        The place is where the scheduler would put the pod if it failed.

        :param offered: the nodes to use, at once and without victims.
        """
        scheduler, places, name = self._scheduler, gang.places(self._scheduler), gang.name
        job, since = self._unconfined(gang), scheduler.status(name).since
        nodes = sorted(offered.union(place.node for place in places.values()))
        try:
            alone = job.replace(on_failure="pod", where=job.where.replace(nodes=nodes))
        except ValueError:
            return False  # its pods cannot be placed one by one
        with scheduler.what_if() as branch:
            now = branch.now
            if since is None or not Adopter(branch).readopt(alone, tuple(places.values()), now):
                return False
            for node in sorted({place.node for place in places.values()} - offered):
                branch.set_node(node, False, now)
            branch.fail(name, now, f"{slot[0]}/{slot[1]}")
            actions = branch.decide(now)
        if not starts(actions, name):
            return False
        started = [pod for action in actions if isinstance(action, Start) for pod in action.pods]
        other = next(pod for pod in started if (pod.role, pod.index) == slot)
        with scheduler.what_if() as branch:
            adopter = Adopter(branch)
            if not adopter.readopt(job, tuple({**places, slot: other}.values()), since):
                return False
        gang.changed()
        self._events += adopter.all_events()
        return True

    # --- pods beyond those that a job has places for

    def _amendment(self, gang: Gang) -> list[SchedulerEvent]:
        """Return the event that gives a waiting job places for all pods of its gang."""
        job, changes = self._unconfined(gang), dict[str, object]()
        if job != self._scheduler.job(gang.name):
            changes["where"] = job.where
        with suppress(ValueError):
            if self._grown(gang, job):
                changes["roles"] = self._job(gang).roles
        return [event_of("amend", job=gang.name, **changes)] if changes else []

    def _growth(self, gang: Gang) -> list[SchedulerEvent]:
        """Return the events that give a running job more places, by adopting it again."""
        scheduler, name = self._scheduler, gang.name
        job, status = self._unconfined(gang), scheduler.status(name)
        roles = self._grown(gang, job)
        if not roles or status.since is None:
            return []
        with scheduler.what_if() as branch:
            adopter = Adopter(branch)
            adopter.readopt(job.replace(roles=roles), status.pods, status.since)
        gang.changed()
        return adopter.all_events()

    def _grown(self, gang: Gang, job: Job) -> list[Role]:
        """Return a job's roles with a place for each pod of the gang; empty if they have them."""
        members = [
            member for member in gang.members.values() if member.slot is not None or not member.node
        ]
        if any(member.request.claims for member in members):
            return []
        sources = [member.request.source for member in members]
        group = self._groups_of(gang)
        for source in sources:
            spec = None if isinstance(source, PodRequest) else group or source.spec
            if spec is None or spec.min_members < spec.total < len(members) + gang.beside:
                return []  # its annotation says how many there are
        counts = Counter(member.shape_in(job) for member in members)
        roles = {shape_of(role): role for role in job.roles}
        more = {s: n for s, n in counts.items() if s not in roles or roles[s].pods < n}
        names = (f"pod-{number}" for number in count())
        taken = {role.name for role in job.roles}
        for shape, pods in more.items():
            if shape in roles:
                roles[shape] = roles[shape].replace(pods=pods, min_pods=roles[shape].min_pods)
                continue
            gpus, devices, resources, claims = shape
            name = next(name for name in names if name not in taken)
            of_shape = {"devices": devices, "resources": resources, "claims": claims}
            roles[shape] = Role(name, pods, gpus, min_pods=0, **of_shape)
        return list(roles.values()) if more else []

    def _groups_of(self, gang: Gang) -> GangSpec | None:
        member = next(iter(gang.members.values()), None)
        try:
            return None if member is None else self._group(member.request.gang)
        except ValueError:
            return None

    def _never(self, gang: Gang) -> str:
        """Return why a gang could never start even if complete, or ""."""
        size = len(gang.members), len(self._nodes())
        if gang.never[0] != size:
            gang.never = size, self._refusal_of_all(gang)
        return gang.never[1] and f"; with all of them it can never run: {gang.never[1]}"

    def _refusal_of_all(self, gang: Gang) -> str:
        try:
            pods = gang.waiting
            group = self._group(pods[0].gang)
            pods = completed(pods, group)
            job = self._job_of(pods, [()] * len(pods), gang.beside)
            with self._scheduler.what_if() as branch:
                branch.submit(job, branch.now)
                rejections = [
                    action for action in branch.decide(branch.now) if isinstance(action, Reject)
                ]
        except (LookupError, ValueError):
            # Problems of fewer pods than it needs are reported once all have come.
            return ""
        return next((rejection.reason for rejection in rejections if rejection.job == job.name), "")

    def _new_gang(self, job: str, owner: str) -> Gang:
        gang = self._gangs[job] = Gang(job, owner)
        self._by_owner.setdefault(owner, {})[job] = gang
        return gang

    def _drop(self, gang: Gang) -> None:
        """Forget a gang, which has no pods any more."""
        del self._gangs[gang.name], self._by_owner[gang.owner][gang.name]
        if not self._by_owner[gang.owner]:
            del self._by_owner[gang.owner]

    def set_groups(self, kind: str, name: str, groups: Mapping[str, GangSpec]) -> None:
        """The gangs that an object of one of the kinds defines; none: it is gone."""
        by_name = self._groups.setdefault(kind, {})
        known = by_name.pop(name, None)
        if not groups:
            return
        by_name[name] = groups
        for gang in self._by_owner.get(name, {}).values():
            self._unsettled[gang.name] = None
            if known not in (None, groups):
                gang.is_redefined, gang.refused = True, ""

    def keep_groups(self, kind: str, names: set[str]) -> None:
        """Forget the gang definitions of a kind except those of these objects."""
        groups = self._groups.get(kind, {})
        self._groups[kind] = {name: group for name, group in groups.items() if name in names}

    # --- the answers for pods and gangs

    def refused_of(self, job: str) -> list[Member]:
        """The pods of a job that were refused."""
        waiting = self._gangs[job].unbound if job in self._gangs else []
        return [member for member in waiting if member.identity in self.refused]

    def note_answer(self, member: Member, outcome: str, reason: str) -> None:
        """Store the answer for a pod."""
        gang, answer = self._gangs.get(member.job), (outcome, reason)
        if gang is not None and gang.answer != answer and not member.request.is_alone:
            gang.answer = answer
            self.answered[gang.name] = None

    def gang(self, job: str) -> Gang | None:
        """Return the gang of a job."""
        return self._gangs.get(job)

    def definitions_of(self, gang: Gang) -> list[tuple[str, str]]:
        """Return the objects that define a gang, as kind and "namespace/name"."""
        called = gang.first.request.gang
        name, names = owner_of(called), _names_of(called)
        return [
            (kind, name)
            for kind, by_name in self._groups.items()
            if any(own in by_name.get(name, ()) for own in names)
        ]

    # --- pods that run without a place

    def _adopt(self) -> None:
        """Adopt running pods that have no place."""
        gangs = [self._gangs[name] for name in self._unsettled if self._has_all_of(name)]
        homeless = [(gang, pods) for gang in gangs if (pods := self._homeless(gang))]
        homeless = self._on_known_nodes(homeless)
        others = list(self._new_others.values()) if self.is_listed else []
        if not (homeless or others):
            return
        nodes = set(self._nodes())
        if others:
            self._new_others = {}
        with self._scheduler.what_if() as branch:
            for event in self._events:
                with suppress(KeyError, ValueError, StaleDecisionError):
                    event.tell(branch, branch.now)
            adopter = Adopter(branch, [pod for _, pods in homeless for pod in pods])
            # Pods that name their devices come first, so that these are not chosen for others.
            for gang, pods in sorted(
                homeless, key=lambda pair: not all(pod.held for pod in pair[1])
            ):
                self._adopt_pods(adopter, gang, pods)
            for other in others:
                if not nodes or other.node in nodes:
                    self._adopt_alone(adopter, other, is_other=True)
        before, self._events = self._events, []
        if events := [*before, *adopter.all_events()]:
            answer = self._tell(events)
            self.see(action for _, action in answer.actions)
            if all(error.event < len(before) for error in answer.errors):
                self._adopt()

    def cluster_changed(self) -> None:
        """Note that the scheduler has other nodes, tenants or quotas: look again at all pods."""
        for gang in self._gangs.values():
            gang.changed()
            gang.never = (0, 0), ""
            if gang.refused:
                gang.refused = ""
                self._unsettled[gang.name] = None
            places = gang.places(self._scheduler)
            for member in gang.members.values() if gang.is_bound else ():
                place = None if member.slot is None else places.get(member.slot)
                if member.node and (place is None or place.node not in ("", member.node)):
                    gang.leave(member)
                    member.is_beside = False
                    self._unsettled[gang.name] = None
        for name, identity in [*self._lone.items()]:
            pod = self._others.get(identity) or self.members[identity]
            at = self._scheduler.status(name).pods if name in self._scheduler else ()
            if not any(map(pod.is_at, at)):
                del self._lone[name]  # its node was removed
                self._events.append(event_of("cancel", job=name))
                self._unsettled[pod.job] = None
        for identity, other in self._others.items():
            if self._lone.get(other.job) != identity:
                self._new_others[identity] = other
                self._unsettled[other.job] = None

    def _has_all_of(self, job: str) -> bool:
        """Whether the pods of a gang are known: all are, or its job has started since."""
        gang = self._gangs.get(job)
        return gang is not None and (
            self.is_listed or (gang.has_started and job not in self._inherited)
        )

    def _homeless(self, gang: Gang) -> list[Member]:
        """Return the running pods without a place that are not adopted on their own."""
        places = gang.places(self._scheduler) if gang.name in self._scheduler else {}
        return [
            member
            for member in gang.members.values()
            if member.node
            and not member.is_beside
            and (member.slot is None or member.slot not in places)
            if self._lone.get(lone_name(member.name)) != member.identity
        ]

    def _on_known_nodes(
        self, gangs: list[tuple[Gang, list[Member]]]
    ) -> list[tuple[Gang, list[Member]]]:
        """Drop the pods on nodes that the scheduler does not have."""
        nodes = set(self._nodes()) if gangs else set()
        for _, pods in gangs:
            for pod in pods:
                pod.is_beside = bool(nodes) and pod.node not in nodes
        left = [(gang, [pod for pod in pods if not pod.is_beside]) for gang, pods in gangs]
        return [(gang, pods) for gang, pods in left if pods]

    def _adopt_pods(self, adopter: Adopter, gang: Gang, pods: list[Member]) -> None:
        name, scheduler = gang.name, self._scheduler
        if name in scheduler and scheduler.status(name).since is not None:
            for pod in pods:
                if free := gang.free_for(pod, scheduler):
                    gang.take(pod, free[0])
                elif pod.request.holds and (
                    gang.has_to_stop(scheduler) or not self._moved(adopter, gang, pod)
                ):
                    self._adopt_alone(adopter, pod)
            return
        # A launcher alone does not make a gang run; it counts towards the others' minimum.
        is_whole = not gang.unbound and not self._lacks_members(gang)
        if not is_whole and not any(pod.request.holds for pod in pods):
            return
        if named := [pod for pod in pods if pod.held]:
            pods = named  # the others come next, and get no device of these
        try:
            requests = [member.request for member in gang.members.values()]
            job = self._job_of(requests, [()] * len(requests), _ALL)
            yielding = partial(self._yielding, {pod.node for pod in pods})
            slots = adopter.adopt(job, pods, yielding=yielding)
        except ValueError:  # they contradict each other
            for pod in pods:
                if pod.request.holds:
                    self._adopt_alone(adopter, pod)
            return
        gang.changed()
        gang.taken.clear()
        gang.has_started = True
        gang.refused = ""
        for pod in gang.members.values():
            pod.slot = None
        for pod in pods:
            gang.take(pod, slots[pod.identity])

    def _moved(self, adopter: Adopter, gang: Gang, pod: Member) -> bool:
        """Move a pod's place to the node to which another scheduler bound it, if possible."""
        job, status = adopter.job(gang.name)
        free = gang.free_for(pod, self._scheduler, is_anywhere=True)
        if not free or status.since is None:
            return False
        gang.take(pod, pod.said if pod.said in free else free[-1])
        if adopter.move(job, status.pods, status.since, pod):
            gang.changed()
            return True
        gang.leave(pod)
        return False

    def _lacks_members(self, gang: Gang) -> str:
        requests = [member.request for member in gang.members.values()]
        try:
            return lacking(requests, self._group(requests[0].gang))
        except ValueError as error:
            return str(error)

    def _adopt_alone(self, adopter: Adopter, pod: Member, is_other: bool = False) -> None:
        name = lone_name(pod.name)
        job = self._counted(lone_job(pod.request, name))
        if not adopter.has(job, pod):
            adopter.cancel(name)  # its pod was elsewhere, or another one
            try:
                adopter.adopt(job, [pod], is_other, partial(self._yielding, {pod.node}))
            except ValueError as error:
                self._give_up(pod, error)
                return
        self._lone[name] = pod.identity

    def _yielding(self, nodes: set[str]) -> list[str]:
        """Return the jobs without bound pods that have a place on a node; they start elsewhere."""
        names = [
            gang.name
            for gang in self._gangs.values()
            if not gang.is_bound and not gang.has_to_stop(self._scheduler)
            if any(place.node in nodes for place in gang.places(self._scheduler).values())
        ]
        self._unsettled |= dict.fromkeys(names)
        return names

    def _give_up(self, pod: Member, error: ValueError) -> None:
        pod.is_beside = True
        if pod.identity not in self._uncounted:
            self._uncounted[pod.identity] = pod
            LOG.warning("pod %s runs on %s and is not counted: %s", pod.name, pod.node, error)

    def _count_again(self) -> None:
        """Have pods counted for which there was no room, as others may have left."""
        self._uncounted = {i: pod for i, pod in self._uncounted.items() if pod.slot is None}
        for identity, pod in self._uncounted.items():
            pod.is_beside = False
            self._unsettled[pod.job] = None
            if identity in self._others:
                self._new_others[identity] = pod


def _names_of(gang: str) -> list[str]:
    """Return the names under which an object may define a gang, which may be a replica."""
    return [gang, gang.rpartition("/")[0]] if gang.count("/") == _REPLICA else [gang]


def starts(actions: Iterable[Action], job: str) -> bool:
    """Whether pods of a job start at once, without victims."""
    listed = list(actions)
    has_started = any(isinstance(action, Start) and action.job == job for action in listed)
    return has_started and not any(isinstance(action, Preempt) for action in listed)


def _with_resources(role: Role, counted: frozenset[str]) -> Role:
    """Return the role with only these resources."""
    return role.replace(
        resources={name: amount for name, amount in role.resources if name in counted}
    )
