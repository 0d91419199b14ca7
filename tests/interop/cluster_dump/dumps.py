"""Objects in the shape in which kubectl prints them, defaults of the API server included."""

from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.scheduler_file import SchedulerSpec

KUEUE = "kueue.x-k8s.io/v1beta1"
GPU = "nvidia.com/gpu"
BLOCK, RACK, HOST = "cloud/block", "cloud/rack", "kubernetes.io/hostname"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def thing(version, kind, name, spec=None, **metadata):
    space = {"namespace": metadata.pop("namespace")} if "namespace" in metadata else {}
    meta = {"name": name, **space, **metadata, "resourceVersion": "81", "managedFields": []}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}}


def node(name, gpus=8, labels=(), ready="True", spec=None, **amounts):
    thing_ = thing("v1", "Node", name, spec, labels={HOST: name, **H100, **dict(labels)})
    allocatable = {"cpu": "190500m", "memory": "2063937Mi", "pods": "110", "ephemeral-storage": "1"}
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    thing_["status"] = {"allocatable": {**allocatable, GPU: str(gpus)} | amounts}
    thing_["status"]["conditions"] = conditions
    return thing_


NODES = [node(f"gpu-{i}", labels={BLOCK: "b1", RACK: f"r{i // 2}"}) for i in range(4)]
LEVELS = [{"nodeLabel": level} for level in (BLOCK, RACK, HOST)]


def groups(nominal, flavor="h100", resource=GPU, **limits):
    quota = {"name": resource, "nominalQuota": nominal, **limits}
    return [{"coveredResources": [resource], "flavors": [{"name": flavor, "resources": [quota]}]}]


def cluster_queue(name, nominal, cohort=None, preemption=None, version=KUEUE, spec=(), **limits):
    key = "cohort" if version.endswith("v1beta1") else "cohortName"
    policies = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    full = {
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
        "namespaceSelector": {},
        "preemption": {"borrowWithinCohort": {"policy": "Never"}, **(preemption or policies)},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": groups(nominal, **limits),
        "stopPolicy": "None",
        **dict(spec),
    }
    return thing(version, "ClusterQueue", name, full | ({key: cohort} if cohort else {}))


def flavor(name="h100", labels=(), **more):
    return thing(KUEUE, "ResourceFlavor", name, {"nodeLabels": dict(labels), **more})


def workload(name, queue, gpus=8, pods=1, running="", nodes=None, priority=0, **metadata):
    requests = {"limits": {GPU: str(gpus)}, "requests": {"cpu": "8", GPU: str(gpus)}}
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": requests}]}}
    space, _, local = queue.partition("/")
    sets = [{"name": "main", "count": pods, "template": template}]
    thing_ = thing(KUEUE, "Workload", name, {"queueName": local, "podSets": sets, "active": True},
                 namespace=space, **metadata)  # fmt: skip
    thing_["spec"]["priority"] = priority
    if running:
        part = {"name": "main", "count": pods, "flavors": {GPU: "h100"}}
        if nodes:
            domains = [{"values": [name], "count": count} for name, count in nodes.items()]
            part["topologyAssignment"] = {"levels": [HOST], "domains": domains}
        admission = {"clusterQueue": running, "podSetAssignments": [part]}
        conditions = [{"type": "Admitted", "status": "True", "reason": "Admitted"}]
        thing_["status"] = {"admission": admission, "conditions": conditions}
    return thing_


def read(*objects, **options):
    return ClusterDump.read({"apiVersion": "v1", "kind": "List", "items": list(objects)}, **options)


def spec_of(*objects):
    return SchedulerSpec.of_yaml(read(*objects).text)


def numbers(dump, resource="gpu"):
    """By quota its parent, minimum, maximum and weight of a resource."""
    tree = SchedulerSpec.of_yaml(dump.text).quotas
    quotas = {name: tree.quota(name) for name in tree.quotas}
    return {
        name: (
            quota.parent,
            *(dict(part)[resource] for part in (quota.min, quota.max, quota.weight)),
        )
        for name, quota in quotas.items()
    }
