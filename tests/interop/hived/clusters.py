"""Small HiveD clusters for the tests: configurations, pods that come, run and go, their requests.

A configuration is written as HiveD's own YAML would be, from a few short words. `Hived` drives a
`HivedScheduler` as a cluster would, and holds every bind against what must always be true: no two
running pods on one GPU, no new placement on a bad or a forbidden node.
"""

import json

from hivecore.interop.hived import HivedScheduler

__all__ = [
    "DOMAIN",
    "FLAT",
    "NOTHING",
    "TREE",
    "Hived",
    "bind",
    "binding",
    "config",
    "filter_request",
    "flat",
    "flat_config",
    "kubernetes_pod",
    "node",
    "nodes",
    "picture",
    "rack",
    "rack_of",
    "racks",
    "spec",
    "walk",
]

# 4 GPUs in a node; the same with racks of two nodes.
FLAT = {"SWITCH": (2, "GPU"), "NODE": (2, "SWITCH")}
TREE = {**FLAT, "RACK": (2, "NODE")}


def config(types, cells, tenants):
    """A HiveD configuration.

    :param types: {"NODE": (4, "GPU")}: so many children of that type; nodes end in NODE.
    :param cells: entries of `physicalCells`: see `rack`, `node`.
    :param tenants: {"A": {"RACK.NODE": 2}}, or {"A": ({"RACK.NODE": 2}, ["pin"])}.
    """
    virtual_clusters = {}
    for tenant, owned in tenants.items():
        counts, pins = owned if isinstance(owned, tuple) else (owned, ())
        virtual_clusters[tenant] = {
            "virtualCells": [
                {"cellType": path, "cellNumber": count} for path, count in counts.items()
            ],
            "pinnedCells": [{"pinnedCellId": pin} for pin in pins],
        }
    cell_types = {
        name: {
            "childCellType": child,
            "childCellNumber": number,
            "isNodeLevel": name.endswith("NODE"),
        }
        for name, (number, child) in types.items()
    }
    return {
        "physicalCluster": {"cellTypes": cell_types, "physicalCells": list(cells)},
        "virtualClusters": virtual_clusters,
    }


def node(name, cell_type="NODE", **more):
    """A top-level cell that is a node."""
    return {"cellType": cell_type, "cellAddress": name, **more}


def nodes(*names):
    return [node(name) for name in names]


def rack(*names, cell_type="RACK", **pins):
    """A top-level cell of nodes; `n1="pin"` pins that node."""
    children = [
        {"cellAddress": name, **({"pinnedCellId": pins[name]} if name in pins else {})}
        for name in names
    ]
    return {"cellType": cell_type, "cellChildren": children}


def walk(cells):
    """Every cell of some trees of the inspect API, parents first."""
    for cell in cells:
        yield cell
        yield from walk(cell.get("cellChildren") or cell.get("children") or ())


def flat_config(count=4, tenants=None):
    """Nodes n0, n1, ... of 4 GPUs; by default A owns two of them and B one."""
    names = (f"n{i}" for i in range(count))
    return config(FLAT, nodes(*names), tenants or {"A": {"NODE": 2}, "B": {"NODE": 1}})


def spec(vc="A", number=4, group=None, members=None, **more):
    """A pod scheduling spec; `more` are its other keys as HiveD writes them."""
    pod_spec = {"virtualCluster": vc, "leafCellNumber": number} | more
    if group is not None:
        members = members or [(1, number)]
        pod_spec["affinityGroup"] = {
            "name": group,
            "members": [{"podNumber": pods, "leafCellNumber": leaves} for pods, leaves in members],
        }
    return pod_spec


def bind(scheduler, pod, request, **more):
    """Schedule and allocate a pod that must bind; its (node, leaf cells)."""
    decision = scheduler.schedule(pod, request, **more)
    assert decision.outcome == "bind", decision
    scheduler.allocate(pod)
    scheduler.check()
    return decision.node, tuple(decision.leaf_cells)


