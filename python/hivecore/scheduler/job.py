"""What a user of a cluster wants to run, in the terms of all stages."""

from collections.abc import Iterable, Mapping
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Self

from hivecore._arguments import as_int, as_name, as_positive, as_tuple
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
_MOST_AMOUNT = 2**40
#: What may change in a job without a look at its other fields.
_LONE = frozenset(("name", "run_time"))
_LONGEST = 2.0**40  # seconds
_ON_FAILURE = "job", "pod", "pod-then-job"


def _without_slash(value: Any, name: str) -> str:
    text = as_name(value, name)
    if "/" in text:
        raise ValueError(f"{name}={text!r}: '/' is not allowed in the name of a role")
    return text


def _named(value: Any, name: str) -> str:
    text = as_name(value, name)
    if not all(text.split("/")):
        raise ValueError(f"{name}={text!r}: nothing is before, after or between '/'")
    return text


_Amounts = tuple[tuple[str, int], ...]


class _Pods(Record, frozen=True):
    name: Annotated[str, _without_slash]
    pods: Annotated[int, within(1, _MOST_PODS)] = 1
    gpus: Annotated[int, within(0, _MOST_GPUS)] = FOLLOWS


def _templates(value: Any, name: str) -> tuple[ResourceClaim, ...]:
    given = [
        ResourceClaim.of(one) if isinstance(one, Mapping) else one for one in as_tuple(value, name)
    ]
    for one in given:
        if not isinstance(one, ResourceClaim):
            raise TypeError(f"{name} must hold ResourceClaims, not {type(one).__name__}")
        if one.uid or one.allocation is not None or "/" in one.name:
            raise ValueError(f"{name}: {one.name!r} has a uid, an allocation, or '/' in its name")
    if len({one.name for one in given}) < len(given):
        raise ValueError(f"{name}: a name is there twice")
    return tuple(given)


class Role(_Pods, frozen=True, kw_only=True):
    """Pods of a job that are alike.

    :param name: of the role, unique in its job.
    :param pods: how many there are, 1 to 2**20.
    :param gpus: of each pod, 0 to 2**20; ``None``: as many as ``devices`` asks for, or 1; with
        ``claims`` 0.
    :param min_pods: with how many the job can start; the others join one by one when they fit. 0 to
        ``pods``; ``None``: all.
    :param max_pods: makes the role elastic: it grows to so many pods where something is idle. All
        pods above ``min_pods`` are opportunistic then, and leave one by one, the newest first, for
        guaranteed jobs. Those above ``pods`` wait behind all jobs of the tenant. Not together with
        `Job.stages`, ``claims``, or a `Where.multiple`, `Where.per_domain` or `Where.balance`.
        ``None``: it is not elastic.
    :param spares: further pods that start with the job and wait. If a pod fails, a spare takes its
        number where the spare is, see `Job.on_failure`. Their own numbers follow those of the pods.
    :param devices: what each pod asks of its node beside whole GPUs; its name does not matter.
        ``None``: ``gpus`` whole GPUs. Of GPUs that it shares, quotas and a topology count the
        share: the larger part of core and memory, in thousandths; see `Scheduler.gpu_memory` for
        bytes.
    :param resources: what else each pod takes, by resource, 0 to 2**40 each; quotas count all that
        they have a limit of, a topology all that it knows.
    :param claims: templates of the claims of each pod, as records or as Kubernetes writes them:
        those of pod 0 are named "job/role/0/template". Quotas count their devices by class, as
        "CLASS.deviceclass.resource.k8s.io/devices": of alternatives the most, of all devices 32;
        and what devices have or take as "CLASS.deviceclass.resource.k8s.io/capacity/NAME" and
        ".../counters/NAME": before they are chosen the least that claims ask for, then exactly.
    :param per_node: how many pods of the role a node may have at most, spares and those that come
        later included; 1: all are on different nodes. A topology keeps it, which counts the role as
        one of the two kinds of pods that it can place; so do cells or devices, if they place no
        other role of the job. ``None``: any number.
    :raises ValueError: something is out of range, or does not go together.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Role
    >>> Role("worker", 4, gpus=8, min_pods=2).resources
    ()
    """

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
            resources: Any = (),
            claims: Iterable[ResourceClaim | Mapping[str, Any]] = (),
            per_node: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        devices, requested = self.devices, 0 if self.claims else 1
        if devices is not None:
            need = devices.need("gpu")
            requested = 0 if need is None else need.count
            if self.gpus not in (FOLLOWS, requested):
                raise ValueError(f"gpus={self.gpus}: devices asks for {requested}")
            # The owner and its priority are said elsewhere; alike is what differs in nothing else.
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
            raise ValueError("resources: 'gpu' is what gpus says")

    @property
    def numbers(self) -> range:
        """The numbers of all pods that there may be, the spares last."""
        return range((self.max_pods or self.pods) + self.spares)

    @property
    def spare_numbers(self) -> range:
        """The numbers of the spares."""
        return self.numbers[self.max_pods or self.pods :]

    @property
    def first_numbers(self) -> tuple[int, ...]:
        """The numbers of the pods with which the role starts, the spares last."""
        return (*range(self.min_pods), *self.spare_numbers)

    @property
    def extra_numbers(self) -> range:
        """The numbers of the pods that come and leave by themselves; none: it is not elastic."""
        return range(0 if self.max_pods is None else self.min_pods, self.max_pods or 0)

    @property
    def joining_numbers(self) -> range:
        """The numbers of the pods that join later and stay as long as the job."""
        return range(self.min_pods, self.pods if self.max_pods is None else self.min_pods)


