"""What a user of a cluster wants to run, in the terms of all stages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Self

from hivecore._arguments import (
    as_amounts,
    as_bool,
    as_float,
    as_int,
    as_name,
    as_positive,
    as_text,
    as_tuple,
)
from hivecore.devices import DeviceRequest

__all__ = ["ANYWHERE", "Data", "Job", "Role", "Where"]

_MOST_PODS = 2**20
_MOST_GPUS = 2**20
_MOST_AMOUNT = 2**40
#: What may change in a job without a look at its other fields.
_LONE = frozenset(("name", "run_time"))
_LONGEST = 2.0**40  # seconds


@dataclass(frozen=True, slots=True, init=False)
class Role:
    """Pods of a job that are alike.

    :param name: of the role, unique in its job.
    :param pods: how many there are, 1 to 2**20.
    :param gpus: of each pod, 0 to 2**20; ``None``: as many as ``devices`` asks for, or 1.
    :param min_pods: with how many the job can start; the others join one by one when they fit. 0 to
        ``pods``; ``None``: all.
    :param devices: what each pod asks of its node beside whole GPUs; its name does not matter.
        ``None``: ``gpus`` whole GPUs.
    :param resources: what else each pod takes, by resource, 0 to 2**40 each; quotas count all that
        they have a limit of, a topology all that it knows.
    :raises ValueError: something is out of range, or does not go together.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Role
    >>> Role("worker", 4, gpus=8, min_pods=2).resources
    ()
    """

    name: str
    pods: int
    gpus: int
    min_pods: int
    devices: DeviceRequest | None
    resources: tuple[tuple[str, int], ...]

    def __init__(
        self,
        name: str,
        pods: int = 1,
        gpus: int | None = None,
        *,
        min_pods: int | None = None,
        devices: DeviceRequest | None = None,
        resources: Any = (),
    ) -> None:
        put = object.__setattr__
        put(self, "name", as_name(name, "name"))
        if "/" in self.name:
            raise ValueError(f"name={name!r}: '/' is not allowed in the name of a role")
        put(self, "pods", as_int(pods, "pods", 1, _MOST_PODS))
        given: object = devices
        asked = 1
        if given is not None:
            if not isinstance(given, DeviceRequest):
                kind = type(given).__name__
                raise TypeError(f"devices must be a DeviceRequest, not {kind}")
            need = given.need("gpu")
            asked = 0 if need is None else need.count
        number = asked if gpus is None else as_int(gpus, "gpus", 0, _MOST_GPUS)
        if given is not None and number != asked:
            raise ValueError(f"gpus={number}: devices asks for {asked}")
        put(self, "gpus", number)
        least = self.pods if min_pods is None else as_int(min_pods, "min_pods", 0, self.pods)
        put(self, "min_pods", least)
        # Whose it is, and how important, is said elsewhere; alike is what differs in nothing else.
        put(self, "devices", devices and devices.replace(name="any pod", priority=0))
        put(self, "resources", as_amounts(resources, "resources", 0, _MOST_AMOUNT))
        if any(resource == "gpu" for resource, _ in self.resources):
            raise ValueError("resources: 'gpu' is what gpus says")


@dataclass(frozen=True, slots=True, init=False)
class Where:
    """Where the pods of a job may be.

    :param leaf_type: cells: the name of the leaf level of the chains to search, such as a model of
        GPUs; "": all chains.
    :param pinned_cell: cells: the tenant's pinned cell to use, and nothing else; "": none.
    :param within: cells: the level of which one cell has to hold all of the job; "": none has to.
    :param must: topology: the layer of which one domain has to hold all of it; "": none has to.
    :param prefer: topology: the layer of which one domain is to hold it, if one can; "": as narrow
        as can be.
    :param multiple: topology: by layer, each domain in use gets a multiple of so many pods.
    :param nodes: the only nodes to use; none: all.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.
    """

    leaf_type: str
    pinned_cell: str
    within: str
    must: str
    prefer: str
    multiple: tuple[tuple[str, int], ...]
    nodes: tuple[str, ...]

    def __init__(
        self,
        *,
        leaf_type: str = "",
        pinned_cell: str = "",
        within: str = "",
        must: str = "",
        prefer: str = "",
        multiple: Any = (),
        nodes: Iterable[str] = (),
    ) -> None:
        put = object.__setattr__
        texts = {"leaf_type": leaf_type, "pinned_cell": pinned_cell, "within": within}
        for name, text in (texts | {"must": must, "prefer": prefer}).items():
            put(self, name, as_text(text, name))
        put(self, "multiple", as_amounts(multiple, "multiple", 1, 2**31))
        names = dict.fromkeys(as_name(node, "nodes") for node in as_tuple(nodes, "nodes"))
        put(self, "nodes", tuple(names))


@dataclass(frozen=True, slots=True)
class Data:
    """What a job reads.

    :param dataset: its name.
    :param rate_mbps: MB/s that all of its GPUs consume when they never wait.
    :param total_gb: GB that it reads until it ends; inf: it is not known.
    :raises ValueError: a number is not positive.
    :raises TypeError: an argument is of a wrong type.
    """

    dataset: str
    rate_mbps: float
    total_gb: float = inf

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "dataset", as_name(self.dataset, "dataset"))
        put(self, "rate_mbps", as_positive(self.rate_mbps, "rate_mbps", 1e15))
        put(self, "total_gb", as_positive(self.total_gb, "total_gb", inf))


#: No constraint.
ANYWHERE = Where()


@dataclass(frozen=True, slots=True, init=False)
class Job:
    """Pods that start together or not at all, and what they need of every stage.

    :param name: unique among the jobs that the scheduler knows; without "/".
    :param tenant: whose queue it is in, and whose cells it uses.
    :param roles: its `Role` s, at least one, with at most 2**20 pods in all; or a number of GPUs,
        for a single pod.
    :param priority: the higher, the sooner, -1000 to 1000; cells know 0 to 1000.
    :param preemptible: whether it may have to leave for others at all.
    :param guaranteed: whether it uses what its tenant is promised; else it is opportunistic, uses
        what is idle, and leaves for everybody who is guaranteed.
    :param quota: where it counts; "": the quota with the tenant's name.
    :param where: where its pods may be.
    :param run_time: seconds, an upper estimate, up to 2**40; ``None``: unknown.
    :param stages: seconds of each resource that an iteration takes, one after the other, such as
        (storage and CPU, GPU, network): it may share its GPUs. None: it does not.
    :param data: what it reads; ``None``: nothing that storage has to know of.
    :param after: jobs that must have started before it may start; those that the scheduler does not
        know (any more) do not count.
    :param together: jobs that have to start in the same round of decisions, if they do not run yet:
        all of them or none, with those that they name themselves. Those that the scheduler does not
        know do not count, so they are all submitted before it decides. They are lent no idle cells,
        and nobody leaves for them unless victims stop at once.
    :raises ValueError: something is out of range, or does not go together.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Job, Role
    >>> job = Job("bert", "vision", [Role("worker", 4, gpus=8)], priority=5)
    >>> job.gpus, Job("small", "vision", 2).roles[0].gpus
    (32, 2)
    """

    name: str
    tenant: str
    roles: tuple[Role, ...]
    priority: int
    preemptible: bool
    guaranteed: bool
    quota: str
    where: Where
    run_time: float | None
    stages: tuple[float, ...]
    data: Data | None
    after: tuple[str, ...]
    together: tuple[str, ...]
    gpus: int = field(compare=False)
    """Of all pods together."""

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
        run_time: float | None = None,
        stages: Iterable[float] = (),
        data: Data | None = None,
        after: Iterable[str] = (),
        together: Iterable[str] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "after", _names(after, "after"))
        put(self, "together", _names(together, "together"))
        put(self, "name", _job_name(name, self.after, self.together))
        put(self, "tenant", as_name(tenant, "tenant"))
        given = (Role("pod", gpus=roles),) if isinstance(roles, int) else as_tuple(roles, "roles")
        put(self, "roles", given)
        total = pods = 0
        for role in given:
            if not isinstance(role, Role):
                raise TypeError(f"roles must hold Roles, not {type(role).__name__}")
            pods += role.pods
            total += role.pods * role.gpus
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
        put(self, "gpus", total)
        put(self, "priority", as_int(priority, "priority", -1000, 1000))
        put(self, "preemptible", as_bool(preemptible, "preemptible"))
        put(self, "guaranteed", as_bool(guaranteed, "guaranteed"))
        put(self, "quota", as_text(quota, "quota") or self.tenant)
        if not isinstance(where, Where):
            raise TypeError(f"where must be a Where, not {type(where).__name__}")
        put(self, "where", where)
        known = run_time is not None
        put(self, "run_time", as_positive(run_time, "run_time", _LONGEST) if known else None)
        durations = as_tuple(stages, "stages")
        put(self, "stages", tuple(_duration(one) for one in durations) if durations else ())
        if durations and not any(self.stages):
            raise ValueError("stages: all are 0")
        if data is not None and not isinstance(data, Data):
            raise TypeError(f"data must be a Data, not {type(data).__name__}")
        put(self, "data", data)
        if not self.preemptible and not self.guaranteed:
            raise ValueError("preemptible: an opportunistic job has to leave for others")

    def replace(self, **changes: Any) -> Self:
        """The same job with other arguments.

        >>> from hivecore.scheduler import Job
        >>> Job("a", "vision", 8).replace(name="b").name
        'b'
        """
        if changes.keys() - _LONE:
            mine = {name: getattr(self, name) for name in self.__slots__ if name != "gpus"}
            return type(self)(**{**mine, **changes})
        # Nothing else has to be checked again.
        made = object.__new__(type(self))
        for set_field, get in _FIELDS:
            set_field(made, get(self))
        put = object.__setattr__
        if "name" in changes:
            put(made, "name", _job_name(changes["name"], self.after, self.together))
        run_time = changes.get("run_time")
        if "run_time" in changes:
            put(
                made,
                "run_time",
                None if run_time is None else as_positive(run_time, "run_time", _LONGEST),
            )
        return made


_FIELDS = [(one.__set__, one.__get__) for one in (getattr(Job, name) for name in Job.__slots__)]


def _names(value: Any, name: str) -> tuple[str, ...]:
    given = as_tuple(value, name)
    return tuple([as_name(one, name) for one in given]) if given else ()


def _job_name(value: Any, after: tuple[str, ...], together: tuple[str, ...]) -> str:
    name = as_name(value, "name")
    if "/" in name:
        raise ValueError(f"name={name!r}: '/' is not allowed in the name of a job")
    if name in after:
        raise ValueError(f"after: {name!r} would wait for itself")
    if name in together:
        raise ValueError(f"together: {name!r} is the job itself")
    return name


def _duration(value: Any) -> float:
    number = as_float(value, "stages")
    if not (isfinite(number) and 0.0 <= number <= 1e15):
        raise ValueError(f"stages: {number!r} is not from 0 to 1e15")
    return number
