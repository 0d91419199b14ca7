"""Kubernetes' device claims, and their meaning for the pods that use them.

A pod names existing claims, or templates of claims. A claim without devices is allocated with the
job of the first pod that starts with it. A claim with devices is left alone, and its pods go where
these devices can be used.

The scheduler books each device once. A job books its own devices, before and after they are written
into the claim's status. Allocations of other schedulers, those that a job leaves behind until
Kubernetes clears them, and those of a write that may still reach the API server after its job has
gone, are booked under the uid of their claim.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from msgspec import Struct, convert

from hivecore.dra import DeviceId, DraCluster, NodeSelectorTerm, ResourceClaim, ResourceSlice
from hivecore.dra.ledger import record_of
from hivecore.dra.pools import newest, published
from hivecore.interop.extender.claim_writes import ClaimWrite, OpenWrites
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import mapping_in, version_of
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import owner_name
from hivecore.interop.kubernetes.recent import Recent
from hivecore.scheduler import PlacedPod, SchedulerEvent

__all__ = [
    "CLAIM",
    "FINALIZER",
    "KINDS",
    "MOST_CONSUMERS",
    "ClaimRef",
    "Claims",
    "KnownClaim",
    "Wants",
    "has_same_devices",
    "refs_of",
    "results_of",
    "share_of",
]

CLAIM = "ResourceClaim"
_RULE = "DeviceTaintRule"
#: kind -> the paths of its lists, in all API versions that a cluster may have.
KINDS = {
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    **{
        f"{_RULE}.{version}": f"/apis/resource.k8s.io/{version}/devicetaintrules"
        for version in ("v1", "v1beta2", "v1alpha3")
    },
    CLAIM: "/apis/resource.k8s.io/v1/resourceclaims",
}
FINALIZER = "resource.kubernetes.io/delete-protection"
MOST_CONSUMERS = 256
_MOST_VERSIONS = 400_000
_PART = "#"
_ANY_SPACE = "default/"
_OF_DEVICE = "request", "driver", "pool", "device"
_OF_SHARE = "driver", "pool", "device", "shareID"


class ClaimRef(NamedTuple):
    """A claim of a pod.

    :param name: in the pod.
    :param claim: "namespace/name"; "" if it does not exist yet.
    :param is_made: whether it is created for the pod from a template.
    """

    name: str
    claim: str
    is_made: bool


class KnownClaim(Struct, frozen=True):
    """A claim as last reported.

    :param name: "namespace/name".
    :param owner: the uid of the pod that it was created for, or "".
    :param spec: its request, or a text that says why the request cannot be read.
    :param reserved: the uids of its consumers.
    :param is_protected: whether it has the finalizer that it gets before its devices.
    """

    name: str
    uid: str
    owner: str
    spec: ResourceClaim | str
    allocation: Mapping[str, Any] | None
    reserved: tuple[str, ...]
    is_leaving: bool
    is_protected: bool

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "KnownClaim":
        """Read a claim object.

        :raises ValueError: its allocation cannot be read.
        """
        meta, status = mapping_in(item, "metadata"), mapping_in(item, "status")
        owners = [owner for owner in meta.get("ownerReferences") or () if owner.get("controller")]
        spec: ResourceClaim | str
        try:
            spec = ResourceClaim.of({"metadata": {"name": "claim"}, "spec": item.get("spec") or {}})
        except ValueError as error:
            spec = str(error)
        allocation = status.get("allocation")
        _devices_of(allocation)
        return cls(
            owner_name(Field(item)),
            str(meta.get("uid") or ""),
            next((owner.get("uid", "") for owner in owners if owner.get("kind") == "Pod"), ""),
            spec,
            allocation,
            tuple(consumer.get("uid", "") for consumer in status.get("reservedFor") or ()),
            bool(meta.get("deletionTimestamp")),
            FINALIZER in (meta.get("finalizers") or ()),
        )

    def bookings(self, allocations: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return each device of these allocations as a claim of its own, by uid, because some may
        not be free yet.
        """
        devices: dict[tuple[str, ...], Mapping[str, Any]] = {}
        for allocation in allocations:
            for result in results_of(allocation):
                if not result.get("adminAccess"):
                    devices.setdefault(share_of(result), result)
        documents = {}
        for number, result in enumerate(devices.values()):
            uid = f"{self.uid}{_PART}{number}"
            status = {"allocation": {"devices": {"results": [result]}}}
            meta = {"name": self.name, "uid": uid}
            documents[uid] = {"kind": CLAIM, "metadata": meta, "status": status}
        return documents


