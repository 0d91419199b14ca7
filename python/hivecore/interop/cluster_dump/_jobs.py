"""Drafts of a cluster's jobs, from Kueue's Workloads or from pods by PodGroup."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Annotated, Any

from msgspec import Meta as Bounds
from msgspec import field as default

from hivecore.interop.cluster_dump._kueue import CLUSTER_QUEUE
from hivecore.interop.cluster_dump._objects import Condition, Dump, Meta, Object, Schema
from hivecore.interop.cluster_dump._queues import Queues
from hivecore.interop.koordinator import read_gang_pod
from hivecore.interop.koordinator.gangs import names as gangs
from hivecore.interop.koordinator.quotas.names import PREEMPTIBLE
from hivecore.interop.koordinator.topology.names import SPEC as NETWORK_WISH
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import is_held_back
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pod_spread import NO_SPREAD, PodSpread, read_pod_spread
from hivecore.interop.kubernetes.pods import has_ended, pod_requests
from hivecore.interop.kueue import read_assignment
from hivecore.interop.kueue.names import GROUP, HOSTNAME
from hivecore.scheduler import Job, PlacedPod, Role, Where

__all__ = ["Draft", "Priorities", "drafts_of"]

_HIGHEST = 1000  # the highest priority of a job
_WORKLOAD, _FLAVOR = f"Workload.{GROUP}", f"ResourceFlavor.{GROUP}"
_CLASSES = ("PriorityClass.scheduling.k8s.io", f"WorkloadPriorityClass.{GROUP}")
_GROUPS = tuple(
    f"PodGroup.scheduling.{group}" for group in ("volcano.sh", "run.ai", "sigs.k8s.io", "x-k8s.io")
)
_WAITS = ("", "Pending", "Inqueue")  # phases of a PodGroup
_GROUP_KEYS = (
    "scheduling.k8s.io/group-name",
    "pod-group-name",
    gangs.LIGHT_NAME,
    gangs.POD_GROUP,
    gangs.X_POD_GROUP,
    gangs.GANG_NAME,
)
_LEAST_KEYS = (gangs.LIGHT_MINIMUM, gangs.MINIMUM)
_UNREAD = (NETWORK_WISH, gangs.GROUPS, gangs.TOTAL)
_QUEUE_KEYS = ("scheduling.volcano.sh/queue-name", "kai.scheduler/queue")
_FRACTIONS = ("gpu-fraction", "gpu-memory")  # of KAI-Scheduler
_FRACTION_OF = "gpu-fraction-num-devices"
_KAI_STAYS = 100  # pods of KAI-Scheduler with this or a higher priority are not preempted
_KAI_LABEL, _VOLCANO_LABEL = "kai.scheduler/preemptibility", "volcano.sh/preemptable"
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_JOBSET_UID, _OF_WORKLOAD = "jobset.sigs.k8s.io/jobset-uid", f"{GROUP}/workload"
_MOST_PODS = 2**20
_Count = Annotated[int, Bounds(ge=0)]


class _Assigned(Schema, frozen=True):
    name: str = "main"
    count: _Count | None = None
    flavors: dict[str, str] = default(default_factory=dict)
    resource_usage: dict[str, Fraction] = default(default_factory=dict)
    topology_assignment: dict[str, Any] | None = None


class _Admission(Schema, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[_Assigned, ...] = ()

    def elsewhere(self, flavor: str) -> set[str]:
        """Return the pod sets that are on other flavors."""
        flavors = {each.name: each.flavors.values() for each in self.pod_set_assignments}
        return {name for name, on in flavors.items() if flavor and on and flavor not in on}


class _Reclaimable(Schema, frozen=True):
    name: str = "main"
    count: _Count = 0


class _Status(Schema, frozen=True):
    admission: _Admission | None = None
    conditions: tuple[Condition, ...] = ()
    reclaimable_pods: tuple[_Reclaimable, ...] = ()

    @property
    def has_ended(self) -> bool:
        return any(each.type == "Finished" and each.status == "True" for each in self.conditions)


class _Request(Schema, frozen=True):
    required: str = ""
    preferred: str = ""
    pod_set_group_name: str = ""
    pod_set_slice_required_topology: str = ""
    podset_slice_required_topology_constraints: tuple[dict[str, Any], ...] = ()

    @property
    def wish(self) -> tuple[str, str]:
        return self.required, self.preferred


class _PodSet(Schema, frozen=True):
    name: str = "main"
    count: _Count = 1
    min_count: _Count | None = None
    template: dict[str, Any] = default(default_factory=dict)
    topology_request: _Request = _Request()


class _Workload(Schema, frozen=True):
    queue_name: str = ""
    pod_sets: tuple[_PodSet, ...] = ()
    priority: int = 0
    active: bool = True


class _Flavor(Schema, frozen=True):
    node_labels: dict[str, str] = default(default_factory=dict)


class _Pod(Schema, frozen=True):
    node_name: str = ""
    priority: int = 0
    scheduling_gates: tuple[Any, ...] = ()


class _Constraint(Schema, frozen=True):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class _PodGroup(Schema, frozen=True):
    queue: str = ""
    min_member: _Count | None = None
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: _Constraint = _Constraint()
    # what says nothing about where and when a job may start
    min_resources: dict[str, Any] = default(default_factory=dict)
    mark_unschedulable: bool = False
    scheduling_backoff: int = 0
    schedule_timeout_seconds: int = 0


class _GroupStatus(Schema, frozen=True):
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A job with its priority in Kubernetes.

    :param name: "namespace/name".
    :param age: its creation time.
    :param pods: role -> number of pods, what each takes, and how far apart they must be.
    :param nodes: where its pods run, if known.
    :param least: role -> number of pods with which it may start, if these are fewer.
    :param places: role -> the node of each of its pods, if known.
    """

    name: str
    age: str
    quota: str
    pods: Mapping[str, tuple[int, Mapping[str, Fraction], PodSpread]]
    priority: int
    running: bool
    nodes: tuple[str, ...] = ()
    must: str = ""
    prefer: str = ""
    preemptible: bool = True
    least: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def placed(self) -> tuple[PlacedPod, ...]:
        """Return where each of its pods runs; empty if unknown."""
        return tuple(
            PlacedPod(role, i, node)
            for role, nodes in self.places.items()
            for i, node in enumerate(nodes)
        )

    def job(self, dump: Dump, priority: int, counted: Iterable[str], layers: Sequence[str]) -> Job:
        """Return the job, without resources that no part counts, and without places if it asks for
        nothing else.
        """
        kept = {*counted} - {"gpu"}
        roles = []
        for name, (pods, amounts, spread) in self.pods.items():
            units, most = dump.units(amounts), None if self.running else spread.most(pods)
            for key in sorted(key for key in units.keys() - kept if "/" in key and units[key]):
                text = f"asks for {key}, which no queue counts; that is not read"
                dump.remark("Job", self.name, text)
            resources = {key: units[key] for key in units if key in kept and units[key]}
            gpus = units.get("gpu", 0)
            least = self.least.get(name, pods)
            with Field(None, f"Job {self.name}").named():
                role = Role(name, pods, gpus, min_pods=least, resources=resources, per_node=most)
            roles.append(role)
            for text in () if self.running else spread.left_out(pods):
                dump.remark("Job", self.name, f"{text}; that is not read")
        known = {layer: layer for layer in layers} | ({HOSTNAME: "node"} if layers else {})
        if self.must and not self.running and self.must not in known:
            dump.remark(
                "Workload", self.name, f"{self.must} is no level that is read; it may span it"
            )
        where = Where(
            nodes=self.nodes,
            must="" if self.running else known.get(self.must, ""),
            prefer="" if self.running else known.get(self.prefer, ""),
        )
        if not any(role.gpus or role.resources for role in roles):
            where = Where()
        name, preemptible = job_name(self.name), self.preemptible
        return Job(name, self.quota, roles, priority=priority, preemptible=preemptible, where=where)


