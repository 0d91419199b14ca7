"""Units and their kinds.

A *unit* is the pods with which a job starts, or a pod that joins it later. Units of a *kind* have
the same tenant and equal requests in every stage: if one has to wait, all have to.

A job that waits for its tenant's cells may run on idle cells meanwhile. Then it has a second unit,
which is *lent* its cells. Quotas know both units by the name of the job.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from functools import reduce
from math import floor
from operator import and_, attrgetter
from typing import Any, NamedTuple

from hivecore._record import force_setattr
from hivecore._thousandths import Amount, exact, of_thousandths
from hivecore._trial import UndoLog
from hivecore.cells import AffinityGroup
from hivecore.decisions import Refusal
from hivecore.devices import DeviceNeed, DeviceRequest
from hivecore.dra import ResourceClaim
from hivecore.queues import Departure, QueuedJob
from hivecore.quotas import QuotaRequest
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role

__all__ = [
    "BEGUN",
    "FREED",
    "LEAST_PRIORITY",
    "Key",
    "Kind",
    "Places",
    "Pod",
    "Refused",
    "Taking",
    "Unit",
    "gpu_amount",
    "has_unit",
    "owner_of",
    "owners_of",
    "quota_name",
    "taking_of",
    "with_limits",
]

_ANY = "any pod"
_OF_CLASS = ".deviceclass.resource.k8s.io"
_ALL_DEVICES = 32  # the limit of Kubernetes for a claim
_BELOW_ALL = 3000  # jobs have priorities from -1000 to 1000
#: In quotas, units of lower priority are opportunistic.
LEAST_PRIORITY = -1000
#: A change that units wait for.
Key = tuple[str, str]
#: A device class, "capacity" or "counters", and the name of one of these.
Taking = tuple[str, str, str]
#: A unit has started: other running units may be in the way of waiting ones now.
BEGUN: Key = ("scheduler", "begun")
#: A unit has released resources of any kind.
FREED: Key = ("scheduler", "freed")
#: Node and GPUs of each pod, as far as they are chosen.
Places = list[tuple[str, tuple[int, ...]]]


class Pod(NamedTuple):
    """A pod of a job."""

    role: str
    number: int


class Kind:
    """What units have in common; immutable."""

    __slots__ = (
        "_hosts",
        "affinity_group",
        "amounts",
        "device_ends",
        "devices",
        "first_pods",
        "gpus",
        "grows",
        "has_claims",
        "is_alone",
        "is_lent",
        "is_plain",
        "is_spread",
        "job",
        "like",
        "number",
        "queued",
        "quota_request",
        "shape",
        "sizes",
    )

    #: the devices that each pod requests; None: none
    devices: list[DeviceRequest | None]
    #: what follows the job's name in the owner names of its first pods' devices
    device_ends: tuple[str, ...]
    #: what a unit requests of cells; raises ValueError if cells do not support it
    affinity_group: AffinityGroup
    #: what a unit requests of its quota
    quota_request: QuotaRequest
    #: whether pods join the running job later, or it has extra pods
    grows: bool
    #: whether all pods request the same devices, and may be on any nodes
    is_plain: bool
    #: the pods with which a job starts
    first_pods: "tuple[Pod, ...]"

    def __init__(
        self,
        number: int,
        job: Job,
        roles: list[tuple[Role, int]],
        is_alone: bool = False,
        is_lent: bool = False,
        like: "Kind | None" = None,
        shape: "Kind | None" = None,
        hosts: frozenset[str] = frozenset(),
        gpu_memory: int | None = 0,
    ) -> None:
        #: resources that pods take from the "host" device of their node
        self._hosts = hosts
        self.number = number
        #: a kind with the same request, which has no such kind itself
        self.like = like
        if like is not None:
            shape = like.shape or like
        #: a kind that differs in its quota at most, and has no such kind itself
        self.shape: Kind | None = shape
        #: a job of this kind; only common properties are used
        self.job = job
        #: the roles, and the number of pods of each
        self.sizes = tuple(roles)
        #: whether it is for a single unit
        self.is_alone = is_alone
        #: whether it requests idle cells, while another unit of its job waits
        self.is_lent = is_lent
        self.gpus: int = shape.gpus if shape else sum(pods * role.gpus for role, pods in roles)
        #: what quotas count; see `gpu_amount` for ``gpu_memory``
        self.amounts: dict[str, Amount] = shape.amounts if shape else _amounts(roles, gpu_memory)
        #: a unit's entry in its queue, apart from name and times; None: not built yet
        self.queued: QueuedJob | None = None
        #: whether nodes may get only some pods of a role
        self.is_spread = any(role.per_node is not None for role, _ in roles)
        #: whether a role has claims
        self.has_claims = any(role.claims for role, _ in roles)

    def __getattr__(self, name: str) -> Any:
        """Build an attribute at its first use."""
        build = _BUILT.get(name)
        if build is None:
            raise AttributeError(name)
        given = self.like if name == "quota_request" else self.shape
        value = build(self) if given is None else getattr(given, name)
        setattr(self, name, value)
        return value

    @property
    def device_classes(self) -> frozenset[str]:
        """The device classes that claims name."""
        claims = [claim for role, _ in self.sizes for claim in role.claims]
        requests = [request for claim in claims for request in claim.requests]
        return frozenset(of.device_class_name for each in requests for of in _terms_of(each))

    @property
    def pods(self) -> "tuple[Pod, ...]":
        """The first pods of each role."""
        return tuple(Pod(role.name, i) for role, pods in self.sizes for i in range(pods))

    def _build_devices(self) -> list[DeviceRequest | None]:
        devices: list[DeviceRequest | None] = []
        for role, pods in self.sizes:
            devices += [_devices(role, self.job, self._hosts)] * pods
        return devices

    def _build_affinity_group(self) -> AffinityGroup:
        job, where = self.job, self.job.where
        return AffinityGroup(
            _ANY,
            job.tenant,
            [(pods, role.gpus) for role, pods in self.sizes if role.gpus],
            priority=job.priority if job.guaranteed else -1,
            leaf_type=where.leaf_type or None,
            pinned_cell=where.pinned_cell or None,
            within=where.within or None,
        )

    def _build_quota_request(self) -> QuotaRequest:
        job = self.job
        if self.shape is not None:
            request: QuotaRequest = self.shape.quota_request.__copy__()  # type: ignore[attr-defined]
            force_setattr(request, "quota", job.quota)
            return request
        return QuotaRequest(
            _ANY,
            job.quota,
            self.amounts,
            # quotas evict opportunistic units first
            priority=job.priority if job.guaranteed else job.priority - _BELOW_ALL,
            preemptible=job.preemptible,
        )

    def _build_is_plain(self) -> bool:
        requests = {id(request) for request in self.devices}
        is_bound = self.is_spread or self.has_claims or self.is_lent or self.job.where.nodes
        return not is_bound and len(requests) == 1 and self.devices[0] is not None


_BUILT: dict[str, Callable[[Kind], Any]] = {
    "affinity_group": Kind._build_affinity_group,
    "device_ends": lambda kind: tuple(
        f"/{role}/{number}"
        for (role, number), request in zip(kind.first_pods, kind.devices, strict=True)
        if request is not None
    ),
    "devices": Kind._build_devices,
    "first_pods": lambda kind: tuple(
        Pod(role.name, i) for role, _ in kind.sizes for i in role.first_numbers
    ),
    "grows": lambda kind: any(
        role.joining_numbers or role.extra_numbers for role in kind.job.roles
    ),
    "is_plain": Kind._build_is_plain,
    "quota_request": Kind._build_quota_request,
}


class Refused(NamedTuple):
    """Why a unit does not start now."""

    refusal: Refusal
    #: the changes that make another try worthwhile
    keys: tuple[Key, ...]
    #: the units to evict first, if a stage proposes some
    quota_victims: tuple[str, ...] = ()
    cell_victims: tuple[str, ...] = ()
    #: whether cells know that these are enough
    is_sure: bool = True


#: The attributes of a unit that change.
_FIELDS = ("departure", "has_quota", "is_placed", "kind", "placed")
_values = attrgetter(*_FIELDS)


class Unit:
    """Pods that start together."""

    __slots__ = ("job", "name", "owner", "pods", *_FIELDS)

    def __init__(
        self, name: str, owner: str, kind: Kind, pods: tuple[Pod, ...], job: str = ""
    ) -> None:
        self.name, self.owner, self.kind, self.pods = name, owner, kind, pods
        #: the job of its pods; for an extra pod, its job
        self.job = job or owner
        #: how it left its queue, if it may return
        self.departure: Departure | None = None
        #: while it runs: its pods, and whether cells or a network placed them
        self.placed: tuple[PlacedPod, ...] = ()
        self.is_placed = False
        #: whether another unit of the job is charged for it: one on idle cells, or the first unit,
        #: for failed pods
        self.has_quota = False

    @property
    def request(self) -> str:
        """The name by which quotas know it."""
        return self.owner if self.kind.is_lent or self.has_quota else self.name

    @property
    def is_lost(self) -> bool:
        """Whether its pods have failed, and wait to be placed near the others."""
        return self.has_quota and self.name != self.owner

    @property
    def gpus(self) -> int:
        """The GPUs of its running pods."""
        if len(self.placed) == len(self.pods):
            return self.kind.gpus
        of_role = {role.name: role.gpus for role, _ in self.kind.sizes}
        return sum(of_role[pod.role] for pod in self.placed)

    def note(self, log: UndoLog) -> None:
        """Let a log restore the unit."""
        if log.is_on:
            log.add((self.restore, _values(self)))

    def restore(self, values: tuple[Any, ...]) -> None:
        """Undo changes."""
        self.departure, self.has_quota, self.is_placed, self.kind, self.placed = values

    def copy(self) -> "Unit":
        """A copy for a branch."""
        copy = Unit(self.name, self.owner, self.kind, self.pods, self.job)
        copy.restore(_values(self))
        return copy

    def trial(self, kind: Kind | None = None) -> "Unit":
        """A copy for a trial, perhaps of another kind."""
        trial = Unit(self.name, self.owner, kind or self.kind, self.pods, self.job)
        trial.has_quota = self.has_quota
        return trial

    def device_owners(self) -> list[str]:
        """The names under which its pods have devices, or would have if it ran."""
        if 0 < len(self.placed) < len(self.pods):
            placed = [Pod(pod.role, pod.index) for pod in self.placed]
            return self._device_owners(placed)
        return self.all_device_owners()

    def all_device_owners(self) -> list[str]:
        """The names under which its pods have devices once all of them run."""
        if self.pods is self.kind.first_pods:
            return [*map(self.job.__add__, self.kind.device_ends)]
        return self._device_owners()

    def _device_owners(self, among: Container[Pod] | None = None) -> list[str]:
        return [
            f"{self.job}/{pod[0]}/{pod[1]}"
            for pod, request in zip(self.pods, self.kind.devices, strict=True)
            if request is not None and (among is None or pod in among)
        ]


def owner_of(unit: str, jobs: Container[str]) -> str:
    """The job of a unit, among these jobs. Names of jobs may contain "/", too."""
    if unit in jobs:
        return unit
    return next((owner for owner, _ in owners_of(unit) if owner in jobs), unit)


def owners_of(unit: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Possible jobs of a unit, and its name there: [lost/]role/number, "lent" or "lost"."""
    parts = tuple(unit.split("/"))
    if len(parts) > 1 and parts[-1] in ("lent", "lost"):
        yield "/".join(parts[:-1]), parts[-1:]
    if len(parts) > 2 and parts[-1].isdecimal():
        yield "/".join(parts[:-2]), parts[-2:]
        if len(parts) > 3 and parts[-3] == "lost":
            yield "/".join(parts[:-3]), parts[-3:]


