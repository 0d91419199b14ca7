"""The request of a user, in terms of all stages."""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from math import inf
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from hivecore._arguments import LONGEST, as_int, as_name, as_positive, as_tuple
from hivecore._record import (
    FOLLOWS,
    Name,
    Names,
    Record,
    amounts,
    between,
    distinct,
    force_setattr,
    one_of,
    positive,
    within,
)
from hivecore.devices import DeviceRequest
from hivecore.dra import ResourceClaim

__all__ = ["ANYWHERE", "Data", "Job", "Role", "Where"]

_MOST_PODS = 2**20
_MOST_GPUS = 2**20
_MOST_AMOUNT = 2**62  # what quotas and networks count to
#: Fields that may change without a check of the others.
_LONE = frozenset(("name", "run_time"))
_ON_FAILURE = "job", "pod", "pod-then-job"


def _without_slash(value: Any, name: str) -> str:
    text = as_name(value, name)
    if "/" in text:
        raise ValueError(f"{name}={text!r}: '/' is not allowed in the name of a role")
    return text


def _named(value: Any, name: str) -> str:
    text = as_name(value, name)
    if not all(text.split("/")):
        raise ValueError(f"{name}={text!r}: a part between '/' is empty")
    return text


_Amounts = tuple[tuple[str, int], ...]
_AmountsLike = Mapping[str, int | str] | tuple[tuple[str, int | str], ...]


class _Pods(Record, frozen=True):
    name: Annotated[str, _without_slash]
    pods: Annotated[int, within(1, _MOST_PODS)] = 1
    gpus: Annotated[int, within(0, _MOST_GPUS)] = FOLLOWS


def _templates(value: Any, name: str) -> tuple[ResourceClaim, ...]:
    given = [
        ResourceClaim.of(claim) if isinstance(claim, Mapping) else claim
        for claim in as_tuple(value, name)
    ]
    for claim in given:
        if not isinstance(claim, ResourceClaim):
            raise TypeError(f"{name} must hold ResourceClaims, not {type(claim).__name__}")
        if claim.uid or claim.allocation is not None or "/" in claim.name:
            raise ValueError(f"{name}: {claim.name!r} has a uid, an allocation, or '/' in its name")
    if len({claim.name for claim in given}) < len(given):
        raise ValueError(f"{name}: a name occurs twice")
    return tuple(given)