class Wants(Struct, frozen=True):
    """What a pod's claims mean for its job.

    :param templates: claims to allocate, by their names in the pod.
    :param nodes: where claims that have devices allow the pod; ``None`` means everywhere.
    :param lacks: why the pod cannot start yet, or "".
    :param holders: other jobs, which have booked the devices of its claims: it needs them to stay.
    """

    templates: tuple[ResourceClaim, ...] = ()
    nodes: tuple[str, ...] | None = None
    lacks: str = ""
    holders: frozenset[str] = frozenset()


def refs_of(pod: Field) -> tuple[ClaimRef, ...]:
    """Return the entries of a pod's ``spec.resourceClaims`` in order, each existing claim once.

    Entries of templates that make no claim are left out.

    :raises TypeError: an entry has a wrong type.
    :raises ValueError: an entry cannot be read.
    """
    claims = {
        entry["name"].text(): entry["resourceClaimName"]
        for entry in pod["status"]["resourceClaimStatuses"].entries()
    }
    namespace = pod["metadata"]["namespace"].text() or "default"
    refs: list[ClaimRef] = []
    for entry in pod["spec"]["resourceClaims"].entries():
        name, own = entry["name"].name(), entry["resourceClaimName"]
        generated = claims.get(name)
        if own.absent and generated is not None and generated.absent:
            continue  # its template makes no claim
        known = own if generated is None or not own.absent else generated
        full = "" if known.absent else f"{namespace}/{known.name()}"
        if full and any(ref.claim == full for ref in refs):
            continue
        refs.append(ClaimRef(name, full, own.absent))
    return tuple(refs)


def results_of(allocation: Mapping[str, Any] | None) -> Sequence[Any]:
    """Return the entries for the devices of an allocation, which may have none."""
    return ((allocation or {}).get("devices") or {}).get("results") or ()


def share_of(device: Mapping[str, Any]) -> tuple[str, ...]:
    """Return driver, pool, device and share of an entry of a claim's status."""
    return (*(str(device.get(key) or "") for key in _OF_SHARE),)


def _devices_of(allocation: Mapping[str, Any] | None) -> dict[tuple[str, ...], list[str]]:
    """Return the exclusive devices of an allocation, each with the ids of its shares."""
    devices: dict[tuple[str, ...], list[str]] = {}
    try:
        for result in results_of(allocation):
            if not result.get("adminAccess"):
                device = (result["driver"], result["pool"], result["device"])
                devices.setdefault(device, []).append(result.get("shareID") or "")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"status.allocation: {type(error).__name__} {error}") from None
    return devices


