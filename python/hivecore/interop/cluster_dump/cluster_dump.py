"""Turns kubectl's dump of a cluster into the file of a scheduler with the same queues and nodes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from hivecore._arguments import as_name, as_text
from hivecore.errors import StaleDecisionError
from hivecore.interop.cluster_dump._jobs import Priorities, drafts_of
from hivecore.interop.cluster_dump._kai import KAI_QUEUE, read_kai
from hivecore.interop.cluster_dump._koordinator import ELASTIC_QUOTA, read_koordinator
from hivecore.interop.cluster_dump._kueue import CLUSTER_QUEUE, read_kueue, used_flavors
from hivecore.interop.cluster_dump._nodes import Hosts, read_hosts
from hivecore.interop.cluster_dump._objects import Dump
from hivecore.interop.cluster_dump._queues import Queues
from hivecore.interop.cluster_dump._volcano import VOLCANO_QUEUE, read_volcano
from hivecore.interop.kubernetes.documents import Objects
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.interop.kubernetes.problems import ConfigError
from hivecore.scheduler import EvictionLimit, Job, PlacedPod, Reject, Scheduler, Wait, Where

__all__ = ["ClusterDump"]

_SYSTEMS = {
    CLUSTER_QUEUE: "Kueue",
    VOLCANO_QUEUE: "Volcano",
    KAI_QUEUE: "KAI-Scheduler",
    ELASTIC_QUOTA: "Koordinator",
}
#: Kinds of these API groups that are not read are named in remarks.
_OF_SCHEDULERS = re.compile(r"\w+\.(.*\.)?(kueue\.x-k8s\.io|volcano\.sh|run\.ai|kai\.scheduler)")
_ARE_READ = re.compile(
    "(ClusterQueue|Cohort|LocalQueue|ResourceFlavor|Topology|Workload|WorkloadPriorityClass|"
    "Configuration|Queue|PodGroup|BindRequest)\\."
)
_FIRST = re.compile(
    r"\ufeff?\s*(?:(?:#|---|Warning: )[^\n]*\n\s*)*(?:\[|- )?\s*\{?\s*"
    r"[\"']?(?:apiVersion|kind|items|metadata)\b"
)
_KIND = re.compile(r"[\"']?\bkind[\"']?\s*:\s*[\"']?(?:ClusterQueue|Queue|ElasticQuota|Node)\b")


@dataclass(frozen=True, slots=True)
class ClusterDump:
    """The nodes, queues and jobs of a cluster.

    :param system: whose queues they are: "Kueue", "Volcano", "KAI-Scheduler" or "Koordinator".
    :param sections: the scheduler's file as plain data.
    :param queues: queue that jobs name ("namespace/name" of a LocalQueue, or the quota's name) ->
        quota.
    :param unhealthy: nodes that are cordoned or not ready.
    :param running: jobs that run, oldest first, each with its nodes if they are known.
    :param waiting: jobs that wait, oldest first.
    :param priorities: priority class -> priority of jobs.
    :param remarks: what differs from the cluster, a sentence each.
    :param places: running job -> where each of its pods runs, if that is known.

    >>> from hivecore.interop.cluster_dump import ClusterDump
    >>> dump = ClusterDump.read('''
    ... apiVersion: v1
    ... kind: Node
    ... metadata: {name: n1}
    ... status: {allocatable: {nvidia.com/gpu: 8}}
    ... ---
    ... apiVersion: scheduling.run.ai/v2
    ... kind: Queue
    ... metadata: {name: team-a}
    ... spec: {priority: 200, resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}}}
    ... ''')
    >>> dump.system, dump.sections["tenants"]["team-a"]["quota"]["min"]["gpu"]
    ('KAI-Scheduler', '4')
    >>> dump.remarks
    ('Queue team-a: priority does not count; what is spare is shared by weight',)
    """

    system: str
    sections: Mapping[str, Any]
    queues: Mapping[str, str]
    unhealthy: tuple[str, ...]
    running: tuple[Job, ...]
    waiting: tuple[Job, ...]
    priorities: Mapping[str, int]
    remarks: tuple[str, ...]
    places: Mapping[str, tuple[PlacedPod, ...]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        objects: Objects,
        *,
        flavor: str = "",
        gpu: str = "nvidia.com/gpu",
        fair_sharing: bool | None = None,
    ) -> Self:
        """Read a cluster's objects.

        :param objects: Nodes, the queues of one system, and its jobs (Workloads, or pods with
            PodGroups), as ``kubectl get -A -o yaml`` prints them or as plain data. Unrelated kinds
            are ignored.
        :param flavor: of Kueue: the only ResourceFlavor whose quotas and nodes count; "" adds up
            all.
        :param gpu: the resource that stands for whole GPUs.
        :param fair_sharing: whether Kueue uses it; ``None`` takes it from the Configuration.
        :raises ValueError: a value is out of range, missing or listed twice; there are no nodes, no
            queues, or queues of several systems. The message has the object and the path.
        :raises TypeError: a field has a wrong type.
        :raises ImportError: PyYAML is needed to read text.

        Cost: O(objects). Reading YAML takes much longer than JSON.
        """
        dump = Dump.of(objects, as_name(gpu, "gpu"))
        system = _system(dump)
        if as_text(flavor, "flavor") and system != "Kueue":
            raise ValueError(f"flavor: {system} has no flavors")
        hosts, queues = _read(dump, system, flavor, fair_sharing)
        for kind in [kind for kind, items in dump.kinds.items() if items]:
            if _OF_SCHEDULERS.match(kind) and not _ARE_READ.match(kind):
                dump.remark(kind.partition(".")[0], "", "objects of this kind are not read")
        counted = {name: None for quota in queues.quotas for name, _ in quota.max}
        known = {*counted, *({"cpu", "memory"} & hosts.total.keys())}
        drafts = drafts_of(dump, queues, flavor)
        priorities = Priorities(dump, drafts)
        jobs = [
            (draft.running, draft.job(dump, priorities[draft.priority], known, hosts.layers))
            for draft in drafts
        ]
        return cls(
            system,
            {"cluster": hosts.section(counted), **queues.sections(), "devices": {}},
            dict(queues.users),
            tuple(name for name, host in hosts.hosts.items() if not host.healthy),
            tuple(job for running, job in jobs if running),
            tuple(job for running, job in jobs if not running),
            {name: priorities[value] for name, value in priorities.classes.items()},
            dump.remarks,
            {job_name(draft.name): draft.placed for draft in drafts if draft.places},
        )

    @classmethod
    def of_yaml(cls, text: str, name: str, **options: Any) -> Self:
        """As `read`, for a text.

        :param name: of the text's file, for messages.
        :param options: of `read`.
        :raises ConfigError: the text cannot be used.
        """
        try:
            return cls.read(text, **options)
        except (TypeError, ValueError) as error:
            raise ConfigError([(name, str(error))]) from None

    @staticmethod
    def recognises(text: str) -> bool:
        """Whether a text looks like Kubernetes objects with a node or a queue among them.

        Queues are the kinds ClusterQueue, Queue and ElasticQuota.

        >>> from hivecore.interop.cluster_dump import ClusterDump
        >>> ClusterDump.recognises("kind: Node"), ClusterDump.recognises("cluster: {}")
        (True, False)
        """
        return bool(_FIRST.match(as_text(text, "text")) and _KIND.search(text))

    @property
    def text(self) -> str:
        """Return the scheduler's file, with the remarks as comments.

        :raises ImportError: PyYAML is missing.
        """
        import yaml

        comments = [f"# {remark}\n" for remark in (f"Of {self.system}'s objects.", *self.remarks)]
        return "".join(comments) + yaml.safe_dump(
            dict(self.sections), sort_keys=False, default_flow_style=None, width=100
        )

    def fill(self, scheduler: Scheduler) -> tuple[str, ...]:
        """Start the cluster's running jobs in a scheduler, submit the waiting ones, and return
        remarks.

        :param scheduler: has the same sections, no jobs, and time 0.
        :raises ValueError: as in `Scheduler.submit`.

        Jobs are placed on their own nodes first, where these are known and have room, then the
        others anywhere. No running job is evicted for another one. Unhealthy nodes are closed
        afterwards. Cost: a decision for each running job, two for those that are placed elsewhere.
        """
        remarks, refused = [], {}
        limits = scheduler.eviction_limits
        scheduler.set_eviction_limits([EvictionLimit(min_run_time=1.0)], now=0.0)
        try:
            for job in sorted(self.running, key=lambda job: not job.where.nodes):
                unfit = ""
                if pods := self.places.get(job.name):
                    try:
                        scheduler.adopt(job, pods, now=0.0)
                        continue
                    except (ValueError, StaleDecisionError) as error:
                        unfit = str(error)
                if refusal := _starts(scheduler, job):
                    refused[job] = refusal
                elif unfit:
                    remarks.append(f"Job {job.name}: not all pods are on their nodes here: {unfit}")
            for job, refusal in refused.items():
                anywhere = job.replace(where=Where())
                moved = bool(job.where.nodes) and not _starts(scheduler, anywhere)
                text = f"runs {'on other nodes' if moved else 'in the cluster, but not'} here"
                remarks.append(f"Job {job.name}: {text}: {refusal}")
        finally:
            scheduler.set_eviction_limits(limits, now=0.0)
        for node in self.unhealthy:
            scheduler.set_node(node, False, now=0.0)
        for job in self.waiting:
            if not scheduler.spreads(job):
                remarks.append(f"Job {job.name}: no part keeps its pods on different nodes")
                job = job.replace(roles=[role.replace(per_node=None) for role in job.roles])
            scheduler.submit(job, now=0.0)
        return tuple(remarks)


def _starts(scheduler: Scheduler, job: Job) -> str:
    """Start the job; if that fails, drop it and return why."""
    scheduler.submit(job, now=0.0)
    reasons = [a.reason for a in scheduler.decide(now=0.0) if isinstance(a, Wait | Reject)]
    if job.name in scheduler and scheduler.state(job.name) == "running":
        return ""
    if job.name in scheduler:
        scheduler.cancel(job.name, now=0.0)
    return reasons[-1] if reasons else "it waits"


def _system(dump: Dump) -> str:
    systems = [system for kind, system in _SYSTEMS.items() if dump.kinds.get(kind)]
    if len(systems) > 1:
        raise ValueError(f"there are queues of {' and '.join(systems)}: give those of one system")
    if not systems:
        raise ValueError(
            "there is no ClusterQueue of Kueue, no Queue of Volcano or KAI-Scheduler, and no "
            "ElasticQuota of Koordinator"
        )
    return systems[0]


def _read(dump: Dump, system: str, flavor: str, fair_sharing: bool | None) -> tuple[Hosts, Queues]:
    if system != "Kueue":
        hosts = read_hosts(dump, ())
        readers = {"Volcano": read_volcano, "KAI-Scheduler": read_kai}
        return hosts, readers.get(system, read_koordinator)(dump, hosts.total)
    flavors = used_flavors(dump)
    if flavor and flavor not in flavors:
        known = ", ".join(sorted(flavors))
        raise ValueError(f"flavor: no queue has a quota of {flavor!r}, there are {known}")
    queues = read_kueue(dump, flavor, fair_sharing)
    return read_hosts(dump, [flavor] if flavor else sorted(flavors)), queues
