"""Turns what happens to Kubernetes pods into events of a scheduler's jobs.

A gang's job is submitted once the pods are known that it needs to start. A waiting job is cancelled
when one of these pods is gone; a running job ends with its last pod. A victim has stopped when none
of its pods is bound; it waits again if replacement pods exist, and is cancelled otherwise. So a job
never waits or starts without its pods. A gang that names other gangs as its group has no job before
they have theirs.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hivecore.devices import DeviceAllocation
from hivecore.interop.events.rounds import Round
from hivecore.interop.extender.adoption import OTHERS, check_devices, event_of, lone_name
from hivecore.interop.extender.claimed_pods import ended
from hivecore.interop.extender.gang_objects import owner_of
from hivecore.interop.extender.gangs import Gang, Member, Slot
from hivecore.interop.extender.requests import (
    PREFIX,
    Request,
    lacking,
    wishes_of,
)
from hivecore.interop.extender.running_pods import RunningPods, starts
from hivecore.interop.extender.victims import Victims
from hivecore.interop.koordinator.jobs import GangWishes
from hivecore.interop.kubernetes.job_names import job_name, object_name
from hivecore.interop.kubernetes.messages import show
from hivecore.scheduler import (
    Action,
    Job,
    Move,
    PlacedPod,
    Preempt,
    Promote,
    Reject,
    Scheduler,
    SchedulerEvent,
    Start,
)

__all__ = ["PodJobs", "Standing"]


class Standing(NamedTuple):
    """What a pod may do now.

    :param outcome: "bind", "preempt" (victims must leave first), "wait", or "error" (it can never
        start).
    :param reason: why it is not bound.
    """

    outcome: str
    reason: str = ""
    place: PlacedPod | None = None


class PodJobs(RunningPods):
    """The known pods and their jobs.

    :param tell: applies events to the scheduler and runs a round of decisions.

    Methods note what happens to pods; `settle` passes it on to the scheduler.
    """

    def __init__(self, scheduler: Scheduler, tell: Callable[[list[SchedulerEvent]], Round]) -> None:
        super().__init__(scheduler, tell)
        self._names: dict[str, str] = {}
        self._named_by: dict[str, set[str]] = {}  # job -> jobs that name it as their partner
        self._ending: dict[str, None] = {}  # victims that end once the job starts that evicts them
        self.victims = Victims(scheduler, self._gangs)
        """The jobs that have to stop."""

    # --- pods

    def add(self, identity: str, name: str, request: Request, is_bound: bool = False) -> Member:
        """Add a pod.

        :param is_bound: whether it runs already; then it counts whatever it says.
        :raises ValueError: it contradicts its gang; then it is not added.
        """
        known = self.members.get(identity)
        keeps = known is not None and (known.slot is not None or bool(known.node))
        if known is not None and (keeps or known.request == request):
            self._unsettled[known.job] = None
            return known
        job = request.job_name
        gang = self._gangs.get(job)
        if not is_bound:
            self._check(request, job, gang, identity)
        if known is not None:
            self._remove(identity)
        same_name = self._names.get(name)
        if same_name is not None and same_name != identity:
            self.lose(same_name)  # a pod of that name is gone
        # The lost pod may have been the gang's last.
        gang = self._gangs.get(job)
        if gang is None:
            gang = self._new_gang(job, owner_of(request.gang))
        member = Member(identity, name, request, job)
        self.members[identity] = gang.members[identity] = member
        self._names[name] = identity
        self._unsettled[job] = None
        if self.claims is not None and request.claims:
            self.claims.note(identity, request.claims)
            self._read_claims(member)
        return member

    def _check(self, request: Request, job: str, gang: Gang | None, identity: str) -> None:
        others = [] if gang is None else [m for m in gang.members.values() if m.node == ""]
        other = next((member for member in others if member.identity != identity), None)
        if other is not None:
            known = other.request
            if (known.gang, known.common) != (request.gang, request.common):
                what = f"the pod says something else of it than {other.name}"
                raise ValueError(f"gang {show(request.gang)}: {what}")
        elif job in self._scheduler:
            own = self._scheduler.job(job)
            if own.tenant != OTHERS and not request.is_of(own):
                raise ValueError(f"gang {show(request.gang)}: its job {show(job)} is another one")

    def lose(self, identity: str) -> None:
        """Forget a pod that is gone or has ended."""
        self.refused.pop(identity, None)
        self._remove(identity)

    def _remove(self, identity: str) -> None:
        member = self.members.pop(identity, None)
        known = member or self._others.pop(identity, None)
        self._new_others.pop(identity, None)
        self._uncounted.pop(identity, None)
        if known is not None and self._lone.get(lone_name(known.name)) == identity:
            del self._lone[lone_name(known.name)]
            self._events.append(_of("finish", lone_name(known.name)))
        if member is None:
            return
        if self._names.get(member.name) == identity:
            del self._names[member.name]
        gang = self._gangs[member.job]
        gang.leave(member)
        del gang.members[identity]
        gang.refused, gang.never = "", ((0, 0), "")  # that may have been for this pod
        self._unsettled[member.job] = None
        if self.claims is not None and member.request.claims:
            others = self.claims.beside(identity)
            self.claims.note(identity, ())
            self._claims_changed(others)

    def bound(
        self,
        member: Member,
        node: str,
        job: str,
        slot: Slot | None,
        held: tuple[DeviceAllocation, ...] = (),
    ) -> None:
        """Note that a pod was reported as bound; adopt it there if its job has no place for it.

        :param job: the job in its annotations; ``slot`` is its place there.
        :param held: the devices in its annotations.
        """
        gang = self._gangs[member.job]
        member.node, member.held = node, held
        member.said = slot if job == member.job else None
        self._unsettled[member.job] = None
        places = gang.places(self._scheduler)
        own = None if member.slot is None else places.get(member.slot)
        if own is not None and own.node in ("", node):
            return
        gang.leave(member)
        if member.said is not None and member.said in gang.free_for(member, self._scheduler):
            gang.take(member, member.said)
        elif gang.name in self._scheduler and not places:
            gang.is_redefined = True  # the job waits, and this pod runs outside it

    def unbound(self, member: Member) -> None:
        """Note that binding a pod has failed."""
        member.node, member.held, member.said = "", (), None
        self.refuse(member.identity)
        self._unsettle_claims(member)
        gang = self._gangs[member.job]
        if gang.has_to_stop(self._scheduler):
            gang.leave(member)
        self._unsettled[member.job] = None

    def listed(self) -> None:
        """Note that all pods are known, so that jobs without pods can go."""
        if not self.is_listed:
            check_devices([*self.members.values(), *self._others.values()])
            self.is_listed = True
            self.refused |= dict.fromkeys(self.members)
            self._unsettled |= self._inherited
            self._unsettled |= dict.fromkeys(self._gangs)
            self._unsettled |= dict.fromkeys(member.job for member in self._new_others.values())
            self._inherited.clear()

    def set_node(self, node: str, healthy: bool) -> None:
        """Set whether a node is healthy."""
        arguments = ("node", node), ("healthy", healthy)
        self._events.append(SchedulerEvent("set_node", None, arguments))

    # --- the scheduler

    def settle(self) -> None:
        """Tell the scheduler what has happened, and act on its answers."""
        while self._unsettled or self._events or self._has_news:
            self._adopt()
            events = [*self._changes(), *self._events]
            self._events = []
            names, self._unsettled = self._with_partners(self._unsettled), {}
            submitted: dict[int, str] = {}
            for name in names:
                gang = self._gangs.get(name)
                for event in self._due(name, gang):
                    if event.name == "submit":
                        submitted[len(events)] = name
                        self._submitted.add(name)
                    events.append(event)
                if gang is not None and not gang.members and name not in self._ending:
                    self._link(gang)
                    self._drop(gang)
            bookings = self._bookings(events)
            events += bookings
            if not events:
                return
            answer = self._tell(events)
            gone = [name for name in ended(events) if name in self._gangs]
            for name in gone:
                self._gangs[name].changed()
                self._unsettled[name] = None  # its pods have no places any more
            for error in answer.errors:
                if error.event in submitted:
                    gang = self._gangs[submitted[error.event]]
                    gang.refused = gang.explained(error.message)
                    gone.append(gang.name)
                elif self.claims is not None and events[error.event].name == "update_claims":
                    self._events += self.claims.refused(events[error.event])
            if ended(events):
                self._count_again()
            self._submitted.clear()
            self._pass_on_claims(gone)
            self.see(action for _, action in answer.actions)
            if self.claims is not None and (answer.actions or len(bookings) < len(events)):
                self.claims.retry()  # held devices may be free now

    def see(self, actions: Iterable[Action]) -> None:
        """Follow actions of the scheduler."""
        self.victims.changed()
        gone = [job for job in self._ending if job not in self._scheduler]
        self._unsettled |= dict.fromkeys(gone)
        self._pass_on_claims(gone)
        for action in actions:
            if isinstance(action, (Start, Promote, Move)):
                self._changed(action.job)
            elif isinstance(action, Preempt):
                self._wake(action.for_job)
                self.victims.add(action.job)
                if action.job.startswith(PREFIX):
                    self._send_away(action.job)
            elif isinstance(action, Reject) and action.job in self._gangs:
                self._gangs[action.job].refused = self._gangs[action.job].explained(action.reason)
                self._unsettled[action.job] = None
                self._pass_on_claims([action.job])

    def _changed(self, job: str) -> None:
        gang = self._gangs.get(job)
        if gang is not None:
            gang.has_started = True
            gang.changed()
            self._wake(job)

    def _send_away(self, job: str) -> None:
        """Take the places away from pods that are not bound yet."""
        self._unsettled[job] = None
        gang = self._gangs.get(job)
        if gang is not None:
            for member in gang.members.values():
                if not member.node:
                    gang.leave(member)
                    self.refuse(member.identity)
                    if self.claims is not None:
                        self._claims_changed(self.claims.beside(member.identity))

    def _due(self, name: str, gang: Gang | None) -> list[SchedulerEvent]:
        """Return the events that bring the scheduler up to date with a gang."""
        if name in self._inherited or name in self._lone:
            return []
        self._ending.pop(name, None)
        if gang is None and name not in self._scheduler:
            return []
        gang = Gang(name) if gang is None else gang
        if name not in self._scheduler:
            gang.changed()
            gang.taken.clear()
            for member in gang.members.values():
                member.slot = None
            return self._submission(gang)
        status = self._scheduler.status(name)
        gang.has_started |= status.since is not None
        lacks = self._lacks(gang)
        if status.state in ("pending", "reserved"):
            gang.changed()
            if gang.is_redefined or lacks:
                return [_of("cancel", name), *self._submission(gang)]
            return self._amendment(gang)
        if not status.for_job:
            if gang.is_returned and gang.members and not gang.is_bound:
                self._unsettled[name] = None
                return [_of("cancel", name), *self._submission(gang)]
            return self._growth(gang) if gang.members else [_of("finish", name)]
        if gang.is_bound:
            return []
        events = [] if status.has_stopped else [_of("stopped", name)]
        if lacks and not status.is_ending:
            events.append(_of("cancel", name))
        if lacks or status.is_ending:
            self._ending[name] = None
        else:
            events += self._amendment(gang)
        return events

    def _submission(self, gang: Gang) -> list[SchedulerEvent]:
        """Return the event that submits a gang's job, if its pods are complete."""
        gang.is_redefined = gang.is_returned = False
        for member in gang.unbound:
            self._read_claims(member, is_new=True)
        gang.is_redefined = False
        if gang.refused or self._lacks(gang):
            return []
        try:
            job = self._job(gang)
        except ValueError as error:
            gang.refused = str(error)
            return []
        partners = [] if gang.has_started else self._partners(gang)
        if partners and not self._start_together([gang, *partners]):
            return []
        if self.claims is not None:
            for member in gang.unbound:
                self.claims.allocates(member.identity)
        return [SchedulerEvent("submit", None, (("job", job),))]

    def _job(self, gang: Gang) -> Job:
        wants = [member.wants for member in gang.unbound]
        job = self._job_of(gang.waiting, [want.templates for want in wants], gang.beside)
        if holders := frozenset[str]().union(*(want.holders for want in wants)):
            job = job.replace(after=(*job.after, *sorted(holders)))  # nor does it evict these
        pinned = [set(want.nodes) for want in wants if want.nodes is not None]
        if not pinned or not self._scheduler.places(job):
            return job  # the pods themselves know where they may go
        nodes = sorted(set.intersection(*pinned, *filter(None, [set(job.where.nodes)])))
        if not nodes:
            raise ValueError("no node can use the devices that the claims of all its pods have")
        return job.replace(where=job.where.replace(nodes=nodes))

    def _lacks(self, gang: Gang) -> str:
        """Return which pods are missing for the job to start, or ""."""
        lacks = self._lacks_itself(gang)
        if lacks or gang.has_started:
            return lacks
        for partner in self._partners(gang):
            lacks = partner.refused or self._lacks_itself(partner)
            if lacks:
                name = object_name(partner.name.removeprefix(PREFIX))
                return f"the gang {show(name)} of its group: {lacks}"
        return ""

    def _lacks_itself(self, gang: Gang) -> str:
        waiting = gang.waiting
        if not waiting:
            return "none of its pods is there"
        if lacks := next((pod.wants.lacks for pod in gang.unbound if pod.wants.lacks), ""):
            return lacks
        try:
            return lacking(waiting, self._group(waiting[0].gang), gang.beside)
        except ValueError as error:
            return str(error)

    # --- gangs that start together

    def _link(self, gang: Gang) -> None:
        """Note the jobs that a gang names as its partners."""
        waiting = gang.waiting
        named: frozenset[str] = frozenset()
        if waiting:
            wishes: GangWishes | str
            try:
                wishes = wishes_of(waiting, self._group(waiting[0].gang))
                named = frozenset(PREFIX + job_name(other) for other in wishes.groups)
            except ValueError as error:  # its pods get the reason
                wishes = str(error)
            gang.is_redefined |= gang.wishes not in (None, wishes)
            gang.wishes = wishes
        for other in gang.partners - named:
            self._named_by[other].discard(gang.name)
            if not self._named_by[other]:
                del self._named_by[other]
        for other in named - gang.partners:
            self._named_by.setdefault(other, set()).add(gang.name)
        gang.partners = named

    def _with_partners(self, names: Iterable[str]) -> dict[str, None]:
        """Return these jobs with those that name them or are named by them."""
        linked = dict.fromkeys(names)
        queue = list(linked)
        while queue:
            name = queue.pop()
            gang = self._gangs.get(name)
            if gang is not None:
                self._link(gang)
            partners = self._named_by.get(name, set()) | (gang.partners if gang else set())
            more = sorted(job for job in partners & self._gangs.keys() if job not in linked)
            linked.update(dict.fromkeys(more))
            queue += more
        return linked

    def _partners(self, gang: Gang) -> list[Gang]:
        """Return the gangs that must start with this one, and theirs, except running ones."""
        partners: dict[str, Gang] = {}
        queue = sorted(gang.partners)
        while queue:
            name = queue.pop(0)
            partner = self._gangs.get(name) or Gang(name)
            # Without pods it is about to finish, unless they are not listed yet.
            has_pods = bool(partner.members) or name in self._inherited
            has_started = name in self._scheduler and self._scheduler.status(name).since is not None
            # A victim without bound pods is about to stop.
            runs = has_started and (partner.is_bound or not partner.has_to_stop(self._scheduler))
            if name != gang.name and name not in partners and not (runs and has_pods):
                partners[name] = partner
                queue += sorted(partner.partners)
        return list(partners.values())

    def _start_together(self, gangs: list[Gang]) -> bool:
        """Whether the scheduler would accept all of these jobs.

        The scheduler starts jobs together only if it knows them: were one rejected, the others
        would start alone. The gang of a rejected job is marked as refused.
        """
        with self._scheduler.what_if() as branch:
            for gang in gangs:
                try:
                    if gang.name not in branch:
                        branch.submit(self._job(gang), branch.now)
                except (KeyError, ValueError) as error:
                    gang.refused = gang.explained(str(error.args[0]))
            if all(gang.name in branch for gang in gangs):
                return True
            for action in branch.decide(branch.now):
                for gang in gangs:
                    if isinstance(action, Reject) and action.job == gang.name:
                        gang.refused = action.reason
        return False

    def confine(self, member: Member, offered: Iterable[str]) -> bool:
        """Move a pod's job off a node that is not offered to the pod; return whether it moved.

        The pod takes a free place of its job, or the job starts at once, without victims, on nodes
        that are offered to all of its pods. If other pods are bound, or have gone, only this pod
        moves. Otherwise nothing changes.
        """
        gang = self._gangs[member.job]
        own = frozenset(offered)
        if self._takes_free(gang, member, own):
            return True
        if not gang.is_bound:
            gang.offered = {pod: of for pod, of in gang.offered.items() if pod in gang.members}
            gang.offered[member.identity] = own
            # Offers to other pods may be old: if they do not work, use the pod's own.
            for allowed in dict.fromkeys((frozenset.intersection(*gang.offered.values()), own)):
                if self._starts_within(gang, allowed):
                    return True
        if member.slot is None or not self._goes_elsewhere(gang, member.slot, own):
            return False
        self.settle()
        return True

    def _starts_within(self, gang: Gang, allowed: frozenset[str]) -> bool:
        """Let a job start on these nodes instead; return whether it does."""
        try:
            job = self._job(gang)
        except ValueError:
            return False
        if not self._scheduler.places(job):
            return False  # its pods go where their claims have devices
        nodes = [node for node in job.where.nodes or self._nodes() if node in allowed]
        if not nodes:
            return False
        job = job.replace(where=job.where.replace(nodes=nodes))
        with self._scheduler.what_if() as branch:
            branch.cancel(job.name, branch.now)
            branch.submit(job, branch.now)
            if not starts(branch.decide(branch.now), job.name):
                return False
        gang.changed()
        for other in gang.members.values():
            gang.leave(other)
        self._events += [_of("cancel", job.name), event_of("submit", job=job)]
        self.settle()
        return True

    # --- what there is for a pod

    def standing(self, member: Member) -> Standing:
        """Return whether a pod may be bound, or why not."""
        gang, scheduler = self._gangs[member.job], self._scheduler
        if gang.refused:
            return Standing("error", gang.refused)
        if gang.name in self._inherited:
            return Standing("wait", "the pods of the cluster have not been listed yet")
        if gang.name not in scheduler:
            lacks = self._lacks(gang)
            never = self._never(gang) if lacks else ""
            return Standing("wait", f"{lacks or 'its job comes next'}{never}")
        status = scheduler.status(gang.name)
        if status.state == "pending":
            refusal = status.refusal
            reason = "its turn has not come" if refusal is None else refusal.reason
            return Standing("wait", reason)
        if status.state == "reserved":
            victims = ", ".join(map(show, status.victims))
            return Standing("preempt", f"waits for {victims} to stop")
        if status.for_job and not member.node:
            return Standing("wait", f"its job has to stop for {show(status.for_job)}")
        places = gang.places(scheduler)
        if member.slot is None or member.slot not in places:
            gang.leave(member)
            gang.assign(scheduler)
            if member.slot is None and member.request.claims and gang.is_outdated(scheduler):
                self.return_devices(member)
                self.settle()
                reason = member.wants.lacks or "its job is decided again: its claims are others now"
                return Standing("wait", reason)
            if member.slot is None and member.wants.lacks:
                return Standing("wait", member.wants.lacks)
            if member.slot is None:
                return Standing("wait", "all places of its job are taken, or not there yet")
        return Standing("bind", place=places[member.slot])

    def leaving(self) -> dict[str, str]:
        """Return the pods to evict, as `Victims.leaving`; none before all pods are known."""
        return self.victims.leaving() if self.is_listed else {}

    def by_name(self, name: str) -> Member | None:
        """Return the pod "namespace/name"."""
        return self.members.get(self._names.get(name, ""))


def _of(event: str, job: str) -> SchedulerEvent:
    return event_of(event, job=job)