class Role(_Pods, frozen=True, kw_only=True, cache_hash=True):
    """Equal pods of a job.

    :param name: unique in the job.
    :param pods: number of pods, 1 to 2**20.
    :param gpus: GPUs of each pod, 0 to 2**20; ``None``: as many as ``devices`` requests, else 1, or
        0 with ``claims``.
    :param min_pods: the number of pods with which the job can start; the others join one by one as
        they fit. 0 to ``pods``; ``None``: all.
    :param max_pods: makes the role elastic: it grows up to this number on idle resources. Pods
        above ``min_pods`` are then opportunistic, and leave one by one, the newest first, for
        guaranteed jobs. Pods above ``pods`` wait behind all jobs of the tenant. Cannot be combined
        with `Job.stages`, ``claims``, `Where.multiple`, `Where.per_domain` or `Where.balance`.
        ``None``: not elastic.
    :param spares: further pods that start with the job and stand by. If a pod fails, a spare takes
        its number without moving, see `Job.on_failure`. Spares are numbered after the other pods.
    :param devices: devices of each pod; its name does not matter. ``None``: ``gpus`` whole GPUs.
        Quotas and a topology count a share of a GPU as the larger part of core and memory, in
        thousandths; see `Scheduler.gpu_memory` for requests in bytes.
    :param resources: other resources of each pod, 0 to 2**62 each, also as "80Gi"; all pods of a
        job together request at most 2**62 of each. Quotas count those that they limit, a topology
        those that it knows.
    :param claims: templates of each pod's claims, as records or as Kubernetes writes them; the
        claims of pod 0 are named "job/role/0/template". Quotas count their devices as
        "CLASS.deviceclass.resource.k8s.io/devices": the most of all alternatives, and 32 if all
        devices are requested. They count capacities and counters as
        "CLASS.deviceclass.resource.k8s.io/capacity/NAME" and ".../counters/NAME": the least that
        claims request, and the exact amount once devices are chosen.
    :param per_node: the most pods of the role on a node, with spares and pods that join later; 1:
        all on different nodes. A topology can place two kinds of pods, and such a role is one kind.
        Cells or devices enforce it only if they place no other role of the job. ``None``: no limit.
    :raises ValueError: an argument is out of range, or contradicts another.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Role
    >>> Role("worker", 4, gpus=8, min_pods=2).resources
    ()
    """

    _follows: ClassVar[dict[str, str]] = {"min_pods": "pods"}

    min_pods: Annotated[int, within(0, _MOST_PODS)] = FOLLOWS
    max_pods: Annotated[int | None, within(1, _MOST_PODS)] = None
    spares: Annotated[int, within(0, _MOST_PODS)] = 0
    devices: DeviceRequest | None = None
    resources: Annotated[_Amounts, amounts(0, _MOST_AMOUNT)] = ()
    claims: Annotated[tuple[ResourceClaim, ...], _templates] = ()
    per_node: Annotated[int | None, within(1, _MOST_PODS)] = None

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            pods: int = 1,
            gpus: int | None = None,
            *,
            min_pods: int | None = None,
            max_pods: int | None = None,
            spares: int = 0,
            devices: DeviceRequest | None = None,
            resources: _AmountsLike = (),
            claims: Iterable[ResourceClaim | Mapping[str, Any]] = (),
            per_node: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        devices, requested = self.devices, self._requested
        if devices is not None:
            if self.gpus not in (FOLLOWS, requested):
                raise ValueError(f"gpus={self.gpus}: devices requests {requested}")
            # owner and priority are given elsewhere; equal requests must be equal records
            if devices.name != "any pod" or devices.priority:
                force_setattr(self, "devices", devices.replace(name="any pod", priority=0))
        if self.gpus is FOLLOWS:
            force_setattr(self, "gpus", requested)
        if self.min_pods is FOLLOWS:
            force_setattr(self, "min_pods", self.pods)
        elif self.min_pods > self.pods:
            as_int(self.min_pods, "min_pods", 0, self.pods)
        if self.max_pods is not None:
            as_int(self.max_pods, "max_pods", self.pods, _MOST_PODS)
        if self.spares and not self.min_pods:
            raise ValueError(f"spares={self.spares}: with min_pods=0 a role starts without pods")
        if self.resources and any(resource == "gpu" for resource, _ in self.resources):
            raise ValueError("resources: GPUs are given by gpus, not as 'gpu'")

    @property
    def _requested(self) -> int:
        """The GPUs of a pod if ``gpus`` is not given."""
        if self.devices is None:
            return 0 if self.claims else 1
        need = self.devices.need("gpu")
        return 0 if need is None else need.count

    def replace(self, **changes: Any) -> Self:
        """The same role with other values of some fields. ``min_pods`` and ``gpus`` that had their
        defaults have those of the new values.
        """
        if not changes.keys().isdisjoint(("devices", "claims")) and self.gpus == self._requested:
            changes.setdefault("gpus", FOLLOWS)
        return Record.replace(self, **changes)

    @property
    def numbers(self) -> range:
        """The numbers of all pods that may exist; spares are last."""
        return range((self.max_pods or self.pods) + self.spares)

    @property
    def spare_numbers(self) -> range:
        """The numbers of the spares."""
        return self.numbers[self.max_pods or self.pods :]

    @property
    def first_numbers(self) -> tuple[int, ...]:
        """The numbers of the pods with which the role starts; spares are last."""
        return (*range(self.min_pods), *self.spare_numbers)

    @property
    def extra_numbers(self) -> range:
        """The numbers of extra pods, which come and leave one by one; empty if the role is not
        elastic.
        """
        return range(0 if self.max_pods is None else self.min_pods, self.max_pods or 0)

    @property
    def joining_numbers(self) -> range:
        """The numbers of the pods that join later and stay."""
        return range(self.min_pods, self.pods if self.max_pods is None else self.min_pods)