def picture(scheduler):
    """All that can be seen of a scheduler."""
    return scheduler.status(), scheduler.affinity_groups(), scheduler.free_cells()


# --- what kube-scheduler sends

DOMAIN = "hivedscheduler.microsoft.com"


#: by verb what an extender answers beside an error
NOTHING = {
    "filter": {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
    },
    "bind": {},
    "preempt": {"NodeNameToMetaVictims": {}},
}


def assert_same(scheduler):
    """Every part of the JSON is what the plain data are, and has no spaces."""
    status = scheduler.status()
    drawn = scheduler.status_json()
    assert json.loads(drawn) == status
    assert len(drawn) == len(json.dumps(status, separators=(",", ":")))
    assert json.loads(scheduler.status_json("physical")) == scheduler.physical_cluster()
    virtual = scheduler.virtual_clusters()
    assert json.loads(scheduler.status_json("virtual")) == virtual
    for name, trees in virtual.items():
        assert json.loads(scheduler.virtual_cluster_json(name)) == trees


def kubernetes_pod(name, text=None, **more):
    """A pod of the namespace x; its spec is the text, or four GPUs of A with what is said."""
    text = json.dumps(spec(**more)) if text is None else text
    annotations = {f"{DOMAIN}/pod-scheduling-spec": text}
    return {
        "metadata": {"name": name, "namespace": "x", "uid": f"u-{name}", "annotations": annotations}
    }


def binding(name, node):
    """What the bind verb gets of such a pod."""
    return {"PodName": name, "PodNamespace": "x", "PodUID": f"u-{name}", "Node": node}


def filter_request(name, **more):
    return {"Pod": kubernetes_pod(name, **more), "NodeNames": ["n1", "n2"]}


# --- clusters that run