class Priorities:
    """Maps Kubernetes' priorities, which may be large, to priorities of jobs.

    If all are from -1000 to 1000 they stay; otherwise only their order does.
    """

    def __init__(self, dump: Dump, drafts: Iterable[Draft]) -> None:
        self.classes = _classes(dump)
        values = sorted({0, *self.classes.values(), *(draft.priority for draft in drafts)})
        self._ranks = {value: value for value in values}
        if max(map(abs, values)) > _HIGHEST:
            below = values.index(0)
            self._ranks = {value: rank - below for rank, value in enumerate(values)}
            dump.remark("Priorities", "", "keep their order, not their values, which exceed 1,000")

    def __getitem__(self, value: int) -> int:
        return max(-_HIGHEST, min(_HIGHEST, self._ranks[value]))


def _classes(dump: Dump) -> dict[str, int]:
    """Return priority class -> priority."""
    classes: dict[str, int] = {}
    for item in [item for kind in _CLASSES for item in dump.kinds[kind]]:
        with named_object(Field(item.value), item.kind):
            classes[item.meta.name] = Field(item.value)["value"].integer(-(2**31), 2**31 - 1)
    return classes


def drafts_of(dump: Dump, queues: Queues, flavor: str) -> list[Draft]:
    """Return the jobs that have not ended: running ones, then waiting ones, each by age.

    :param flavor: of Kueue; jobs on other flavors are left out. "" means all flavors.
    """
    if dump.kinds[CLUSTER_QUEUE]:
        drafts = list(_workloads(dump, queues.users, flavor))
        _remark_strangers(dump)
    else:
        drafts = list(_pods(dump, queues))
    return sorted(drafts, key=lambda draft: (not draft.running, draft.age))


