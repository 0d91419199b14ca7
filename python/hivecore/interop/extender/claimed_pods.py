"""The pods that are known, and what their device claims mean for their jobs."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.json import encode

from hivecore.interop.extender.claims import Claims, ClaimWrite
from hivecore.interop.extender.gangs import Gang, Member
from hivecore.interop.extender.requests import Request, read_request
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import node_of
from hivecore.scheduler import PlacedPod, Scheduler, SchedulerEvent

__all__ = ["ClaimedPods"]

_MOST_READ = 4096  # pods of which it is kept what was read
_NOT_READ = "managedFields", "resourceVersion"  # of metadata; they change without the pod


class ClaimedPods:
    """The part of `PodJobs` that follows device claims."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.members: dict[str, Member] = {}
        """The pods by identity."""
        self.is_listed = False
        """Whether all pods of the cluster are known."""
        self.woken: dict[str, None] = {}
        """The jobs for whose pods there may be something now."""
        self.claims = None if scheduler.claims is None else Claims(scheduler.claims)
        """What is known of device claims; ``None``: the scheduler allocates none."""
        self._submitted: set[str] = set()  # with the next events
        self._gangs: dict[str, Gang] = {}
        self._unsettled: dict[str, None] = {}
        #: what was read of pods, by what they say: the watch and each filter tell of a pod again
        self._read: dict[bytes, Request | None] = {}

    def request_of(self, pod: Mapping[str, Any]) -> Request | None:
        """What a pod requests; ``None``: nothing that the scheduler has.

        :raises ValueError: it cannot be read, or cannot be served here. So does `TypeError`.
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
        request = read_request(pod, self.claims is not None)
        if said:
            if len(self._read) >= _MOST_READ:
                del self._read[next(iter(self._read))]
            self._read[said] = request
        return request

    def see_object(self, kind: str, type_: str, item: Mapping[str, Any]) -> None:
        """An object of device claims, or a node, was reported.

        :raises ValueError: it cannot be read.
        """
        if self.claims is not None:
            self._claims_changed(self.claims.see(kind, type_, item))

    def keep_objects(self, kind: str, names: set[str]) -> None:
        """There are no such objects but these."""
        if self.claims is not None:
            self._claims_changed(self.claims.keep(kind, names))

    def lose(self, identity: str) -> None:
        """A pod is gone, or has ended."""
        raise NotImplementedError

    def _claims_changed(self, pods: Iterable[str]) -> None:
        for pod in pods:
            if (member := self.members.get(pod)) is not None:
                self._read_claims(member)

    def _read_claims(self, member: Member, is_new: bool = False) -> None:
        """Read what the claims of a pod mean now, if it has no place.

        :param is_new: whether its job is yet to come.
        """
        claims, gang = self.claims, self._gangs[member.job]
        if claims is None or not member.request.claims or member.slot is not None or member.node:
            return
        for slot, place in () if is_new else gang.places(self._scheduler).items():
            if slot not in gang.taken and claims.has(member.identity, place):
                gang.take(member, slot)  # as before a restart
                return
        wants = claims.wants(member.identity, partial(self._before, member))
        if wants != member.wants:
            member.wants = wants
            gang.is_redefined, gang.refused = True, ""
            self._unsettled[member.job] = None
            self._wake(member.job)

    def _before(self, member: Member, other: str, is_first: bool) -> str:
        """Why another pod has to get a claim of a pod first; "": it need not.

        :param is_first: whether its job is to allocate the claim.
        """
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
        """What the claims of a pod have to say before it is bound at its place.

        :raises ValueError: others have its devices; then its job is decided again.
        """
        if self.claims is None or not member.request.claims:
            return ()
        try:
            return tuple(self.claims.writes(member.identity, place, node))
        except ValueError:
            self.return_devices(member)
            raise

    def return_devices(self, member: Member) -> None:
        """Others have the devices of a pod: its job is decided again, if no pod of it is bound."""
        gang = self._gangs[member.job]
        if not gang.is_bound:
            for other in gang.members.values():
                gang.leave(other)
            gang.is_returned = True
            self._unsettled[member.job] = None

    def is_stale(self, claim: str) -> bool:
        """Whether a claim has devices for pods alone that wait for others."""
        known = None if self.claims is None else self.claims.known.get(claim)
        if self.claims is None or known is None or claim not in self.claims.stale:
            return False
        return all(map(self._is_waiting, known.reserved)) and self.claims.is_by_itself(
            known, self._place_of
        )

    def _is_waiting(self, pod: str) -> bool:
        return pod in self.members and not self.members[pod].node

    def _place_of(self, pod: str) -> PlacedPod | None:
        member = self.members.get(pod)
        if member is None or member.slot is None:
            return None
        return self._gangs[member.job].places(self._scheduler).get(member.slot)

    def _bookings(self, events: Iterable[SchedulerEvent]) -> list[SchedulerEvent]:
        """What the scheduler has to hear of claims after these events."""
        claims = self.claims
        if claims is None or not self.is_listed or not claims.is_listed:
            return []
        ends = (event for event in events if event.name in ("finish", "cancel", "stopped"))
        ending = {dict(event.arguments)["job"] for event in ends}
        for job in ending & self._gangs.keys():
            for member in self._gangs[job].members.values():
                self._unsettle_claims(member)

        def place_of(pod: str) -> PlacedPod | None:
            member = self.members.get(pod)
            return None if member is None or member.job in ending else self._place_of(pod)

        return claims.bookings(place_of, self._is_waiting)

    def _changes(self) -> list[SchedulerEvent]:
        """What the scheduler has to hear of devices; then jobs may be possible that were not."""
        events = [] if self.claims is None else self.claims.changes()
        for gang in self._gangs.values() if events else ():
            if gang.refused and any(member.request.claims for member in gang.members.values()):
                gang.refused = ""
                self._unsettled[gang.name] = None
        return events

    @property
    def _has_news(self) -> bool:
        return self.claims is not None and self.claims.has_news(self.is_listed)

    def _wake(self, job: str) -> None:
        if job in self._gangs:
            self.woken[job] = None


def _said(pod: Mapping[str, Any]) -> bytes:
    """All of a pod that `read_request` looks at; b"": it cannot be told."""
    try:
        meta, status = pod["metadata"], pod.get("status") or {}
        own = {key: value for key, value in meta.items() if key not in _NOT_READ}
        return encode([own, pod["spec"], status.get("resourceClaimStatuses")])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return b""
