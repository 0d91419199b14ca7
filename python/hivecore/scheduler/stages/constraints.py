"""Checks that some part enforces each constraint of a job.

A few requests may be ignored without such a part: preferences, iteration stages without sharing, a
dataset without storage, GPUs that no part counts, and the quota of a tenant.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hivecore._quantities import resource_meant
from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster, DeviceRequest
from hivecore.quotas import QuotaTree
from hivecore.scheduler.job import ANYWHERE, Job, Role
from hivecore.scheduler.stages.devices import host_resources
from hivecore.scheduler.stages.stage import Stage
from hivecore.topology import NetworkTopology

__all__ = [
    "check_counted",
    "check_limits",
    "check_names",
    "check_quotas",
    "offered_by",
    "spreads",
    "unenforced",
]

#: Constraints on nodes. The part that enforces them must choose the nodes of some pods.
_PLACES = (
    *("leaf_type", "pinned_cell", "within", "must"),
    *("multiple", "per_domain", "balance", "nodes"),
)
_GPUS = ("gpu", "gpus")
_USUAL = ("gpu", "cpu", "memory")


class _Constraint(NamedTuple):
    """A constraint of a job."""

    #: its name in `Stage.honours`, and its path in the job
    field: str
    path: str
    value: Any
    resource: str = ""
    role: Role | None = None


def unenforced(job: Job, stages: Sequence[Stage], kinds: Iterable[type[Stage]]) -> str:
    """The first constraint that no part enforces, and the parts that could; "" if there is none."""
    for constraint in _constraints(job):
        enforcing = [stage for stage in stages if constraint.field in stage.honours]
        if constraint.resource:
            is_counted = any(stage.counts(job, constraint.resource) for stage in enforcing)
            reason = "" if is_counted else _uncounted(constraint.resource)
        elif constraint.role is not None:
            reason = _crowded(job, constraint.role, stages, enforcing)
        elif constraint.field in _PLACES:
            reason = _unplaced(job.roles, stages, enforcing)
        elif constraint.field == "devices" and (enforcing or _whole_gpus(constraint.value)):
            reason = ""
        else:
            reason = "" if enforcing else "no part enforces it"
        if reason:
            present = [stage.name for stage in enforcing]
            could = [kind.name for kind in kinds if constraint.field in kind.honours]
            if could != present and not constraint.resource:
                reason += f"; {' or '.join(name for name in could if name not in present)} would"
            return f"{constraint.path}={constraint.value!r}: {reason}"
    return ""


def spreads(job: Job, stages: Sequence[Stage]) -> bool:
    """Whether parts enforce the limits of pods per node of all roles."""
    enforcing = [stage for stage in stages if "per_node" in stage.honours]
    limited = [role for role in job.roles if role.per_node is not None]
    return not any(_crowded(job, role, stages, enforcing) for role in limited)


def _uncounted(resource: str) -> str:
    if resource.lower() in _GPUS:
        return "GPUs are given by Role.gpus"
    return "no part counts it; quotas or a topology with this resource would"


def _constraints(job: Job) -> Iterator[_Constraint]:
    if job.where is not ANYWHERE:
        for field in _PLACES:
            if value := getattr(job.where, field):
                yield _Constraint(field, f"where.{field}", value)
    for role in job.roles:
        for resource, amount in role.resources:
            if amount:
                yield _Constraint("resources", f"resources[{resource!r}]", amount, resource)
        if role.devices is not None:
            if role.devices.joint:
                yield _Constraint("joint", "devices.joint", role.devices.joint)
            yield _Constraint("devices", "devices", role.devices)
        if role.per_node is not None:
            yield _Constraint(
                "per_node", f"roles[{role.name!r}].per_node", role.per_node, role=role
            )
        if role.claims:
            yield _Constraint("claims", "claims", tuple(claim.name for claim in role.claims))
    if job.quota != job.tenant:
        yield _Constraint("quota", "quota", job.quota)


def _whole_gpus(request: DeviceRequest) -> bool:
    """Whether a request is for whole GPUs only, apart from preferences."""
    need = request.need("gpu")
    if need is None:
        return False
    whole = DeviceRequest(
        "any", gpus=need.count, gpu_wishes={"preferred_scope": need.preferred_scope}
    )
    return request.content == whole.content


def _unplaced(roles: Iterable[Role], stages: Sequence[Stage], enforcing: Sequence[Stage]) -> str:
    """Why pods might not be placed as a constraint requires."""
    if not enforcing:
        return "no part enforces it"
    is_placed = False
    for role in roles:
        if any(stage.chooses_node(role) for stage in enforcing):
            is_placed = True
        elif any(stage.chooses_node(role) for stage in stages):
            return f"{enforcing[0].name} places no pods of role {role.name!r}"
    return "" if is_placed else f"{enforcing[0].name} counts nothing that its pods request"


def _crowded(job: Job, role: Role, stages: Sequence[Stage], enforcing: Sequence[Stage]) -> str:
    """Why a node might get too many pods of a role."""
    if reason := _unplaced([role], stages, enforcing):
        return reason
    choosing = _choosing(role, stages)
    assert choosing is not None
    if choosing not in enforcing:
        return f"{choosing.name} place its pods, and do not limit how many a node gets"
    placed = [other for other in job.roles if _choosing(other, stages) is choosing]
    if len(placed) > 1 and choosing.limits_one_role:
        return f"{choosing.name} limit the pods of a node only where they place a single role"
    return ""


def _choosing(role: Role, stages: Iterable[Stage]) -> Stage | None:
    return next((stage for stage in stages if stage.chooses_node(role)), None)


# --- parts that limit nothing


def check_names(
    names: Iterable[str], argument: str, offered: Collection[str] | None = None
) -> None:
    """Refuse resources that no job can request. Jobs request "gpu".

    :param offered: what nodes have, see `offered_by`.
    :raises ValueError: a name is another spelling of "gpu"; or nodes have nothing of it, and it is
        probably another spelling of what they have, or of "cpu" or "memory".
    """
    for name in names:
        if name != "gpu" and name.lower() in _GPUS:
            raise ValueError(f"{argument}: no job can request {name!r}; GPUs are 'gpu'")
        if offered is None or name in offered or name in _USUAL:
            continue
        if meant := resource_meant(name, {**dict.fromkeys(offered), **dict.fromkeys(_USUAL)}):
            raise ValueError(f"{argument}: no node has {name!r}; is {meant!r} meant?")


def offered_by(
    devices: DeviceCluster | None, topology: NetworkTopology | None, cells: CellCluster | None
) -> frozenset[str] | None:
    """The resources of the nodes; None if no nodes are known, so that jobs may request anything."""
    parts = [part for part in (devices, topology, cells) if part is not None and part.nodes]
    if not parts:
        return None
    counted = () if topology is None else topology.resources
    hosts = frozenset[str]() if devices is None else host_resources(devices, ())
    return hosts.union(counted, ("gpu",))


def check_quotas(tree: QuotaTree, offered: Collection[str] | None) -> None:
    """Raise ValueError for a quota or total of what no job can request, see `offered_by`."""
    for name in tree.quotas:
        check_names(dict(tree.quota(name).max), f"quotas[{name!r}]", offered)
    for root in {tree.tree_of(name) for name in tree.quotas} | {""}:
        check_names(tree.declared_total(root)[0], "quotas: total", offered)


def check_limits(limits: Iterable[str], tree: QuotaTree | None, argument: str) -> None:
    """Raise ValueError for limits on evictions of quotas that do not exist; "": of all others."""
    for quota in limits:
        if tree is not None and quota and quota not in tree.quotas:
            raise ValueError(f"{argument}: there is no quota {quota!r}")


def check_counted(names: Collection[str], argument: str) -> None:
    """Raise ValueError for a network that counts nothing that a job can request."""
    if not names:
        raise ValueError(f"{argument}: the network counts nothing; use set_free or set_slots")
    if not any(name == "gpu" or name.lower() not in _GPUS for name in names):
        check_names(names, argument)