class Where(Record, frozen=True, kw_only=True):
    """Where the pods of a job may be.

    :param leaf_type: cells: the name of the leaf level of the chains to search, such as a model of
        GPUs; "": all chains.
    :param pinned_cell: cells: the tenant's pinned cell to use, and nothing else; "": none.
    :param within: cells: the level of which one cell has to hold all of the job; "": none has to.
    :param must: topology: the layer of which one domain has to hold all of it; "": none has to.
    :param prefer: topology: the layer of which one domain is to hold it, if one can; "": as narrow
        as can be.
    :param multiple: topology: by layer, each domain in use gets a multiple of so many pods, unless
        a domain of a narrower layer holds all.
    :param per_domain: topology: by layer, "node" for the nodes: each domain gets at most so many
        pods.
    :param balance: topology: the layer among whose domains the pods are as even as can be: no more
        of them are used than otherwise, and the most pods in one of them are the fewest; "": none.
    :param nodes: the only nodes to use; none: all.
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
            multiple: Any = (),
            per_domain: Any = (),
            balance: str = "",
            nodes: Iterable[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()


class Data(Record, frozen=True):
    """What a job reads.

    :param dataset: its name.
    :param rate_mbps: MB/s that all of its GPUs consume when they never wait.
    :param total_gb: GB that it reads until it ends; inf: it is not known.
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
    given = (Role("pod", gpus=value),) if isinstance(value, int) else as_tuple(value, name)
    total = pods = 0
    for role in given:
        if not isinstance(role, Role):
            raise TypeError(f"roles must hold Roles, not {type(role).__name__}")
        pods += len(role.numbers)
        total += len(role.numbers) * role.gpus
    if not given:
        raise ValueError("roles must not be empty")
    if len(given) > 1 and len({role.name for role in given}) < len(given):
        raise ValueError("roles: a name is there twice")
    if not any(role.min_pods for role in given):
        raise ValueError("roles: min_pods must be above 0 for one of them")
    if pods > _MOST_PODS:
        raise ValueError("roles: more than 2**20 pods in all")
    if total >= 2**31:
        raise ValueError("roles: more than 2**31 GPUs in all")
    return given


class _OfTenant(Record, frozen=True):
    name: Annotated[str, _named]
    tenant: Name
    roles: Annotated[tuple[Role, ...], _roles]