# --- Kueue


def _workloads(dump: Dump, queues: Mapping[str, str], flavor: str) -> Iterator[Draft]:
    places = _Places(dump)
    for item in dump.kinds[_WORKLOAD]:
        spec = dump.read(item, _Workload, whole=False)
        status = dump.read(item, _Status, "status", whole=False)
        admission, name = status.admission or _Admission(), item.meta.full
        if status.has_ended or not spec.active or not spec.pod_sets:
            continue
        quota = admission.cluster_queue or queues.get(
            f"{item.meta.namespace}/{spec.queue_name}", ""
        )
        if quota not in queues:
            dump.remark("Workload", name, "is of no queue that is read; it is left out")
        elif admission.elsewhere(flavor) >= {each.name for each in spec.pod_sets}:
            dump.remark("Workload", name, f"is not on the flavor {flavor}; it is left out")
        else:
            with named_object(Field(item.value), "Workload"):
                pods, nodes = _of_pod_sets(spec, status, flavor), places.of(item, admission)
                counts = {pod_set: count for pod_set, (count, _, _) in pods.items()}
                each_on = places.of_pods(admission, counts)
            running, age = status.admission is not None, str(item.meta.creation_timestamp)
            wishes = ("", "") if running else _wishes(dump, name, spec)
            templates = [Field(each.template, "template") for each in spec.pod_sets]
            with Field(None, f"Workload {show(name)}").named():
                _remark_claims(dump, name, templates)
                if not running:
                    _remark_nodes(dump, name, templates)
            least = {
                each.name: min(max(1, each.min_count), pods[each.name][0])
                for each in spec.pod_sets
                if each.min_count is not None and each.name in pods and not running
            }
            if pods:
                yield Draft(
                    name,
                    age,
                    quota,
                    pods,
                    spec.priority,
                    running,
                    nodes,
                    *wishes,
                    least=least,
                    places=each_on,
                )


def _of_pod_sets(
    spec: _Workload, status: _Status, flavor: str
) -> dict[str, tuple[int, Mapping[str, Fraction], PodSpread]]:
    """Return pod set -> pods on this flavor that have not ended, what each takes, their spread."""
    admission = status.admission or _Admission()
    assignments, elsewhere = admission.pod_set_assignments, admission.elsewhere(flavor)
    counts = {each.name: each.count for each in spec.pod_sets}
    counts |= {each.name: each.count for each in assignments if each.count is not None}
    usage = {
        each.name: {name: amount / pods for name, amount in each.resource_usage.items()}
        for each in assignments
        if (pods := counts.get(each.name))
    }
    ended = {each.name: each.count for each in status.reclaimable_pods}
    return {
        each.name: (
            count,
            pod_requests(Field(each.template, "spec.podSets.template")) | usage.get(each.name, {}),
            read_pod_spread(Field(each.template, "spec.podSets.template")),
        )
        for each in spec.pod_sets
        if each.name not in elsewhere and (count := counts[each.name] - ended.get(each.name, 0)) > 0
    }


def _wishes(dump: Dump, name: str, spec: _Workload) -> tuple[str, str]:
    """Return the level that is required and the one that is preferred."""
    requests = [each.topology_request for each in spec.pod_sets if each.count]
    wishes = {each.wish for each in requests} or {("", "")}
    if any(
        each.pod_set_slice_required_topology or each.podset_slice_required_topology_constraints
        for each in requests
    ):
        dump.remark("Workload", name, "has slices of pod sets; they are not read")
    if len(wishes) > 1:
        text = "its pod sets ask for different levels, which are not read; it may span them"
        dump.remark("Workload", name, text)
        return "", ""
    if len(requests) > 1 and wishes != {("", "")} and not _are_grouped(requests):
        text = "each of its pod sets asks for a domain; here all of them are in one"
        dump.remark("Workload", name, text)
    return wishes.pop()