class Hived:
    """A scheduler and its pods; a pod's group is named after the part before the slash."""

    def __init__(self, configuration, **options):
        self.scheduler = HivedScheduler(configuration, **options)
        self.specs = {}
        self.running = {}
        self.bad = set()

    @staticmethod
    def spec(pod, vc, leaves, priority=0, *, members=None, lazy=False, ignore=None, **more):
        """The spec of a pod of the group that its name says."""
        if ignore is not None:
            more["ignoreK8sSuggestedNodes"] = ignore
        more |= {"priority": priority, "lazyPreemptionEnable": lazy}
        return spec(vc, leaves, pod.partition("/")[0], members, **more)

    def ask(self, pod, vc, leaves, priority=0, *, phase="Filtering", suggested=None, **more):
        """What the scheduler decides about a pod."""
        return self.decide(pod, self.spec(pod, vc, leaves, priority, **more), phase, suggested)

    def decide(self, pod, spec, phase="Filtering", suggested=None):
        self.specs[pod] = spec
        decision = self.scheduler.schedule(pod, spec, phase=phase, suggested_nodes=suggested)
        assert decision.outcome in ("bind", "preempt", "wait")
        if decision.outcome == "wait":
            assert decision.reason
        if decision.outcome == "preempt":
            assert decision.victims
            assert set(decision.victims) <= set(self.running)
            by_node = decision.victims_by_node
            assert sorted(p for ps in by_node.values() for p in ps) == sorted(decision.victims)
            for name, pods in by_node.items():
                assert {self.running[victim].node for victim in pods} == {name}
        return decision

    def preempting(self, pod, vc, leaves, priority=0, **more):
        """The decision of the preempting phase."""
        return self.ask(pod, vc, leaves, priority, phase="Preempting", **more)

    def allocate(self, pod, decision, *, insists=False):
        """Run a pod where the last decision put it (a retried member insists on its place)."""
        assert decision.outcome == "bind", (pod, decision.outcome, decision.reason)
        spec = self.specs[pod]
        assert len(decision.leaf_cells) == len(set(decision.leaf_cells)) == spec["leafCellNumber"]
        assert insists or decision.node not in self.bad
        mine = self.gpus(decision)
        for other, theirs in self.running.items():
            assert not mine & self.gpus(theirs), (pod, other)
        self.scheduler.allocate(pod)
        self.running[pod] = decision
        return decision

    @staticmethod
    def gpus(decision):
        return {(decision.chain, decision.node, leaf) for leaf in decision.leaf_cells}

    def run(self, pod, vc, leaves, priority=0, **more):
        """Schedule a pod, which must be possible at once, and run it."""
        return self.allocate(pod, self.ask(pod, vc, leaves, priority, **more))

    def gang(self, name, vc, members, priority=0, **more):
        """Run a gang: its pods are "<name>/0", ... in the order of its members."""
        sizes = [size for number, size in members for _ in range(number)]
        return [
            self.run(f"{name}/{i}", vc, size, priority, members=members, **more)
            for i, size in enumerate(sizes)
        ]

    def evict(self, pod, vc, leaves, priority=0, **more):
        """Run a pod after its victims, if any, have been deleted; returns the victims."""
        decision = self.preempting(pod, vc, leaves, priority, **more)
        victims = list(decision.victims) if decision.outcome == "preempt" else []
        if victims:
            self.gone(*victims)
            decision = self.preempting(pod, vc, leaves, priority, **more)
        self.allocate(pod, decision)
        return victims

    def claim(self, vc, *sizes, name="claim", **more):
        """A tenant takes what it owns: such pods run, at the cost of no guaranteed pod."""
        for i, size in enumerate(sizes):
            guaranteed = {pod for pod in self.running if self.group(pod)["guaranteed"]}
            victims = self.evict(f"{name}-{vc}-{i}", vc, size, **more)
            assert not guaranteed & set(victims)

    def gone(self, *pods):
        for pod in pods:
            self.scheduler.delete(pod)
            self.running.pop(pod, None)

    def fail(self, *names):
        for name in names:
            self.scheduler.set_node(name, False)
            self.bad.add(name)

    def heal(self, *names):
        for name in names:
            self.scheduler.set_node(name, True)
            self.bad.discard(name)

    def group(self, pod):
        """The affinity group of a pod (or of that name), or None."""
        return self.scheduler.affinity_group(pod.partition("/")[0])

    def state(self, pod):
        return self.group(pod)["state"]

    def free(self):
        """The canonical free lists without their empty entries."""
        return {
            (chain, cell_type): sorted(addresses)
            for chain, by_type in self.scheduler.free_cells().items()
            for cell_type, addresses in by_type.items()
            if addresses
        }

    def unused(self, vc):
        """Preassigned cells of a tenant that are not in use, without zeros."""
        return {
            (chain, cell_type): count
            for chain, by_type in self.scheduler.unused_cells().get(vc, {}).items()
            for cell_type, count in by_type.items()
            if count
        }

    def restarted(self, configuration, order=None, bad=(), **options):
        """A new scheduler that has recovered the running pods, in the order given."""
        records = {pod: self.scheduler.bind_info(pod) for pod in self.running}
        new = Hived(configuration, **options)
        new.fail(*bad)
        for pod in self.running if order is None else order:
            new.specs[pod] = self.specs[pod]
            new.scheduler.recover(pod, self.specs[pod], records[pod])
            new.running[pod] = self.running[pod]
        return new


def flat(count, tenants, **options):
    """Nodes n0, n1, ... of 4 GPUs."""
    return Hived(flat_config(count, tenants), **options)


def racks(count, tenants, types=TREE):
    """Racks of two nodes: (n0, n1), (n2, n3), ..."""
    cells = [rack(f"n{2 * i}", f"n{2 * i + 1}") for i in range(count)]
    return Hived(config(types, cells, tenants))


def rack_of(name):
    return int(name[1:]) // 2
