"""The known pods, and how their device claims constrain their jobs."""

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import structs
from msgspec.json import encode

from hivecore.interop.extender.annotations import without_place
from hivecore.interop.extender.claim_writes import ClaimWrite
from hivecore.interop.extender.claims import Claims, KnownClaim
from hivecore.interop.extender.gangs import Gang, Member
from hivecore.interop.extender.requests import Request, read_request
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import mapping_in
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import node_of
from hivecore.interop.kubernetes.recent import Recent
from hivecore.scheduler import PlacedPod, Scheduler, SchedulerEvent

__all__ = ["ClaimedPods", "ended"]

_MOST_READ = 4096  # cached requests
_NOT_READ = "managedFields", "resourceVersion"  # fields of metadata that change without the pod


class ClaimedPods:
    """The part of `PodJobs` that follows device claims."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.members: dict[str, Member] = {}
        """Pods by identity."""
        self.is_listed = False
        """Whether all pods of the cluster are known."""
        self.woken: dict[str, None] = {}
        """Jobs whose pods should be retried."""
        self.refused = Recent[str, None]()
        """The pods that this replica refused, or another one may have; some may not exist."""
        self.claims = None if scheduler.claims is None else Claims(scheduler.claims)
        """The device claims; ``None`` if the scheduler allocates none."""
        self._submitted: set[str] = set()  # by the next events
        self._gangs: dict[str, Gang] = {}
        self._unsettled: dict[str, None] = {}
        #: pod as JSON -> its request: the watch and each filter call repeat the same pods.
        self._read = Recent[bytes, Request | None](_MOST_READ)

    def request_of(self, pod: Mapping[str, Any]) -> Request | None:
        """Return a pod's request; ``None`` if it asks for nothing that the scheduler manages.

        :raises ValueError: it cannot be read or served here. So does `TypeError`.
        """
        request = self._request_of(pod)
        if request is not None and request.claims and not node_of(Field(pod)):
            assert self.claims is not None
            if not self.claims.is_written:
                ways = "--kubeconfig or --in-cluster"
                raise ValueError(f"device claims need a server that writes them itself: {ways}")
        return request

    def _request_of(self, pod: Mapping[str, Any]) -> Request | None:
        said = _said(pod)
        if said in self._read:
            return self._read[said]
        before = _said(_unbound(pod)) if node_of(Field(pod)) else b""
        if before in self._read:  # it is bound since, as it was to be
            request = self._read[before]
        else:
            request = read_request(pod, self.claims is not None)
        if said:
            self._read[said] = request
        return request

    def see_object(self, kind: str, type_: str, item: Mapping[str, Any]) -> None:
        """Note a node, a device claim or an object that claims depend on, as a watch reports it.

        :param kind: "Node" or a key of `KINDS`.
        :param type_: the type of the event, such as "DELETED".
        :raises ValueError: the object cannot be read.
        """
        if self.claims is not None:
            self._claims_changed(self.claims.see(kind, type_, item))

    def keep_objects(self, kind: str, names: set[str]) -> None:
        """Forget the objects of a kind that are not among these."""
        if self.claims is not None:
            self._claims_changed(self.claims.keep(kind, names))

    def lose(self, identity: str) -> None:
        """Forget a pod that is gone or has ended."""
        raise NotImplementedError

    def _claims_changed(self, pods: Iterable[str]) -> None:
        for pod in pods:
            if (member := self.members.get(pod)) is not None:
                self._read_claims(member)

    def _pass_on_claims(self, jobs: Iterable[str]) -> None:
        """Let others allocate these jobs' claims; refused gangs would pass them on for ever."""
        claims = self.claims
        if claims is None:
            return
        for job in jobs:
            members = self._gangs[job].members if job in self._gangs else {}
            for member in members.values() if job not in self._scheduler else ():
                self._claims_changed(
                    pod
                    for pod in claims.beside(member.identity)
                    if pod in self.members and not self._gangs[self.members[pod].job].refused
                )

    def follow_claims(self, member: Member, request: Request) -> None:
        """Note claims that were made again from the templates of a pod, which keeps its place.

        :param request: of the pod as the watch has it; kube-scheduler's may be older.
        """
        are_others = member.request.claims != request.claims
        if self.claims is None or not are_others or not all(ref.claim for ref in request.claims):
            return
        member.request = structs.replace(member.request, claims=request.claims)
        self.claims.note(member.identity, request.claims)
        self.claims.allocates(member.identity)

    def _read_claims(self, member: Member, is_new: bool = False) -> None:
        """Read the claims of a pod without a place; if it `is_new`, its job does not exist yet."""
        claims, gang = self.claims, self._gangs[member.job]
        if claims is None or not member.request.claims or member.slot is not None or member.node:
            return
        for slot, place in () if is_new else gang.places(self._scheduler).items():
            if slot in gang.taken or not claims.has(member.identity, place):
                continue
            if not gang.has_to_stop(self._scheduler):
                gang.take(member, slot)  # as before a restart
                return
        is_removed = partial(self._is_by_itself, ended=(member.job,) if is_new else ())
        holder_of = partial(self._holder_of, member)
        wants = claims.wants(member.identity, partial(self._before, member), is_removed, holder_of)
        if wants != member.wants:
            member.wants = wants
            gang.is_redefined = True
            if not wants.lacks:
                gang.refused = ""
            self._unsettled[member.job] = None
            self._wake(member.job)

    def _holder_of(self, member: Member, claim: KnownClaim) -> str:
        """Return another job than a pod's own that has booked a claim's devices, or ""."""
        assert self.claims is not None
        pod = self.claims.holder(claim, self._place_of)
        return self.members[pod].job if pod and self.members[pod].job != member.job else ""

    def _before(self, member: Member, other: str, is_first: bool) -> str:
        """Return why another pod must get the claim first, or ""."""
        known = self.members.get(other)
        if known is None:
            return ""
        if known.job == member.job and not known.node:
            return (
                f"has no devices yet; pods of one gang, as {show(known.name)} is, cannot share it"
            )
        is_there = known.job in self._scheduler or known.job in self._submitted
        return (
            f"gets its devices with the pod {show(known.name)} first"
            if is_first and is_there
            else ""
        )

    def _unsettle_claims(self, member: Member) -> None:
        for ref in member.request.claims:
            if self.claims is not None:
                self.claims.unsettle(ref)

    def writes(self, member: Member, place: PlacedPod, node: str) -> tuple[ClaimWrite, ...]:
        """Return what to write into a pod's claims before it is bound at its place.

        The caller sends these writes and notes the end of each, see `Claims.has_sent`.

        :raises ValueError: its devices are taken; its job is then placed again.
        """
        if self.claims is None or not member.request.claims:
            return ()
        try:
            writes = tuple(self.claims.writes(member.identity, place, node))
        except ValueError:
            self.return_devices(member)
            raise
        self.claims.sends(writes)
        return writes

    def return_devices(self, member: Member) -> None:
        """Place a pod's job again, as its devices are taken; not if a pod of it is bound."""
        gang = self._gangs[member.job]
        if not gang.is_bound:
            for other in gang.members.values():
                gang.leave(other)
            gang.is_returned = True
            self._unsettled[member.job] = None

    def is_stale(self, claim: str) -> bool:
        """Whether only waiting pods hold a claim's devices, and they wait for other devices."""
        known = None if self.claims is None else self.claims.known.get(claim)
        if self.claims is None or known is None or claim not in self.claims.stale:
            return False
        return self._is_by_itself(known)

    def _is_by_itself(self, claim: KnownClaim, ended: Container[str] = ()) -> bool:
        """Whether only waiting pods hold a claim's devices, and no job that lives booked them."""
        assert self.claims is not None
        return all(map(self.is_waiting, claim.reserved)) and self.claims.is_by_itself(
            claim, partial(self._place_of, ended=ended)
        )

    def is_waiting(self, pod: str) -> bool:
        """Whether a pod is known, and not bound."""
        return pod in self.members and not self.members[pod].node

    def _place_of(self, pod: str, ended: Container[str] = ()) -> PlacedPod | None:
        member = self.members.get(pod)
        if member is None or member.slot is None or member.job in ended:
            return None
        return self._gangs[member.job].places(self._scheduler).get(member.slot)

    def _bookings(self, events: Iterable[SchedulerEvent]) -> list[SchedulerEvent]:
        """Return the claim bookings that follow from these events."""
        claims = self.claims
        if claims is None or not self.is_listed or not claims.is_listed:
            return []
        ending = ended(events)
        for job in ending:
            for member in self._gangs[job].members.values() if job in self._gangs else ():
                self._unsettle_claims(member)
        return claims.bookings(partial(self._place_of, ended=ending), self.is_waiting)

    def _changes(self) -> list[SchedulerEvent]:
        """Return the changes of devices, which may admit jobs that were refused."""
        events = [] if self.claims is None else self.claims.changes()
        for gang in self._gangs.values() if events else ():
            if gang.refused and any(member.request.claims for member in gang.members.values()):
                gang.refused = ""
                self._unsettled[gang.name] = None
        return events

    @property
    def _has_news(self) -> bool:
        return self.claims is not None and self.claims.has_news(self.is_listed)

    def refuse(self, identity: str) -> None:
        """Kube-scheduler does not get a pod bound now."""
        self.refused[identity] = None

    def _wake(self, job: str) -> None:
        if job in self._gangs:
            self.woken[job] = None


def ended(events: Iterable[SchedulerEvent]) -> dict[str, None]:
    """Return the jobs that these events end or stop, in order, also if they are adopted later."""
    ends = (event for event in events if event.name in ("finish", "cancel", "stopped"))
    return {dict(event.arguments)["job"]: None for event in ends}


def _unbound(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod without its node and the annotations that it was bound with."""
    meta, spec = ({**mapping_in(pod, key)} for key in ("metadata", "spec"))
    spec.pop("nodeName", None)
    meta["annotations"] = without_place(mapping_in(meta, "annotations"))
    if not meta["annotations"]:
        del meta["annotations"]
    return {**pod, "metadata": meta, "spec": spec}


def _said(pod: Mapping[str, Any]) -> bytes:
    """Return the fields of a pod that `read_request` uses, as JSON; b"" if it cannot be encoded."""
    try:
        meta, status = pod["metadata"], pod.get("status") or {}
        own = {key: value for key, value in meta.items() if key not in _NOT_READ}
        return encode([own, pod["spec"], status.get("resourceClaimStatuses")])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return b""
