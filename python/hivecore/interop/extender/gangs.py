"""The pods of a gang, and the places in its job that they have."""

from dataclasses import dataclass

from hivecore.devices import DeviceAllocation
from hivecore.interop.extender.claims import Wants
from hivecore.interop.extender.requests import Request, Shape, shape_of
from hivecore.interop.koordinator.jobs import GangWishes
from hivecore.interop.kubernetes.pods import PodId, natural_order
from hivecore.scheduler import Job, PlacedPod, Scheduler

__all__ = ["Gang", "Member", "Slot"]

Slot = tuple[str, int]
_NO_RANK = 2**31
_NO_CLAIMS = Wants()


@dataclass(slots=True)
class Member:
    """A pod that exists and has not ended."""

    identity: str
    name: str
    """"namespace/name"."""
    request: Request
    job: str
    slot: Slot | None = None
    """Its place in the job."""
    node: str = ""
    """The node to which it is, or is being, bound."""
    wants: Wants = _NO_CLAIMS
    """What its claims mean for its job."""
    held: tuple[DeviceAllocation, ...] = ()
    """Its devices according to its annotations."""
    said: Slot | None = None
    """Its place according to its annotations."""
    is_beside: bool = False
    """Whether it runs but cannot be counted."""

    @property
    def pod(self) -> PodId:
        """Its names."""
        namespace, _, name = self.name.partition("/")
        return PodId(name, namespace, "" if self.identity == self.name else self.identity)

    def shape_in(self, job: Job) -> Shape:
        """Return the shape of the pod's role in a job."""
        return (*self.request.shape_in(job), self.wants.templates)

    def is_at(self, place: PlacedPod) -> bool:
        """Whether a place is on the node of a bound pod, with the GPUs that it names."""
        gpus = {device.minor for device in self.held if device.type == "gpu"}
        if gpus in (set(), set(place.gpus)):
            return place.node in ("", self.node)
        return place.node == self.node and not place.gpus

    def may_use(self, node: str) -> bool:
        """Whether the pod's claims can be used on a node; for "", on any node."""
        return not node or self.wants.nodes is None or node in self.wants.nodes


class Gang:
    """Pods that start together.

    :param name: of their job.
    :param owner: the object that may define it.
    """

    def __init__(self, name: str, owner: str = "") -> None:
        self.name, self.owner = name, owner
        self.members: dict[str, Member] = {}
        self.taken: dict[Slot, str] = {}
        """place -> pod"""
        self.refused = ""
        """Why it cannot become a job or never run, or ""."""
        self.offered: dict[str, frozenset[str]] = {}
        """pod -> the nodes last offered to it, if its own was not among them"""
        self.partners: frozenset[str] = frozenset()
        """Jobs that must start with its own."""
        self.answer = "", ""
        """The last answer for one of its pods: (outcome, reason)."""
        self.reported = ""
        """The reason in its last event."""
        self.condition: tuple[bool, str] | None = None
        """The condition in the object that defines it: (is scheduled, reason)."""
        self.has_started = False
        """Whether its job has ever started; then it waits for no partner."""
        self.wishes: GangWishes | str | None = None
        """What its pods and PodGroup last said, or how they contradict each other."""
        self.is_redefined = False
        """Whether that has changed since its job was submitted."""
        self.is_returned = False
        """Whether its running job must be placed again."""
        self.never: tuple[tuple[int, int], str] = (0, 0), ""
        """For numbers of (pods, nodes): why it could never run, even with all of its pods."""
        self._places: dict[Slot, PlacedPod] | None = None

    def explained(self, message: str) -> str:
        """Return an error of the job in the terms of its pods."""
        first = next(iter(self.members.values()), None)
        return message if first is None else first.request.explained(message)

    @property
    def waiting(self) -> list[Request]:
        """The pods that are not bound."""
        return [member.request for member in self.unbound]

    @property
    def unbound(self) -> list[Member]:
        """The pods that are not bound."""
        return [member for member in self.members.values() if not member.node]

    @property
    def first(self) -> Member:
        """The first pod, preferably one that waits."""
        return min(self.unbound or self.members.values(), key=_order)

    @property
    def beside(self) -> int:
        """The number of pods that run outside the job; they count towards its minimum."""
        return sum(1 for member in self.members.values() if member.node and member.slot is None)

    @property
    def is_bound(self) -> bool:
        """Whether any pod is bound."""
        return any(member.node for member in self.members.values())

    def is_outdated(self, scheduler: Scheduler) -> bool:
        """Whether no pod is bound and the job's places are for claims that have changed since."""
        return not self.is_bound and len(self.taken) < len(self.places(scheduler))

    def has_to_stop(self, scheduler: Scheduler) -> bool:
        """Whether its job has to stop for another one."""
        return self.name in scheduler and bool(scheduler.status(self.name).for_job)

    def changed(self) -> None:
        """Note that the job's places have changed."""
        self._places = None

    def places(self, scheduler: Scheduler) -> dict[Slot, PlacedPod]:
        """Return the places of the job's pods that have started."""
        if self._places is None:
            pods = scheduler.status(self.name).pods if self.name in scheduler else ()
            self._places = {(pod.role, pod.index): pod for pod in pods}
        return self._places

    def free_for(
        self, member: Member, scheduler: Scheduler, is_anywhere: bool = False
    ) -> list[Slot]:
        """Return the places that a bound pod may have: of its shape, on its node, with its GPUs.

        :param is_anywhere: whether other nodes and GPUs are allowed.
        """
        places = self.places(scheduler)
        if not places:
            return []
        job = scheduler.job(self.name)
        shape = member.request.shape_in(job)  # after a restart, its claims are unknown
        roles = {role.name for role in job.roles if shape_of(role)[:-1] == shape}
        return [
            slot
            for slot, place in places.items()
            if slot not in self.taken and slot[0] in roles
            if is_anywhere or member.is_at(place)
        ]

    def take(self, member: Member, slot: Slot) -> None:
        """Give a pod this place."""
        self.leave(member)
        self.taken[slot] = member.identity
        member.slot = slot

    def leave(self, member: Member) -> None:
        """Take a pod's place away."""
        if member.slot is not None:
            del self.taken[member.slot]
            member.slot = None

    def assign(self, scheduler: Scheduler) -> None:
        """Give waiting pods the free places of their role, in the order of their ranks.

        Pods without a rank come last, by name. Numbers in names count as numbers: ``bert-2`` comes
        before ``bert-10``.
        """
        job = scheduler.job(self.name)
        roles = {role.name: shape_of(role) for role in job.roles}
        free: dict[Shape, list[Slot]] = {}
        places = self.places(scheduler)
        for slot in places:
            if slot not in self.taken:
                free.setdefault(roles[slot[0]], []).append(slot)
        waiting = [member for member in self.unbound if member.slot is None]
        for member in sorted(waiting, key=_order):
            slots = free.get(member.shape_in(job), [])
            usable = [] if member.wants.lacks else slots
            first = next((slot for slot in usable if member.may_use(places[slot].node)), None)
            if first is not None:
                slots.remove(first)
                self.take(member, first)


def _order(member: Member) -> tuple[int, list[tuple[int, str]]]:
    rank = member.request.rank
    return _NO_RANK if rank is None else rank, natural_order(member.name)