class Where(Record, frozen=True, kw_only=True, cache_hash=True):
    """Where the pods of a job may run.

    :param leaf_type: cells: the leaf level of the chains to use, such as a model of GPUs; "": any.
    :param pinned_cell: cells: the tenant's pinned cell to use; "": none.
    :param within: cells: one cell of this level must hold the whole job; "": any cells.
    :param must: topology: one domain of this layer must hold the whole job; "": any domains.
    :param prefer: topology: one domain of this layer should hold the job; "": the narrowest layer
        possible.
    :param multiple: topology: by layer, the number of pods in each used domain is a multiple of
        this, unless a domain of a narrower layer holds the whole job.
    :param per_domain: topology: by layer, or "node", the most pods in each domain.
    :param balance: topology: spread the pods evenly over the domains of this layer: the fewest
        domains are used, then the largest number of pods in a domain is minimized; "": no.
    :param nodes: the allowed nodes; empty: all.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.
    """

    leaf_type: str = ""
    pinned_cell: str = ""
    within: str = ""
    must: str = ""
    prefer: str = ""
    multiple: Annotated[_Amounts, amounts(1, 2**31)] = ()
    per_domain: Annotated[_Amounts, amounts(1, 2**31)] = ()
    balance: str = ""
    nodes: Annotated[tuple[str, ...], distinct] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            leaf_type: str = "",
            pinned_cell: str = "",
            within: str = "",
            must: str = "",
            prefer: str = "",
            multiple: _AmountsLike = (),
            per_domain: _AmountsLike = (),
            balance: str = "",
            nodes: Iterable[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()


class Data(Record, frozen=True):
    """The data that a job reads.

    :param dataset: its name.
    :param rate_mbps: MB/s that all of its GPUs consume if they never wait.
    :param total_gb: GB that it reads in all; inf: unknown.
    :raises ValueError: a number is not positive.
    :raises TypeError: an argument is of a wrong type.
    """

    dataset: Name
    rate_mbps: Annotated[float, positive(1e15)]
    total_gb: Annotated[float, positive(inf)] = inf

    def __post_init__(self) -> None:
        self._check()


#: No constraint.
ANYWHERE = Where()


def _roles(value: Any, name: str) -> tuple[Role, ...]:
    if isinstance(value, (str, float)):
        raise TypeError(f"roles must be Roles or a number of GPUs, not {type(value).__name__}")
    given = (
        (Role("pod", gpus=int(value)),) if isinstance(value, Integral) else as_tuple(value, name)
    )
    total = pods = 0
    amounts = Counter[str]()
    for role in given:
        if not isinstance(role, Role):
            raise TypeError(f"roles must hold Roles, not {type(role).__name__}")
        pods += len(role.numbers)
        total += len(role.numbers) * role.gpus
        for resource, amount in role.resources:
            amounts[resource] += len(role.numbers) * amount
    if not given:
        raise ValueError("roles must not be empty")
    if len(given) > 1 and len({role.name for role in given}) < len(given):
        raise ValueError("roles: a name occurs twice")
    if not any(role.min_pods for role in given):
        raise ValueError("roles: min_pods must be above 0 for at least one role")
    if pods > _MOST_PODS:
        raise ValueError("roles: more than 2**20 pods in all")
    if total >= 2**31:
        raise ValueError("roles: more than 2**31 GPUs in all")
    for resource, amount in amounts.items():
        if amount > _MOST_AMOUNT:
            raise ValueError(f"roles: more than 2**62 of {resource!r} in all")
    return given


class _OfTenant(Record, frozen=True):
    name: Annotated[str, _named]
    tenant: Name
    roles: Annotated[tuple[Role, ...], _roles] = FOLLOWS


class Job(_OfTenant, frozen=True, kw_only=True):
    """Pods that start together or not at all, and what they request of each stage.

    :param name: unique among the scheduler's jobs, such as "train", or "namespace/train" as in
        Kubernetes. No part between slashes is empty.
    :param tenant: the tenant of its queue and cells.
    :param roles: its `Role` s, at least one, with at most 2**20 pods in all; or a number of GPUs
        for a single pod.
    :param gpus: in place of ``roles``: the GPUs of a single pod. As a field: the GPUs of all pods,
        with spares; it is no part of the plain data of a job.
    :param priority: -1000 to 1000, higher is more important; cells know 0 to 1000.
    :param preemptible: whether it may be evicted. If not, its quota admits it only within the
        ``min``, which is reserved for it as long as it runs. Opportunistic jobs must be.
    :param guaranteed: it uses what its tenant is guaranteed. Otherwise it is opportunistic: it uses
        idle resources, and is evicted for guaranteed jobs.
    :param quota: the quota that it is charged to; "": the quota named like the tenant.
    :param where: where its pods may run.
    :param on_failure: which pods are placed again if a pod fails or its node is removed. "job":
        all; the job returns to its queue. "pod": the failed pods, near the others as ``where``
        says; they wait if there is no room, and the others run on; they evict jobs, as the job
        may. "pod-then-job": the same, but without room the whole job moves to where there is
        some. The last two cannot be combined with ``stages``, `Role.claims`, `Where.multiple`,
        `Where.per_domain` or `Where.balance`, and these three not with pods that join later
        (`Role.min_pods`).
    :param run_time: an upper estimate in seconds, up to 2**40; ``None``: unknown.
    :param stages: seconds of each resource that an iteration uses in turn, such as (storage and
        CPU, GPU, network); then the job may share its GPUs. Empty: it does not share. Cannot be
        combined with `Where.per_domain` or `Where.balance`.
    :param data: the data that it reads; ``None``: none that storage manages.
    :param after: jobs that must have started before. Unknown jobs do not count: those that have
        ended, were canceled or rejected, or are submitted after the decision; nor do pods of
        elastic jobs.
    :param together: jobs without which it does not start: each must start in the same round of
        decisions, or run already, as must those that they name themselves. It is not mutual: a job
        that does not name this one may start alone. Unknown jobs do not count, so submit all before
        deciding. Such jobs do not run on idle cells, and evict jobs only if victims stop at once;
        a later start of the same round may then evict one of them.
    :raises ValueError: an argument is out of range, or contradicts another.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Job, Role
    >>> job = Job("bert", "vision", [Role("worker", 4, gpus=8)], priority=5)
    >>> job.gpus, Job("small", "vision", gpus=2).roles[0].gpus
    (32, 2)
    """

    _hidden = frozenset(("gpus",))
    _follows: ClassVar[dict[str, str]] = {"quota": "tenant"}

    gpus: int = FOLLOWS
    priority: Annotated[int, within(-1000, 1000)] = 0
    preemptible: bool = True
    guaranteed: bool = True
    on_failure: Annotated[str, one_of(_ON_FAILURE)] = "job"
    run_time: Annotated[float | None, positive(LONGEST)] = None
    stages: tuple[Annotated[float, between(0.0, 1e15)], ...] = ()
    after: Names = ()
    together: Names = ()
    quota: str = FOLLOWS
    where: Where = ANYWHERE
    data: Data | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            tenant: str,
            roles: Iterable[Role] | int | None = None,
            *,
            gpus: int | None = None,
            priority: int = 0,
            preemptible: bool = True,
            guaranteed: bool = True,
            quota: str = "",
            where: Where = ANYWHERE,
            on_failure: str = "job",
            run_time: float | None = None,
            stages: Iterable[float] = (),
            data: Data | None = None,
            after: Iterable[str] = (),
            together: Iterable[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.roles is FOLLOWS:
            given: Any = self.gpus
            force_setattr(self, "roles", () if given is None else (Role("pod", gpus=given),))
        self._check()
        total = sum([(role.pods + role.spares) * role.gpus for role in self.roles])
        if self.gpus not in (FOLLOWS, total):
            raise ValueError(f"gpus={self.gpus!r}: roles request {total}")
        force_setattr(self, "gpus", total)
        if not self.quota:
            force_setattr(self, "quota", self.tenant)
        if self.after or self.together:
            self._check_others()
        if self.stages and not any(self.stages):
            raise ValueError("stages: all are 0")
        if not self.preemptible and not self.guaranteed:
            raise ValueError("preemptible: an opportunistic job must be preemptible")
        if self.on_failure != "job":
            self._check_parts(f"on_failure={self.on_failure!r}")
        elif any(role.spares for role in self.roles):
            raise ValueError("spares: cannot be combined with on_failure='job'")
        if any(role.max_pods for role in self.roles):
            self._check_parts("max_pods")
        joins = any(role.joining_numbers for role in self.roles)
        for field in ("multiple", "per_domain", "balance"):
            if getattr(self.where, field):
                if self.stages and field != "multiple":
                    raise ValueError(f"stages: cannot be combined with where.{field}")
                if joins:  # one by one
                    raise ValueError(f"min_pods: cannot be combined with where.{field}")

    def _check_parts(self, argument: str) -> None:
        """Check that pods can be placed without the others."""
        for name, given in (
            ("stages", self.stages),
            ("where.multiple", self.where.multiple),
            ("where.per_domain", self.where.per_domain),
            ("where.balance", self.where.balance),
            ("claims", any(role.claims for role in self.roles)),
        ):
            if given:
                raise ValueError(f"{argument}: cannot be combined with {name}")

    def _check_others(self) -> None:
        if self.name in self.after:
            raise ValueError(f"after: {self.name!r} would wait for itself")
        if self.name in self.together:
            raise ValueError(f"together: {self.name!r} is the job itself")

    def is_spare(self, name: str, number: int) -> bool:
        """Whether the pod with this role and number is a spare."""
        return any(number in role.spare_numbers for role in self.roles if role.name == name)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with changed fields.

        >>> from hivecore.scheduler import Job
        >>> Job("a", "vision", 8).replace(name="b").name
        'b'
        """
        if "gpus" in changes:
            raise TypeError("gpus: follows from roles; change these")
        if changes.keys() - _LONE:
            return Record.replace(self, **changes, gpus=FOLLOWS)
        job = copy(self)  # no other field has to be checked again
        if "name" in changes:
            force_setattr(job, "name", _named(changes["name"], "name"))
            job._check_others()
        if (run_time := changes.get("run_time", self.run_time)) is not self.run_time:
            known = run_time is not None
            run_time = as_positive(run_time, "run_time", LONGEST) if known else None
            force_setattr(job, "run_time", run_time)
        return job
