"""Reads Kueue's ClusterQueues, Cohorts and LocalQueues as quotas.

A ClusterQueue is a quota with its nominal quota as `min`, and its nominal quota plus the borrowing
limit as `max`. A cohort is the parent quota, with the sum of its nominal quotas. In Kueue's
classical preemption a queue only reclaims its nominal quota, so quotas have no weight and may use
whatever is idle (`limit: max`). With fair sharing, quotas have weights.
"""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from msgspec import field as default

from hivecore.interop.cluster_dump._kueue_tree import (
    Group,
    Member,
    member_of,
    quotas_of,
    weight_of,
)
from hivecore.interop.cluster_dump._objects import Dump, Schema
from hivecore.interop.cluster_dump._queues import Queues
from hivecore.interop.koordinator.quotas.amounts import MOST
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kueue.names import GROUP

__all__ = ["CLUSTER_QUEUE", "read_kueue", "used_flavors"]

CLUSTER_QUEUE = f"ClusterQueue.{GROUP}"
_COHORT = f"Cohort.{GROUP}"
_LOCAL_QUEUE = f"LocalQueue.{GROUP}"
_CONFIGURATION = "Configuration.config.kueue.x-k8s.io"

_Stop = Literal["None", "Hold", "HoldAndDrain"]


class _FairSharing(Schema, frozen=True):
    weight: Fraction = Fraction(1)


class _Borrowing(Schema, frozen=True):
    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: int | None = None


class _Preemption(Schema, frozen=True):
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: _Borrowing = _Borrowing()
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"


class _ClusterQueue(Schema, frozen=True):
    resource_groups: tuple[Group, ...] = ()
    cohort: str = ""  # v1beta1
    cohort_name: str = ""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    preemption: _Preemption = _Preemption()
    flavor_fungibility: dict[str, Any] = default(default_factory=dict)
    fair_sharing: _FairSharing = _FairSharing()
    stop_policy: _Stop = "None"

    @property
    def parent(self) -> str:
        return self.cohort_name or self.cohort


class _Cohort(Schema, frozen=True):
    resource_groups: tuple[Group, ...] = ()
    parent: str = ""  # v1alpha1
    parent_name: str = ""
    fair_sharing: _FairSharing = _FairSharing()


class _LocalQueue(Schema, frozen=True):
    cluster_queue: str = ""
    stop_policy: _Stop = "None"


_RECLAIM = {
    "Never": "preemption.reclaimWithinCohort is Never; here it takes back what it has lent",
    "LowerPriority": "preemption.reclaimWithinCohort is LowerPriority; here it takes back what it "
    "has lent from jobs of any priority",
}
_WITHIN = {
    "Never": "preemption.withinClusterQueue is Never; here jobs of lower priority in the same "
    "queue may have to leave",
    "LowerOrNewerEqualPriority": "preemption.withinClusterQueue is LowerOrNewerEqualPriority; here "
    "only jobs of lower priority have to leave",
}
_BORROW = (
    "preemption.borrowWithinCohort is LowerPriority; here no job of another queue has to leave for "
    "a job that borrows"
)


def read_kueue(dump: Dump, flavor: str, fair_sharing: bool | None) -> Queues:
    """Return the queues.

    :param flavor: the only flavor that counts; "" adds up all flavors.
    :param fair_sharing: whether Kueue uses it; ``None`` takes it from its Configuration.
    """
    items = {item.meta.name: item for item in dump.kinds[CLUSTER_QUEUE]}
    queues = {name: dump.read(item, _ClusterQueue) for name, item in items.items()}
    members = _cohorts(dump, queues, flavor)
    for name, spec in queues.items():
        is_stopped = spec.stop_policy != "None"
        member = member_of(dump, items[name], spec.resource_groups, flavor, is_stopped)
        if "namespaceSelector" not in items[name].value.get("spec", {}):
            text = "has no namespaceSelector, so Kueue admits nothing to it; here jobs of it start"
            dump.remark("ClusterQueue", name, text)
        if is_stopped:
            dump.remark("ClusterQueue", name, "is stopped; no job of it starts, it only lends")
        member.is_queue = True
        member.parent = _called(spec.parent, queues)
        member.weight = spec.fair_sharing.weight
        members[name] = member
    fair = _is_fair(dump, members) if fair_sharing is None else fair_sharing
    result = Queues("Kueue", quotas_of(dump, members, fair) if queues else [])
    result.total = _total(result)
    result.strict = {n for n, spec in queues.items() if spec.queueing_strategy == "StrictFIFO"}
    if fair:
        result.order = "weighted"
        result.weights = {name: max(1, weight_of(members[name])) for name in queues}
        dump.remark("Kueue", "", "fair shares are of each resource alone, not of the dominant one")
    result.preemption = _reads_preemption(dump, queues)
    result.users = {name: name for name in queues} | _local_queues(dump, queues)
    return result