def _remark_claims(dump: Dump, name: str, pods: Iterable[Field]) -> None:
    """Add a remark if pods, or templates of them, have device claims."""
    if any(pod["spec"]["resourceClaims"].value for pod in pods):
        dump.remark("Job", name, "has device claims, which are not read")


def _remark_nodes(dump: Dump, name: str, pods: Iterable[Field]) -> None:
    """Add a remark if pods, or templates of them, may use certain nodes only."""
    for spec in [pod["spec"] for pod in pods]:
        affinity = spec["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        if spec["nodeSelector"].value or required.value:
            text = "asks for certain nodes by nodeSelector or affinity; that is not read"
            dump.remark("Job", name, text)
            return


def _has_ended(pod: Object) -> bool:
    with named_object(Field(pod.value), "Pod"):
        return has_ended(Field(pod.value))


def _is_held_back(dump: Dump, item: Object) -> bool:
    """Whether no scheduler considers the pod; a remark says so."""
    pod = dump.read(item, _Pod, whole=False)
    if pod.node_name or not is_held_back(item.value):
        return False
    text = "has scheduling gates" if pod.scheduling_gates else "is being deleted"
    dump.remark("Pod", item.meta.full, f"waits and {text}; it is left out")
    return True


def _are_grouped(requests: Sequence[_Request]) -> bool:
    groups = {each.pod_set_group_name for each in requests}
    return len(groups) == 1 and "" not in groups


def _remark_strangers(dump: Dump) -> None:
    """Add a remark about pods that hold GPUs without belonging to a workload."""
    owners = {owner.uid for item in dump.kinds[_WORKLOAD] for owner in item.meta.owner_references}
    for item in dump.kinds["Pod"]:
        meta, pod = item.meta, dump.read(item, _Pod, whole=False)
        is_known = any(GROUP in key for key in (*meta.labels, *meta.annotations))
        is_known |= not owners.isdisjoint(_keys_of(meta))
        is_there = pod.node_name and not _has_ended(item)
        if is_there and not is_known and _requests(dump, item).get(dump.gpu):
            dump.remark("Pod", meta.full, "holds GPUs, is of no Workload, and does not count")


class _Places:
    """Finds where workloads run, from their topology assignments or pods."""

    def __init__(self, dump: Dump) -> None:
        nodes = dump.kinds["Node"]
        self._hosts = {item.meta.labels.get(HOSTNAME, ""): item.meta.name for item in nodes}
        self._labels = {item.meta.name: item.meta.labels for item in nodes}
        self._flavors = {
            item.meta.name: dump.read(item, _Flavor, whole=False).node_labels
            for item in dump.kinds[_FLAVOR]
        }
        self._by_flavors: dict[frozenset[frozenset[str]], tuple[str, ...]] = {}
        #: by what pods say of themselves: uids, and the name of their workload
        self._by_key: dict[str, dict[str, None]] = defaultdict(dict)
        for item in dump.kinds["Pod"]:
            pod = dump.read(item, _Pod, whole=False)
            if pod.node_name and not _has_ended(item):
                for key in _keys_of(item.meta):
                    self._by_key[key][pod.node_name] = None

    def of(self, item: Object, admission: _Admission) -> tuple[str, ...]:
        """Return the nodes; empty if unknown."""
        nodes: dict[str, None] = {}
        for each in admission.pod_set_assignments:
            if each.topology_assignment:
                assignment = read_assignment(each.topology_assignment)
                if assignment.levels[-1] == HOSTNAME:
                    names = [values[-1] for values, _ in assignment.domains]
                    nodes |= {self._hosts[name]: None for name in names if name in self._hosts}
        owners = [owner.uid for owner in item.meta.owner_references]
        for key in [item.meta.full, *owners] if not nodes else ():
            nodes |= self._by_key.get(key, {})
        flavors = {frozenset(each.flavors.values()) for each in admission.pod_set_assignments}
        return tuple(nodes) or self._of_flavors(frozenset(flavors))

    def of_pods(self, admission: _Admission, counts: Mapping[str, int]) -> dict[str, Sequence[str]]:
        """Return pod set -> the node of each pod, if the topology assignments say all of them.

        :param counts: pod set -> number of its pods.
        """
        places: dict[str, Sequence[str]] = {}
        for each in admission.pod_set_assignments:
            if each.name in counts and each.topology_assignment:
                assignment, count = read_assignment(each.topology_assignment), counts[each.name]
                domains, level = assignment.domains, assignment.levels[-1]
                if level == HOSTNAME and sum(n for _, n in domains) == count <= _MOST_PODS:
                    hosts = [(self._hosts.get(values[-1], ""), n) for values, n in domains]
                    places[each.name] = [host for host, n in hosts for _ in range(n)]
        is_known = len(places) == len(counts) and all("" not in on for on in places.values())
        return {name: places[name] for name in counts} if is_known else {}

    def _of_flavors(self, chosen: frozenset[frozenset[str]]) -> tuple[str, ...]:
        """Return the nodes with the labels of these flavors, by pod set; empty if these are all."""
        if chosen not in self._by_flavors:
            allowed: set[str] = set()
            for flavors in chosen:
                labels = {pair for name in flavors for pair in self._flavors.get(name, {}).items()}
                allowed |= {name for name, own in self._labels.items() if own.items() >= labels}
            names = tuple(name for name in self._labels if name in allowed)
            self._by_flavors[chosen] = names if len(names) < len(self._labels) else ()
        return self._by_flavors[chosen]


def _keys_of(pod: Meta) -> set[str]:
    """Return what may name the workload of a pod: itself, or the uids of its owners."""
    uids = {pod.uid, pod.labels.get(_JOBSET_UID, ""), *(own.uid for own in pod.owner_references)}
    workload = pod.annotations.get(_OF_WORKLOAD, "")
    return (uids | ({f"{pod.namespace}/{workload}"} if workload else set())) - {""}


# --- pods of the others


def _pods(dump: Dump, queues: Queues) -> Iterator[Draft]:
    groups = {item.meta.full: item for kind in _GROUPS for item in dump.kinds[kind]}
    classes, empty = _classes(dump), dict(groups)
    members: dict[tuple[str, bool], list[Object]] = defaultdict(list)  # by name, whether a group's
    for item in dump.kinds["Pod"]:
        name = _gang(item)
        empty.pop(f"{item.meta.namespace}/{name}", None)
        if not _has_ended(item) and not _is_held_back(dump, item):
            full = f"{item.meta.namespace}/{name}" if name else item.meta.full
            members[full, bool(name)].append(item)
    for (name, is_group), items in members.items():
        head = groups.get(name, items[0]) if is_group else items[0]
        if quota := _quota(dump, head, items[0], queues):
            is_other = not is_group and (name, True) in members
            group = groups.get(name) if is_group else None
            called = f"pod:{name}" if is_other else name
            yield _draft(dump, called, quota, items, group, classes)
        elif _requests(dump, items[0]).get(dump.gpu):
            text = "asks for GPUs, is of no queue that is read, and is left out"
            dump.remark("Pod", items[0].meta.full, text)
    for name, item in empty.items():
        if dump.read(item, _GroupStatus, "status", whole=False).phase in _WAITS:
            dump.remark("PodGroup", name, "has no pods yet, and is left out")


def _gang(item: Object) -> str:
    """Return what a pod says of its gang, in its namespace; "": it is of none."""
    if name := _first(item.meta, _GROUP_KEYS):
        return name
    with named_object(Field(item.value), "Pod"):
        pod = read_gang_pod(item.value, strict=False)
    return "" if pod is None else pod.gang.partition("/")[2]


def _quota(dump: Dump, head: Object, pod: Object, queues: Queues) -> str:
    """Return the quota of a pod, or of its group; "" if it has none."""
    if queues.of_pod is not None:
        return queues.of_pod(pod.value) or ""
    group = dump.read(head, _PodGroup, whole=False) if head is not pod else _PodGroup()
    return queues.users.get(group.queue or _first(pod.meta, _QUEUE_KEYS), "")


def _first(meta: Meta, keys: Iterable[str]) -> str:
    given = {**meta.labels, **meta.annotations}
    return next((given[key] for key in keys if key in given), "")


def _draft(
    dump: Dump,
    name: str,
    quota: str,
    items: Sequence[Object],
    head: Object | None,
    classes: Mapping[str, int],
) -> Draft:
    specs = {item.meta.full: dump.read(item, _Pod, whole=False) for item in items}
    placed = [item for item in items if specs[item.meta.full].node_name]
    if placed and len(placed) < len(items):
        text = f"{len(placed)} of its {len(items)} pods have a node; the others are left out"
        dump.remark("Job", name, text)
    with Field(None, f"Job {name}").named():
        _remark_claims(dump, name, [Field(item.value) for item in items])
        if not placed:
            _remark_nodes(dump, name, [Field(item.value) for item in items])
    alike: dict[tuple[tuple[tuple[str, Fraction], ...], PodSpread], list[str]] = defaultdict(list)
    for item in placed or items:
        with named_object(Field(item.value), "Pod"):
            spread = NO_SPREAD if placed else read_pod_spread(Field(item.value))
        node = specs[item.meta.full].node_name
        alike[tuple(sorted(_requests(dump, item).items())), spread].append(node)
    pods = {
        f"pods-{i}" if i else "pods": (len(on), dict(amounts), spread)
        for i, ((amounts, spread), on) in enumerate(alike.items())
    }
    group = _PodGroup() if head is None else dump.read(head, _PodGroup, whole=not placed)
    priority = max(spec.priority for spec in specs.values())
    if group.priority_class_name:
        priority = classes.get(group.priority_class_name, priority)
        if group.priority_class_name not in classes:
            text = f"its class {group.priority_class_name} is not there; its pods say its priority"
            dump.remark("PodGroup", name, text)
    wish = _Constraint() if placed else group.topology_constraint
    nodes = dict.fromkeys(specs[item.meta.full].node_name for item in placed)
    return Draft(
        name,
        min(str(item.meta.creation_timestamp) for item in items),
        quota,
        pods,
        priority,
        bool(placed),
        tuple(nodes),
        wish.required_topology_level,
        wish.preferred_topology_level,
        _is_preemptible(dump, name, items, head, group, priority),
        {} if placed else _least(dump, name, items, group, pods),
        dict(zip(pods, alike.values(), strict=True)) if placed else {},
    )


def _is_preemptible(
    dump: Dump,
    name: str,
    items: Sequence[Object],
    head: Object | None,
    group: _PodGroup,
    priority: int,
) -> bool:
    for meta in [item.meta for item in (*items, *([head] if head else []))]:
        said = meta.annotations.get(_VOLCANO_LABEL, meta.labels.get(_VOLCANO_LABEL, "true"))
        if meta.labels.get(PREEMPTIBLE) == "false" or said not in _TRUE:
            return False
    said = group.preemptibility or _first(items[0].meta, (_KAI_LABEL,))
    if said == "semi-preemptible":
        dump.remark("Job", name, "is semi-preemptible; here none of its pods is preempted")
    if said in ("preemptible", "non-preemptible", "semi-preemptible"):
        return said == "preemptible"
    heads = [] if head is None else [str(head.value["apiVersion"])]
    is_kai = any("kai.scheduler/queue" in item.meta.labels for item in items)
    is_kai |= any(version.startswith("scheduling.run.ai/") for version in heads)
    return not is_kai or priority < _KAI_STAYS


def _least(
    dump: Dump, name: str, items: Sequence[Object], group: _PodGroup, pods: Iterable[str]
) -> dict[str, int]:
    """Return role -> number of pods with which a gang may start, if these are fewer."""
    said, least = _first(items[0].meta, _LEAST_KEYS), group.min_member
    for key in _UNREAD:
        if _first(items[0].meta, [key]):
            dump.remark("Job", name, f"its {key} is not read")
    if least is None and not said:
        pod = read_gang_pod(items[0].value, strict=False)  # a LeaderWorkerSet's says its size
        least = None if pod is None or pod.spec is None else pod.spec.min_members
    if least is None:
        least = int(said) if said.isdecimal() else len(items)
    if least > len(items):
        text = f"{len(items)} of the {least} pods that it needs are there; here these start"
        dump.remark("Job", name, text)
    if not 0 < least < len(items):
        return {}
    role, *others = pods
    if not others:
        return {role: least}
    text = f"{least} of its {len(items)} pods are enough; here all of them start together"
    dump.remark("Job", name, text)
    return {}


def _requests(dump: Dump, item: Object) -> dict[str, Fraction]:
    with named_object(Field(item.value), "Pod"):
        amounts = pod_requests(Field(item.value))
    if _first(item.meta, _FRACTIONS):
        dump.remark("Pod", item.meta.full, "asks for a part of a GPU; it counts as a whole one")
        given = item.meta.annotations.get(_FRACTION_OF, "1")
        gpus = int(given) if given.isdecimal() else 1
        amounts[dump.gpu] = Fraction(max(gpus, ceil(amounts.get(dump.gpu, 1))))
    return amounts