class Job(_OfTenant, frozen=True, kw_only=True):
    """Pods that start together or not at all, and what they need of every stage.

    :param name: unique among the jobs that the scheduler knows, such as "train", or
        "namespace/train" as in Kubernetes; something is before and after each "/".
    :param tenant: that of its queue, and of the cells that it uses.
    :param roles: its `Role` s, at least one, with at most 2**20 pods in all; or a number of GPUs,
        for a single pod.
    :param priority: the higher, the sooner, -1000 to 1000; cells know 0 to 1000.
    :param preemptible: whether it may have to leave for others at all.
    :param guaranteed: whether it uses what its tenant is promised; else it is opportunistic, uses
        what is idle, and leaves for guaranteed jobs.
    :param quota: where it counts; "": the quota with the tenant's name.
    :param where: where its pods may be.
    :param on_failure: which pods are placed again when a pod fails or its node is removed. "job":
        all of them; the job waits in its queue again. "pod": those pods, near the others as `where`
        says; the others run on, and if there is no room the pods wait. "pod-then-job": the same,
        but if there is no room the whole job moves to where there is. Not together with `stages`,
        `Role.claims`, `Where.multiple`, `Where.per_domain` or `Where.balance`; nor do the last
        three go together with pods that join later, or the last two with `stages`.
    :param run_time: seconds, an upper estimate, up to 2**40; ``None``: unknown.
    :param stages: seconds of each resource that an iteration takes, one after the other, such as
        (storage and CPU, GPU, network): it may share its GPUs. None: it does not.
    :param data: what it reads; ``None``: nothing that storage has to know of.
    :param after: jobs that must have started before it may start; those that the scheduler does not
        know (any more) do not count.
    :param together: jobs that have to start in the same round of decisions, if they do not run yet:
        all of them or none, with those that they name themselves. Those that the scheduler does not
        know do not count, so they are all submitted before it decides. They are lent no idle cells,
        and no job leaves for them unless victims stop at once.
    :raises ValueError: something is out of range, or does not go together.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Job, Role
    >>> job = Job("bert", "vision", [Role("worker", 4, gpus=8)], priority=5)
    >>> job.gpus, Job("small", "vision", 2).roles[0].gpus
    (32, 2)
    """

    priority: Annotated[int, within(-1000, 1000)] = 0
    preemptible: bool = True
    guaranteed: bool = True
    on_failure: Annotated[str, one_of(_ON_FAILURE)] = "job"
    run_time: Annotated[float | None, positive(_LONGEST)] = None
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
            roles: Iterable[Role] | int,
            *,
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
        self._check()
        if not self.quota:
            force_setattr(self, "quota", self.tenant)
        if self.after or self.together:
            self._check_others()
        if self.stages and not any(self.stages):
            raise ValueError("stages: all are 0")
        if not self.preemptible and not self.guaranteed:
            raise ValueError("preemptible: an opportunistic job has to leave for others")
        if self.on_failure != "job":
            self._check_parts(f"on_failure={self.on_failure!r}")
        elif any(role.spares for role in self.roles):
            raise ValueError("spares: with on_failure='job' all pods start again")
        if any(role.max_pods for role in self.roles):
            self._check_parts("max_pods")
        joins = any(role.joining_numbers for role in self.roles)
        for field in ("multiple", "per_domain", "balance"):
            if getattr(self.where, field):
                if self.stages and field != "multiple":
                    raise ValueError(f"stages: not together with where.{field}")
                if joins:  # one by one
                    raise ValueError(f"min_pods: not together with where.{field}")

    def _check_parts(self, argument: str) -> None:
        """See that pods can be placed without the others."""
        for name, given in (
            ("stages", self.stages),
            ("where.multiple", self.where.multiple),
            ("where.per_domain", self.where.per_domain),
            ("where.balance", self.where.balance),
            ("claims", any(role.claims for role in self.roles)),
        ):
            if given:
                raise ValueError(f"{argument}: not together with {name}")

    def _check_others(self) -> None:
        if self.name in self.after:
            raise ValueError(f"after: {self.name!r} would wait for itself")
        if self.name in self.together:
            raise ValueError(f"together: {self.name!r} is the job itself")

    @property
    def gpus(self) -> int:
        """Of all pods together, spares included."""
        return sum([(role.pods + role.spares) * role.gpus for role in self.roles])

    def is_spare(self, name: str, number: int) -> bool:
        """Whether the pod of this number of the role of this name is a spare."""
        return any(number in role.spare_numbers for role in self.roles if role.name == name)

    def replace(self, **changes: Any) -> Self:
        """The same job with other arguments.

        >>> from hivecore.scheduler import Job
        >>> Job("a", "vision", 8).replace(name="b").name
        'b'
        """
        if changes.keys() - _LONE:
            return Record.replace(self, **changes)
        job = copy(self)  # nothing else has to be checked again
        if "name" in changes:
            force_setattr(job, "name", _named(changes["name"], "name"))
            job._check_others()
        if (run_time := changes.get("run_time", self.run_time)) is not self.run_time:
            known = run_time is not None
            run_time = as_positive(run_time, "run_time", _LONGEST) if known else None
            force_setattr(job, "run_time", run_time)
        return job