def used_flavors(dump: Dump) -> set[str]:
    """Return the flavors for which a queue has a quota."""
    specs = [dump.read(item, _ClusterQueue, whole=False) for item in dump.kinds[CLUSTER_QUEUE]]
    groups = [group for spec in specs for group in spec.resource_groups]
    return {part.name for group in groups for part in group.flavors}


def _called(cohort: str, queues: Mapping[str, Any]) -> str:
    """Return the quota's name for a cohort, which may be called like a queue."""
    return f"cohort/{cohort}" if cohort in queues else cohort


def _cohorts(dump: Dump, queues: Mapping[str, _ClusterQueue], flavor: str) -> dict[str, Member]:
    """Return the cohorts; those without an object have no resources of their own."""
    members: dict[str, Member] = {}
    for item in dump.kinds[_COHORT]:
        spec = dump.read(item, _Cohort)
        member = member_of(dump, item, spec.resource_groups, flavor)
        member.parent = _called(spec.parent_name or spec.parent, queues)
        member.weight = spec.fair_sharing.weight
        members[_called(item.meta.name, queues)] = member
    named = [member.parent for member in members.values()]
    named += [_called(spec.parent, queues) for spec in queues.values()]
    return {name: Member() for name in named if name} | members


def _total(result: Queues) -> dict[str, Any]:
    """Return the sum of the top quotas."""
    total: dict[str, Any] = defaultdict(int)
    for quota in result.quotas:
        for name, amount in quota.max if not quota.parent else ():
            total[name] = min(MOST, total[name] + amount)
    return dict(total)


def _is_fair(dump: Dump, members: Mapping[str, Member]) -> bool:
    """Whether Kueue's Configuration enables fair sharing; without one it is off."""
    for item in dump.kinds[_CONFIGURATION]:
        sharing = item.value.get("fairSharing")
        # v1beta1 has `enable`, false unless given; later versions are on if the section is there.
        default_of_version = not item.value["apiVersion"].endswith("/v1beta1")
        return isinstance(sharing, Mapping) and sharing.get("enable", default_of_version) is True
    if any(member.weight != 1 for member in members.values()):
        text = "fairSharing.weight counts with fair sharing alone, which is taken to be off, as the"
        dump.remark("Kueue", "", f"{text} objects have no Configuration of Kueue")
    return False


def _reads_preemption(dump: Dump, queues: Mapping[str, _ClusterQueue]) -> bool:
    """Whether any queue preempts; remarks name queues whose preemption differs."""
    policies = {name: spec.preemption for name, spec in queues.items()}
    if all(_preempts_never(policy) for policy in policies.values()):
        return False
    for name, policy in policies.items():
        if queues[name].parent and policy.reclaim_within_cohort in _RECLAIM:
            dump.remark("ClusterQueue", name, _RECLAIM[policy.reclaim_within_cohort])
        if policy.within_cluster_queue in _WITHIN:
            dump.remark("ClusterQueue", name, _WITHIN[policy.within_cluster_queue])
        if policy.borrow_within_cohort.policy != "Never":
            dump.remark("ClusterQueue", name, _BORROW)
    return True


def _preempts_never(policy: _Preemption) -> bool:
    return {policy.reclaim_within_cohort, policy.within_cluster_queue} == {"Never"}


def _local_queues(dump: Dump, queues: Mapping[str, _ClusterQueue]) -> dict[str, str]:
    """Return "namespace/name" -> ClusterQueue."""
    users = {}
    for item in dump.kinds[_LOCAL_QUEUE]:
        spec = dump.read(item, _LocalQueue)
        if spec.cluster_queue not in queues:
            text = f"there is no ClusterQueue {show(spec.cluster_queue)}"
            dump.remark("LocalQueue", item.meta.full, text)
        elif spec.stop_policy != "None":
            dump.remark("LocalQueue", item.meta.full, "is stopped; no job of it is read")
        else:
            users[item.meta.full] = spec.cluster_queue
    return users