def has_unit(job: Job, called: tuple[str, ...], *, lending: bool) -> bool:
    """Whether a job may have a unit of this name beside its first one."""
    if called == ("lent",):
        return lending
    is_lost = len(called) != 2
    if called == ("lost",) or (is_lost and job.on_failure == "job"):
        return job.on_failure != "job"
    number = int(called[-1])
    return called[-1] == str(number) and any(
        number in numbers
        for role in job.roles
        if role.name == called[-2]
        for numbers in (
            (role.spare_numbers,) if is_lost else (role.joining_numbers, role.extra_numbers)
        )
    )


def gpu_amount(role: Role, gpu_memory: int | None) -> Amount:
    """The GPUs that a pod of a role counts for. A share of a GPU is the larger of its parts of
    cores and of memory.

    :param gpu_memory: bytes of each GPU. 0: GPUs differ, so a request in bytes counts as a whole
        GPU if nothing else is known. ``None``: GPUs are not shared.
    """
    need = None if role.devices is None else role.devices.need("gpu")
    if gpu_memory is None or need is None or not need.shared:
        return role.gpus
    amounts = dict(need.amounts)
    parts = [10 * amounts.get("core", 0), 10 * amounts.get("memory_ratio", 0)]
    if gpu_memory:
        parts.append(-(-1000 * amounts.get("memory", 0) // gpu_memory))
    return of_thousandths(role.gpus * (min(max(parts), 1000) or 1000))


def _class_counts(claims: Iterable[ResourceClaim]) -> Counter[str]:
    """What claims request of quotas: the most devices by class, the least of each capacity."""
    counts = Counter[str]()
    for request in (of for claim in claims for of in claim.requests):
        most, least = Counter[str](), list[Counter[str]]()
        for terms in _terms_of(request):
            number = _ALL_DEVICES if terms.allocation_mode == "All" else terms.count or 1
            most |= Counter({f"{terms.device_class_name}{_OF_CLASS}/devices": number})
            least.append(_least_of(terms))
        counts += most
        counts += reduce(and_, least)
    return counts


def _terms_of(request: Any) -> list[Any]:
    """The terms of a request, or of each of its alternatives."""
    return [terms for terms in request.first_available or (request.exactly,) if terms is not None]


def _least_of(terms: Any) -> Counter[str]:
    """The least of each capacity that the devices of a request have together."""
    number = 1 if terms.allocation_mode == "All" else terms.count or 1
    wanted = terms.capacity.requests if terms.capacity and not terms.admin_access else {}
    return Counter(
        {
            quota_name((terms.device_class_name, "capacity", name)): floor(number * amount)
            for name, amount in wanted.items()
        }
    )


def quota_name(taking: Taking) -> str:
    """The name by which quotas count what devices of a class take of a capacity or of counters."""
    device_class, what, name = taking
    return f"{device_class}{_OF_CLASS}/{what}/{name}"


def taking_of(name: str) -> Taking | None:
    """The reverse of `quota_name`; None if the name has another form."""
    device_class, _, rest = name.partition(f"{_OF_CLASS}/")
    what, _, of = rest.partition("/")
    return (device_class, what, of) if what in ("capacity", "counters") else None


def with_limits(
    kind: Kind, refusal: Refusal, places: Callable[[Role], bool] = lambda _: True
) -> Refusal:
    """Add the limits per node to a refusal by a part that may place the pods of a role."""
    roles = [role for role, _ in kind.sizes if role.per_node and places(role)]
    most = ", ".join([f"{role.per_node} of {role.name!r}" for role in roles])
    if not most:
        return refusal
    return refusal.replace(reason=f"{refusal.reason}; at most {most} per node")


def _amounts(roles: list[tuple[Role, int]], gpu_memory: int | None) -> dict[str, Amount]:
    amounts: dict[str, Amount] = {}
    for role, pods in roles:
        of_claims = _class_counts(role.claims).items() if role.claims else ()
        for name, amount in (("gpu", gpu_amount(role, gpu_memory)), *role.resources, *of_claims):
            if amount:
                amounts[name] = exact(amounts.get(name, 0) + pods * amount)
    return amounts


def _devices(role: Role, job: Job, hosts: frozenset[str]) -> DeviceRequest | None:
    host = {name: amount for name, amount in role.resources if amount and name in hosts}
    if role.devices is not None:
        request = role.devices.replace(name=_ANY, priority=job.priority)
        return _with_host(request, host) if host else request
    needs = [DeviceNeed("host", 1, host)] if host else []
    if not (role.gpus or needs):
        return None
    return DeviceRequest(_ANY, gpus=role.gpus, needs=needs, priority=job.priority)


def _with_host(request: DeviceRequest, host: dict[str, int]) -> DeviceRequest:
    """A request that also takes at least so much of the host."""
    others = [need for need in request.needs if need.type != "host"]
    said = request.need("host")
    for name, amount in () if said is None else said.amounts:
        host[name] = max(amount, host.get(name, 0))
    return request.replace(needs=[*others, DeviceNeed("host", 1, host)])