def has_same_devices(first: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two allocations have the same devices; ids of shares may differ."""
    rows = [
        sorted(
            (*(str(of.get(key)) for key in _OF_DEVICE), "shareID" in of) for of in results_of(given)
        )
        for given in (first, other)
    ]
    return (first is None) == (other is None) and rows[0] == rows[1]


def _exceeded(
    slices: Iterable[ResourceSlice],
    devices: Iterable[tuple[str, ...]],
    others: Iterable[tuple[str, ...]],
) -> str:
    """Return a counter of which devices consume too much beside others of these pools, or ""."""
    known = newest(slices)
    consumers = published(known)

    def used_by(given: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Fraction]:
        used = defaultdict[tuple[str, ...], Fraction](Fraction)
        for driver, pool, device in given:
            consumer = consumers.get(DeviceId(driver, pool, device))
            for of in () if consumer is None else consumer.consumes_counters:
                for name, counter in of.counters.items():
                    used[driver, pool, of.counter_set, name] += counter.value
        return used

    own, beside = used_by(devices), used_by(others)
    for part in known:
        for given in part.shared_counters:
            for name, counter in given.counters.items():
                key = part.driver, part.pool.name, given.name, name
                if key in own and own[key] + beside.get(key, 0) > counter.value:
                    return "/".join(key)
    return ""


class Claims:
    """The known claims, the pods that use them, and the events that the scheduler gets about both.

    :param part: the scheduler's device claims.
    """

    def __init__(self, part: DraCluster) -> None:
        self._part = part
        self.known: dict[str, KnownClaim] = {}
        """Claims by "namespace/name"."""
        self._refs: dict[str, tuple[ClaimRef, ...]] = {}  # the pods of each claim
        self._users: dict[str, dict[str, None]] = {}  # the pods of each claim
        self._duties: dict[str, str] = {}  # the pod whose job allocates a claim
        self._holders: dict[tuple[str, ...], dict[str, list[str]]] = {}  # by device: uid -> shares
        self._versions = Recent[tuple[str, str], int](_MOST_VERSIONS)  # of reported objects
        self._objects: dict[tuple[str, str], Any] = part.objects  # as last reported
        self._reported = set(self._objects)
        self._counting: dict[tuple[str, ...], list[ResourceSlice]] | None = None
        self._changed: dict[tuple[str, str], dict[str, Any] | None] = {}  # None: deleted
        self._booked: dict[str, dict[str, Any]] = {}  # uid -> what is booked of a claim
        for booked in part.claims:
            if "/" not in booked:
                self._booked.setdefault(booked.partition(_PART)[0], {})[booked] = None
        self._unsettled = dict.fromkeys(self._booked, "")  # uid -> name
        self._blocked: dict[str, str] = {}  # held by a job
        self._sent = OpenWrites()
        self.is_listed = False
        """Whether all claims are known."""
        self.is_written = False
        """Whether this process writes the claims' status."""
        self.stale: dict[str, None] = {}
        """Claims with devices only for our own pods, which wait for other devices."""

    # --- what is reported

    def see(self, kind: str, type_: str, item: Mapping[str, Any]) -> list[str]:
        """Note a reported object; return the pods that it affects.

        :raises ValueError: it cannot be read.
        """
        meta = mapping_in(item, "metadata")
        full, version = owner_name(Field(item)), version_of(meta.get("resourceVersion"))
        known = self._versions.get((kind, full), 0)
        self._versions[kind, full] = max(version, known)
        if 0 < version < known:
            return []
        if kind == CLAIM:
            self._sent.has_version(str(meta.get("uid") or ""), version)
            return self._see_claim(full, None if type_ == "DELETED" else item)
        name = meta["name"]
        if kind == "Node":
            said: dict[str, Any] = {}
            own = {"name": name, "labels": dict(mapping_in(meta, "labels"))}
        else:
            said = {"spec": item.get("spec")}
            kind, _, api = kind.partition(".")
            own = {"name": f"{name}.{api}" if api else name}
        document = {"kind": kind, "metadata": own, **said}
        changed = self._put((kind, own["name"]), None if type_ == "DELETED" else document)
        return self._pinned() if changed and kind == "Node" else []

    def _pinned(self) -> list[str]:
        """Return the pods with claims that have devices: other nodes may be able to use them."""
        return [pod for pod, refs in self._refs.items() if any(map(self._given, refs))]

    def _put(self, key: tuple[str, str], document: dict[str, Any] | None) -> bool:
        """Store an object; return whether it has changed."""
        record = None if document is None else record_of(document, 0)
        if self._objects.get(key) == record:
            return False
        if key[0] == "ResourceSlice":
            self._counting = None
        if record is None:
            del self._objects[key]
        else:
            self._objects[key] = record
        self._changed[key] = document
        return True

    def _see_claim(self, name: str, item: Mapping[str, Any] | None) -> list[str]:
        old, new = self.known.get(name), None if item is None else KnownClaim.of(item)
        for claim, change in ((old, False), (new, True)):
            if claim is not None:
                self._unsettled[claim.uid] = name
                for device, shares in _devices_of(claim.allocation).items():
                    holders = self._holders.setdefault(device, {})
                    holders.pop(claim.uid, None)
                    if change:
                        holders[claim.uid] = shares
                    if not holders:
                        del self._holders[device]
        self.stale.pop(name, None)
        if old is not None and (new is None or new.uid != old.uid):
            self._sent.is_gone(old.uid)
        if new is None:
            self.known.pop(name, None)
        else:
            self.known[name] = new
        return [*self._users.get(name, ())]

    def keep(self, kind: str, names: Iterable[str]) -> list[str]:
        """Forget all other objects of a kind; return the pods that this affects."""
        kept = {name.removeprefix(_ANY_SPACE) for name in names}
        if kind == CLAIM:
            if self.is_written and not self.is_listed:
                for name, claim in self.known.items():
                    if claim.is_protected and claim.allocation is None:
                        self._sent.may_come(claim.uid, name, self._versions.get((CLAIM, name), 1))
            self.is_listed = True
            gone = [name for name in self.known if name.removeprefix(_ANY_SPACE) not in kept]
            return [pod for name in gone for pod in self._see_claim(name, None)]
        kind, dot, api = kind.partition(".")
        changed = [
            self._put(key, None)
            for key in list(self._objects)
            if key[0] == kind and key[1].endswith(dot + api)
            if key[1].removesuffix(dot + api) not in kept
        ]
        return self._pinned() if changed and kind == "Node" else []

    # --- pods

    def note(self, pod: str, refs: tuple[ClaimRef, ...]) -> None:
        """Set a pod's claims; empty when it is gone or has ended."""
        if self._refs.get(pod, ()) == refs:
            return
        for ref in self._refs.pop(pod, ()):
            users = self._users.get(ref.claim, {})
            users.pop(pod, None)
            if not users:
                self._users.pop(ref.claim, None)
            if self._duties.get(ref.claim) == pod:
                del self._duties[ref.claim]
            self.unsettle(ref)
        if refs:
            self._refs[pod] = refs
        for ref in refs:
            if ref.claim:
                self._users.setdefault(ref.claim, {})[pod] = None
            if self._given(ref):
                self.unsettle(ref)  # perhaps for this pod alone, which was not known before

    def beside(self, pod: str) -> list[str]:
        """Return the other pods that share a claim with a pod."""
        claims = {ref.claim for ref in self._refs.get(pod, ())}
        users = dict.fromkeys(user for claim in claims for user in self._users.get(claim, ()))
        return [user for user in users if user != pod]

    def refs(self, pod: str) -> tuple[ClaimRef, ...]:
        """Return a pod's claims."""
        return self._refs.get(pod, ())

    def unsettle(self, ref: ClaimRef) -> None:
        """Check again whether a claim is booked under its own uid."""
        if (claim := self.known.get(ref.claim)) is not None:
            self._unsettled[claim.uid] = claim.name

    def _given(self, ref: ClaimRef) -> bool:
        claim = self.known.get(ref.claim)
        return claim is not None and claim.allocation is not None

    def allocates(self, pod: str) -> None:
        """Let a pod's job allocate its claims that have no devices."""
        for ref in self._refs.get(pod, ()):
            if not self._given(ref):
                self._duties[ref.claim] = pod

    def wants(
        self,
        pod: str,
        before: Callable[[str, bool], str],
        is_removed: Callable[[KnownClaim], bool],
        holder_of: Callable[[KnownClaim], str],
    ) -> Wants:
        """Return what a pod's claims now mean for its job.

        :param before: (pod, whether its job allocates the claim) -> why that pod must get the claim
            first, or "".
        :param is_removed: whether a claim's devices will be removed, see `stale`.
        :param holder_of: another job that has booked a claim's devices, or "".
        """
        templates, nodes, holders = [], None, set[str]()
        for ref in self._refs.get(pod, ()):
            claim = self.known.get(ref.claim)
            lacks = self._lacks(pod, ref, claim)
            if lacks or claim is None:
                return Wants(lacks=lacks)
            if claim.allocation is not None:
                if claim.reserved and is_removed(claim):
                    return Wants(lacks=f"the claim {show(claim.name)} gets other devices")
                allowed = self._allowed(claim.allocation)
                if allowed is not None:
                    nodes = [node for node in allowed if nodes is None or node in nodes]
                holders.add(holder_of(claim))
                continue
            duty = self._duties.get(ref.claim)
            others = (other for other in self._users.get(ref.claim, ()) if other != pod)
            if why := next(filter(None, (before(user, user == duty) for user in others)), ""):
                return Wants(lacks=f"the claim {show(claim.name)} {why}")
            assert not isinstance(claim.spec, str)
            templates.append(claim.spec.replace(name=ref.name))
        if nodes is not None and not nodes:
            return Wants(lacks="no node can use the devices that its claims have")
        allowed_nodes = None if nodes is None else tuple(nodes)
        return Wants(tuple(templates), allowed_nodes, holders=frozenset(filter(None, holders)))

    def _lacks(self, pod: str, ref: ClaimRef, claim: KnownClaim | None) -> str:
        """Return why a pod cannot use a claim, or ""."""
        if not ref.claim:
            return f"the claim {show(ref.name)} has not been made from its template yet"
        if claim is None:
            return f"the claim {show(ref.claim)} does not exist, or is not known yet"
        if ref.is_made and claim.owner and "/" not in pod and claim.owner != pod:
            return f"the claim {show(ref.claim)} was made for another pod"
        if claim.is_leaving:
            return f"the claim {show(ref.claim)} is being deleted"
        if isinstance(claim.spec, str):
            return claim.spec
        if pod not in claim.reserved and len(claim.reserved) >= MOST_CONSUMERS:
            return f"the claim {show(ref.claim)} has {MOST_CONSUMERS} pods already"
        return ""

    def _allowed(self, allocation: Mapping[str, Any]) -> list[str] | None:
        """Return the nodes that can use an allocation's devices; ``None`` means all."""
        selector = allocation.get("nodeSelector")
        if selector is None:
            return None
        try:
            given = selector["nodeSelectorTerms"]
            terms = [convert(term, NodeSelectorTerm) for term in given]
        except (KeyError, TypeError, ValueError):
            return []
        nodes = (node for (kind, _), node in self._objects.items() if kind == "Node")
        return [node.name for node in nodes if any(term.selects(node) for term in terms)]

    # --- places

    def has(self, pod: str, place: PlacedPod) -> bool:
        """Whether a pod's claims have devices, and all of them are those of this place."""
        placed, refs = dict(place.claims), self.refs(pod)
        given = [ref for ref in refs if ref.name in placed and self._given(ref)]
        return bool(given) and all(self._is_of(ref, placed[ref.name]) for ref in given)

    def _is_of(self, ref: ClaimRef, allocation: Mapping[str, Any] | None) -> bool:
        claim = self.known.get(ref.claim)
        if claim is None or claim.allocation is None or allocation is None:
            return False
        return has_same_devices(claim.allocation, allocation)

    def writes(self, pod: str, place: PlacedPod, node: str) -> Iterator[ClaimWrite]:
        """Return what to write before a pod is bound at its place.

        :param node: of the place.
        :raises ValueError: the devices are taken, or a claim has other devices.
        """
        placed = dict(place.claims)
        for ref in self.refs(pod):
            claim, allocation = self.known.get(ref.claim), placed.get(ref.name)
            lacks = self._lacks(pod, ref, claim)
            if lacks or claim is None:
                raise ValueError(lacks)
            given = claim.allocation
            if allocation is None:
                if given is None:
                    raise ValueError(f"the claim {show(ref.claim)} has lost its devices")
                if (allowed := self._allowed(given)) is not None and node not in allowed:
                    raise ValueError(f"the claim {show(ref.claim)} has devices elsewhere by now")
                yield ClaimWrite(claim.name, claim.uid, given, True)
                continue
            if given is not None and not has_same_devices(given, allocation):
                raise ValueError(f"the claim {show(ref.claim)} has got other devices")
            allocation = _with_own_shares(allocation, claim.uid)
            self._check_free(allocation, claim.uid)
            yield ClaimWrite(claim.name, claim.uid, allocation, False)

    def _check_free(self, allocation: Mapping[str, Any], uid: str) -> None:
        if before := self._sent.before:
            text = (
                f"the claim {show(before[0])} may still get devices from a process before this one"
            )
            raise ValueError(text)
        sent = [
            (other, _devices_of(write.allocation))
            for other in self._sent.claims()
            for write in self._sent.of(other)
        ]
        for device, shares in _devices_of(allocation).items():
            holders = [*self._holders.get(device, {}).items()]
            holders += [(other, devices[device]) for other, devices in sent if device in devices]
            for holder, held in holders:
                if holder != uid and ("" in shares or "" in held):
                    name = next((of.name for of in self.known.values() if of.uid == holder), holder)
                    what = f"the device {'/'.join(device)} still belongs to the claim {show(name)}"
                    raise ValueError(what)
        devices = [*_devices_of(allocation)]
        counting = self._counting_pools()
        pools = {device[:2] for device in devices} & counting.keys()
        if pools:
            others = {device for device, of in self._holders.items() if device[:2] in pools}
            others -= {device for device in others if {*self._holders[device]} == {uid}}
            others.update(device for other, of in sent if other != uid for device in of)
            slices = [of for pool in pools for of in counting[pool]]
            if counter := _exceeded(slices, devices, others.difference(devices)):
                raise ValueError(f"devices of other claims still use the counter {show(counter)}")

    def _counting_pools(self) -> dict[tuple[str, ...], list[ResourceSlice]]:
        """Return the slices of the pools that have shared counters."""
        if self._counting is None:
            pools = defaultdict[tuple[str, ...], list[ResourceSlice]](list)
            for (kind, _), part in self._objects.items():
                if kind == "ResourceSlice":
                    pools[part.driver, part.pool.name].append(part)
            self._counting = {
                pool: slices
                for pool, slices in pools.items()
                if any(part.shared_counters for part in slices)
            }
        return self._counting

    # --- writes

    def sends(self, writes: Iterable[ClaimWrite]) -> None:
        """Note writes that will be sent: their devices stay booked until each has ended."""
        for write in writes:
            self._sent.begin(write)

    def has_sent(self, write: ClaimWrite, doubtful: Mapping[str, Any] | None = None) -> None:
        """Note the end of a write, or that it is not sent.

        :param doubtful: the claim that it changes, if the write may still arrive.
        """
        version = None if doubtful is None else version_of(doubtful["metadata"]["resourceVersion"])
        self._sent.end(write, version)
        self._unsettled[write.uid] = write.claim

    @property
    def in_doubt(self) -> list[str]:
        """Return the claims with writes whose answers do not say whether they may still arrive."""
        return self._sent.in_doubt

    def is_in_doubt(self, claim: str) -> bool:
        """Whether it has such a write."""
        return claim in self.in_doubt

    # --- the scheduler

    def has_news(self, has_pods: bool) -> bool:
        """Whether there are events for the scheduler.

        :param has_pods: whether all pods are known; before that, claims are not reported to it.
        """
        return bool(self._changed or (has_pods and self.is_listed and self._unsettled))

    def changes(self) -> list[SchedulerEvent]:
        """Return the events for changed objects."""
        changed, self._changed = self._changed, {}
        gone = [key for key, of in changed.items() if of is None and key in self._reported]
        objects = {key: of for key, of in changed.items() if of is not None}
        self._reported = (self._reported - set(gone)) | objects.keys()
        events = [_event("remove", gone)] if gone else []
        return [*events, _event("objects", objects.values())] if objects else events

    def bookings(
        self, place_of: Callable[[str], PlacedPod | None], is_waiting: Callable[[str], bool]
    ) -> list[SchedulerEvent]:
        """Return the events for claims, one for each.

        :param place_of: a pod's place in its job from now on.
        :param is_waiting: whether a pod is ours and not bound.
        """
        unsettled = {**self._blocked, **self._sent.claims(), **self._unsettled}
        self._unsettled = {}
        self._blocked = {}
        released: list[str] = []
        new: list[dict[str, Any]] = []
        for uid, name in unsettled.items():
            claim, wanted = self.known.get(name), dict[str, Any]()
            if claim is not None and claim.uid == uid:
                left = [of for of in self._owned(claim) if not self._holder(claim, of, place_of)]
                wanted = claim.bookings(left)
                is_left = claim.allocation in left
                if is_left and claim.reserved and all(map(is_waiting, claim.reserved)):
                    self.stale[name] = None
            booked = self._booked.pop(uid, {})
            released += [uid for uid in booked if uid not in wanted]
            new += [document for uid, document in wanted.items() if booked.get(uid) != document]
            if wanted:
                self._booked[uid] = wanted
        events = [_event("release", released)] if released else []
        return [*events, *(_event("objects", [document]) for document in new)]

    def is_by_itself(self, claim: KnownClaim, place_of: Callable[[str], PlacedPod | None]) -> bool:
        """Whether a claim has an allocation that no job has booked for it."""
        return claim.allocation is not None and not self.holder(claim, place_of)

    def holder(self, claim: KnownClaim, place_of: Callable[[str], PlacedPod | None]) -> str:
        """Return the pod of the job that has booked a claim's devices, or ""."""
        return self._holder(claim, claim.allocation, place_of)

    def _owned(self, claim: KnownClaim) -> list[Mapping[str, Any]]:
        """Return the allocations that a claim has, or gets if a write arrives."""
        sent = (write.allocation for write in self._sent.of(claim.uid))
        return [of for of in (claim.allocation, *sent) if of is not None]

    def _holder(
        self,
        claim: KnownClaim,
        allocation: Mapping[str, Any] | None,
        place_of: Callable[[str], PlacedPod | None],
    ) -> str:
        """Return the pod of the job that has booked an allocation for a claim, or ""."""
        for pod in self._users.get(claim.name, ()):
            place = place_of(pod)
            placed = {} if place is None else dict(place.claims)
            for ref in self.refs(pod):
                own = placed.get(ref.name) if ref.claim == claim.name else None
                if own is not None and has_same_devices(allocation, own):
                    return pod
        return ""

    def retry(self) -> None:
        """Book claims again that jobs held, as some jobs have moved or stopped."""
        self._unsettled |= self._blocked
        self._blocked.clear()

    def refused(self, event: SchedulerEvent) -> list[SchedulerEvent]:
        """Return the events to try instead of one that the scheduler refused.

        If a job holds the devices, the booking is retried after a job ends.
        """
        ((name, given),) = event.arguments
        if name == "objects" and given[0]["kind"] == CLAIM:
            meta = given[0]["metadata"]
            uid = meta["uid"].partition(_PART)[0]
            self._blocked[uid] = meta["name"]
            self._booked.get(uid, {}).pop(meta["uid"], None)
            # What it had before is free, even if it was exchanged and never reported as released.
            return [_event("release", [meta["uid"]])] if meta["uid"] in self._part else []
        return [_event(name, [document]) for document in given] if len(given) > 1 else []


def _event(name: str, given: Iterable[Any]) -> SchedulerEvent:
    return SchedulerEvent("update_claims", None, ((name, tuple(given)),))


def _with_own_shares(allocation: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """Return the allocation with ids of shares that are unique to this claim."""
    results = [
        {**result, "shareID": str(uuid5(UUID(result["shareID"]), uid))}
        if "shareID" in result
        else result
        for result in results_of(allocation)
    ]
    if not results:
        return {**allocation}
    return {**allocation, "devices": {**allocation["devices"], "results": results}}
