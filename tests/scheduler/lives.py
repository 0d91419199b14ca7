"""Small clusters under a scheduler, and a ledger that knows only events and actions.

The ledger follows from events and actions alone: which jobs run where, and which have to stop for
which. It knows the inventory of nodes and the limits of quotas, and shares no code with any part.
"""

from contextlib import suppress

from dra.worlds import device, device_class, object_of, published_slice

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.dra import DraCluster, KubernetesFeatures
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    Job,
    Move,
    Preempt,
    Promote,
    Reject,
    Role,
    Scheduler,
    SetCache,
    SetRemoteIO,
    Sharing,
    Start,
    Stop,
    StoragePool,
    Wait,
    Where,
)
from hivecore.topology import NetworkTopology

NODES = tuple(f"n{i}" for i in range(4))
#: with those that may come later
ALL_NODES = tuple(f"n{i}" for i in range(6))
RACKS = {node: f"r{i // 2}" for i, node in enumerate(ALL_NODES)}
TENANTS = ("a", "b")
GPUS = 4
NICS = 2

#: Compositions of a scheduler.
COMPOSITIONS = {
    "queues": (),
    "quotas": ("quotas",),
    "cells": ("cells",),
    "topology": ("topology",),
    "devices": ("devices",),
    "quotas and cells": ("quotas", "cells"),
    "quotas and devices": ("quotas", "devices"),
    "topology and devices": ("topology", "devices"),
    "cells and devices": ("cells", "devices"),
    "quotas, topology and devices": ("quotas", "topology", "devices"),
    "quotas, cells and devices": ("quotas", "cells", "devices"),
    "topology and storage": ("topology", "storage"),
    "all with cells": ("quotas", "cells", "devices", "storage"),
    "lending": ("cells", "lending"),
    "lending and sharing": ("cells", "lending", "sharing"),
    "quotas and lending": ("quotas", "cells", "lending"),
    "all with lending": ("quotas", "cells", "devices", "storage", "lending"),
    "topology and sharing": ("topology", "sharing"),
    "cells and sharing": ("cells", "sharing"),
    "quotas, topology, devices and sharing": ("quotas", "topology", "devices", "sharing"),
    "all with cells and sharing": ("quotas", "cells", "devices", "storage", "sharing"),
}
#: The same with device claims.
CLAIMED = {
    "claims": ("claims",),
    "devices and claims": ("devices", "claims"),
    "quotas, topology and claims": ("quotas", "topology", "claims"),
    "quotas, cells, devices and claims": ("quotas", "cells", "devices", "claims"),
}


def quota_tree(limit="runtime", **settings):
    return QuotaTree(
        [
            Quota("all", max={"gpu": 16}),
            Quota("a", max={"gpu": 16}, min={"gpu": 8}, parent="all"),
            Quota("b", max={"gpu": 12}, min={"gpu": 8}, parent="all"),
        ],
        total={"gpu": 16},
        limit=limit,
        **settings,
    )


def gpu_quotas(total, limit="runtime", **quotas):
    """A tree of quotas, each with its maximum of GPUs, or with maximum and minimum."""
    given = [
        Quota(name, max={"gpu": most[0]}, min={"gpu": most[1]})
        if isinstance(most, tuple)
        else Quota(name, max={"gpu": most})
        for name, most in quotas.items()
    ]
    return QuotaTree(given, total={"gpu": total}, limit=limit)


def racks(nodes):
    return Chain(["gpu", "pair", "node", "rack"], [2, 2, 2], len(nodes) // 2, nodes=nodes)


OWNED = {"a": {"c": {"rack": 1}}, "b": {"c": {"node": 1, "pair": 1}}}
LESS = {"a": {"c": {"node": 1}}, "b": {"c": {"pair": 1}}}
#: Specifications of cells.
SPECS = {
    "as before": ClusterSpec({"c": racks(NODES)}, OWNED),
    "a has less": ClusterSpec({"c": racks(NODES)}, LESS),
    "b has all": ClusterSpec({"c": racks(NODES)}, {"a": {}, "b": {"c": {"rack": 2}}}),
    "b is gone": ClusterSpec({"c": racks(NODES)}, {"a": {"c": {"rack": 1}}}),
    "a rack less": ClusterSpec({"c": racks(NODES[:2])}, LESS),
    "a rack more": ClusterSpec({"c": racks(ALL_NODES)}, OWNED),
    "no racks": ClusterSpec({"c": Chain(["gpu", "pair", "node"], [2, 2], 4, nodes=NODES)}, LESS),
    "two chains": ClusterSpec(
        {"d": racks(NODES[2:]), "c": racks(NODES[:2])}, {**LESS, "b": {"d": {"rack": 1}}}
    ),
}


def cell_cluster(evictions="packing"):
    return CellCluster(SPECS["as before"], evictions=evictions)


def node_cells(nodes, gpus=4, **owned):
    """Cells of these nodes, or of so many, and how many nodes each tenant owns."""
    names = [] if isinstance(nodes, int) else list(nodes)
    chain = Chain(["gpu", "node"], [gpus], len(names) or nodes, nodes=names or None)
    owners = {name: {"c": {"node": most}} if most else {} for name, most in owned.items()}
    return CellCluster(ClusterSpec({"c": chain}, owners))


def rack_network(racks, **free):
    """Nodes with their racks, by node, and these free resources of each."""
    topology = NetworkTopology(["rack"], {node: {"rack": rack} for node, rack in racks.items()})
    for node in racks:
        topology.set_free(node, free)
    return topology


def network(nodes=NODES):
    return rack_network({node: RACKS[node] for node in nodes}, gpu=GPUS)


MACHINE = NodeDevices.uniform(gpus=GPUS, nics=NICS, sockets=1, switches=2)


def machines(nodes=NODES):
    return DeviceCluster(dict.fromkeys(nodes, MACHINE))


def claimed_devices():
    """Nodes with four devices each, two of a model."""
    cluster = DraCluster(KubernetesFeatures.of("1.36"))
    for node in NODES:
        devices = [device(f"d{i}", {"model": "aabb"[i]}) for i in range(4)]
        published = published_slice(f"s-{node}", devices, pool=node, nodeName=node)
        cluster.update(object_of("ResourceSlice", published))
    cluster.update(object_of("DeviceClass", device_class()))
    return cluster


def make_scheduler(
    parts,
    *,
    order="weighted",
    blocking="best-effort",
    limit="runtime",
    evictions="packing",
    is_empty=False,
    **settings,
):
    """:param is_empty: nodes of a network and of devices are added later."""
    if is_empty:
        settings["growing"] = True
    return Scheduler(
        queues=TenantQueues(order=order, blocking=blocking),
        quotas=quota_tree(limit) if "quotas" in parts else None,
        cells=cell_cluster(evictions) if "cells" in parts else None,
        topology=network(() if is_empty else NODES) if "topology" in parts else None,
        devices=machines(() if is_empty else NODES) if "devices" in parts else None,
        storage=StoragePool(DATASETS, CACHE_GB, BANDWIDTH) if "storage" in parts else None,
        claims=claimed_devices() if "claims" in parts else None,
        lending="lending" in parts,
        sharing=Sharing(3, any_tenant=True) if "sharing" in parts else None,
        **settings,
    )


DATASETS = {"images": 100.0, "text": 40.0}
CACHE_GB, BANDWIDTH = 60.0, 500.0
DATA = {
    "": None,
    "images": Data("images", 300.0),
    "text": Data("text", 90.0, 400.0),
    "lost": Data("lost", 1.0),
}

STAGES = {
    "": (),
    "reads": (4.0, 1.0, 1.0),
    "computes": (1.0, 4.0, 1.0),
    "talks": (1.0, 1.0, 4.0),
    "evenly": (2.0, 2.0, 2.0),
}

NIC = DeviceRequest("any", gpus=2, nics=1, joint=("gpu", "rdma"))

ROLES = {
    "one": [Role("w", 1, gpus=1)],
    "two": [Role("w", 1, gpus=2)],
    "four": [Role("w", 1, gpus=4)],
    "gang": [Role("w", 2, gpus=4)],
    "pairs": [Role("w", 3, gpus=2)],
    "leader": [Role("l", 1, gpus=1), Role("w", 2, gpus=2)],
    "elastic": [Role("w", 4, gpus=2, min_pods=1)],
    "nic": [Role("w", 2, devices=NIC)],
    "huge": [Role("w", 5, gpus=4)],
}


def make_job(name, tenant, roles, **arguments):
    rack = arguments.pop("rack", False)
    where = Where(must="rack", within="rack") if rack else Where()
    return Job(name, tenant, ROLES[roles], where=where, **arguments)


def limited(most=8, quota="a", **settings):
    """A scheduler with one quota of so many GPUs."""
    return Scheduler(quotas=gpu_quotas(most, **{quota: most}), **settings)


def flat_network(*nodes, **free):
    """Nodes without domains, with these free resources."""
    topology = NetworkTopology([], {node: {} for node in nodes})
    for node in nodes:
        topology.set_free(node, free)
    return topology


def decided(scheduler, *jobs, now=0.0):
    """Submit jobs, and decide."""
    for job in jobs:
        scheduler.submit(job, now)
    return scheduler.decide(now)


def running(scheduler, *jobs):
    """Submit jobs, and check that all of them start."""
    actions = decided(scheduler, *jobs, now=scheduler.now)
    assert {action.job for action in actions if isinstance(action, Start)} == {
        job.name for job in jobs
    }


def summary(actions):
    """Each action as a word and its job."""
    return [(type(action).__name__.lower(), action.job) for action in actions]


def jobs_of(actions, kinds):
    """The jobs of the actions of these types."""
    return [action.job for action in actions if isinstance(action, kinds)]


def said(actions):
    """Each action except waits, as its type and job."""
    return [
        (type(action).__name__, action.job) for action in actions if not isinstance(action, Wait)
    ]


def enforced(scheduler, job):
    """The job without the constraints that no part enforces."""
    where = job.where
    if scheduler.topology is None:
        where = where.replace(must="")
    if scheduler.cells is None:
        where = where.replace(within="")
    roles = job.roles
    if scheduler.devices is None:
        roles = [role.replace(devices=None) for role in roles]
    return job.replace(where=where, roles=roles)


def change_parts(scheduler, rng, now):
    """Change nodes, quotas or cells, unless that is refused."""
    node = rng.choice(ALL_NODES)
    arguments = {}
    if scheduler.topology is not None:
        arguments |= {"labels": {"rack": RACKS[node]}, "free": {"gpu": GPUS}}
    if scheduler.devices is not None:
        arguments["inventory"] = MACHINE
    most = 4 * rng.randint(1, 4)
    quota = Quota(rng.choice(TENANTS), parent="all", max={"gpu": most}, min={"gpu": most // 2})
    spec = SPECS[rng.choice(sorted(SPECS))]
    calls = [
        lambda: scheduler.set_node(node, rng.random() < 0.7, now),
        lambda: scheduler.remove_node(node, now),
        lambda: scheduler.add_node(node, now, **arguments),
        lambda: scheduler.set_quota(quota, now),
        lambda: scheduler.set_total({"gpu": rng.randint(8, 24)}, now),
        lambda: scheduler.reconfigure(spec, now),
    ]
    with suppress(KeyError, ValueError):
        rng.choice(calls)()


class Ledger:
    """The resources of jobs, as events and actions say."""

    def __init__(self, parts):
        self.parts = parts
        self.jobs = {}
        self.running = {}  # job -> its pods
        self.lent = set()  # jobs on idle cells
        self.stopping = {}  # job -> the job that it stops for; "": that is gone
        self.held = {}  # stopped job -> the job that its resources are held for
        self.promised = {}  # reserved job -> the pods that it is to start with
        self.held_pods = {}  # what these hold
        self.bad = set()
        self.cells = set(NODES)  # nodes of the cells
        self.machines = set(NODES)  # nodes of a network, and of devices
        self.stops = []  # expected stops: job, pods, node
        self.most = {"all": 16, "a": 16, "b": 12}
        self.least = {"a": 8, "b": 8}
        self.total = 16
        self.over = {}  # quota -> usage beyond its limits since these were lowered
        self.doomed = set()  # jobs that could not start at some time when they did not run
        self.unsure = set()  # jobs that ran when cells changed; they may have no guarantee
        self.in_order = False  # whether jobs run in an order
        self.cached, self.io = {}, {}
        self.together = {}  # job -> the jobs on its GPUs, with itself

    @property
    def only_cells(self):
        """Whether only cells have nodes."""
        return "cells" in self.parts and "devices" not in self.parts

    @property
    def known(self):
        """The existing nodes."""
        return self.cells if self.only_cells else self.machines

    @property
    def nodes(self):
        """The nodes on which jobs may start."""
        return self.known & self.cells if "cells" in self.parts else self.known

    def submit(self, job):
        assert job.name not in self.running and job.name not in self.held
        self.jobs[job.name] = job
        self.doomed.discard(job.name)

    def note(self, actions, immediate):
        """Follow the actions of `decide`, in which reserved jobs start first."""
        ordered = [
            action for action in actions if isinstance(action, Preempt) and action.why == "order"
        ]
        for action in ordered:
            self.left_by_order(action, immediate)
        self.moved([action for action in actions if isinstance(action, Move)])
        for winner in set(self.held.values()) - set(self.stopping.values()):
            self.keeps_its_promise(winner, actions)
            self.let_go(winner)
        self.start_together(actions)
        for action in actions:
            if isinstance(action, Move) or action in ordered:
                continue
            if isinstance(action, Stop):
                stop = action.job, set(action.pods), action.node
                assert stop in self.stops
                self.stops.remove(stop)
                continue
            if isinstance(action, SetCache):
                self.cached[action.dataset] = action.size
                assert 0 <= action.size <= DATASETS[action.dataset] * 1e9 * (1 + 1e-9)
                assert sum(self.cached.values()) <= CACHE_GB * 1e9 + len(DATASETS)
                continue
            assert action.job in self.jobs, f"{action.job} is unknown"
            job = self.jobs[action.job]
            if isinstance(action, Start):
                self.start(job, action)
                if action.lent:
                    assert "lending" in self.parts and job.guaranteed and job.preemptible
                    self.lent.add(action.job)
            elif isinstance(action, Promote):
                assert action.job in self.lent and action.job not in self.stopping
                self.ended(action.job)
                self.start(job, action)
            elif isinstance(action, Preempt):
                assert action.job in self.running and action.job not in self.stopping
                assert job.preemptible and action.for_job != action.job
                self.may_preempt(self.jobs[action.for_job], job, action.why)
                if immediate:
                    self.ended(action.job)
                else:
                    self.stopping[action.job] = action.for_job
            elif isinstance(action, SetRemoteIO):
                assert action.job in self.running
                self.io[action.job] = action.rate_mbps
            elif isinstance(action, Reject):
                assert action.job not in self.running
                impossible = action.job in self.doomed or not self.is_possible(job)
                assert "cells" in self.parts or impossible, action
                del self.jobs[action.job]
            else:
                assert isinstance(action, Wait) and action.reason
                assert action.job not in self.running
        assert not self.stops
        self.io = {name: rate for name, rate in self.io.items() if name in self.running}
        if actions:
            assert sum(self.io.values()) <= BANDWIDTH * (1 + 1e-9)
        readers = {name for name in self.running if self.jobs[name].data is not None}
        if "storage" in self.parts:
            assert set(self.io) <= readers

    def start_together(self, actions):
        """Check that jobs start together with all known jobs that they name."""
        started = {action.job for action in actions if isinstance(action, Start)}
        gone = {action.job for action in actions if isinstance(action, Reject)}
        for name in started:
            if name not in self.running and name in self.jobs:
                left = self.waiting - started - gone
                assert left.isdisjoint(self.jobs[name].together), name

    def promise(self, winner, pods):
        """Record what is held for a job while its victims stop."""
        assert pods, "nothing is held"
        self.promised[winner] = list(pods)
        self.check()

    def keeps_its_promise(self, winner, actions):
        """Check that a reserved job starts where it was to, without further victims."""
        pods = self.promised.get(winner)
        job = self.jobs[winner]
        first = [name for name in (*job.after, *job.together) if name in self.waiting]
        if pods is None or first or self.in_order:
            return
        starts = [
            action for action in actions if isinstance(action, Start) and action.job == winner
        ]
        assert starts and not starts[0].shares_with, f"{winner} does not start"
        places = [[(pod.role, pod.index, pod.node) for pod in of] for of in (starts[0].pods, pods)]
        assert places[0] == places[1]
        assert all(action.for_job != winner for action in actions if isinstance(action, Preempt))

    def lose_node(self, node):
        """Nothing is held on this node any more."""
        self.bad.add(node)
        kept = self.promised.items()
        self.promised = {name: pods for name, pods in kept if all(pod.node != node for pod in pods)}

    def left_by_order(self, action, immediate):
        """The job leaves at once, or when it has stopped; nothing is held for the other job."""
        assert self.in_order and action.for_job in self.jobs and action.for_job != action.job
        assert action.job in self.running and action.job not in self.stopping
        assert self.jobs[action.job].preemptible
        if immediate:
            self.ended(action.job)
        else:
            self.stopping[action.job] = ""

    def may_preempt(self, winner, loser, why):
        assert winner.guaranteed
        if why == "opportunistic":
            assert not loser.guaranteed or loser.name in self.lent | self.unsure
        elif why == "priority":
            assert loser.tenant == winner.tenant and loser.priority < winner.priority
        else:
            assert why == "reclaim" and "quotas" in self.parts and loser.quota != winner.quota

    def start(self, job, action):
        pods = action.pods
        assert job.name not in self.stopping and job.name not in self.held
        assert job.name not in self.stopping.values(), "it starts before others have stopped for it"
        self.let_go(job.name)
        if getattr(action, "shares_with", ()):
            self.join(job, action)
        elif job.name not in self.running:
            self.together[job.name] = {job.name}
        before = self.running.setdefault(job.name, [])
        known = {(pod.role, pod.index) for pod in before}
        started = {(pod.role, pod.index) for pod in pods}
        assert len(started) == len(pods) and not known & started
        if not before:
            for role in job.roles:
                assert sum(name == role.name for name, _ in started) == role.min_pods
        before += pods
        for role in job.roles:
            assert sum(pod.role == role.name for pod in before) <= role.pods
        placed = {"cells", "topology", "devices"} & set(self.parts)
        for pod in pods:
            assert pod.node in self.nodes - self.bad if placed else not pod.node
        if "quotas" in self.parts and type(action) is Start and not self.shares(action):
            assert self.used(job.tenant) <= self.most[job.tenant]
            assert self.used("a") + self.used("b") <= min(self.most["all"], self.total)
        self.check()

    def shares(self, action):
        return bool(action.shares_with)

    def join(self, job, action):
        """A job shares GPUs with all jobs on them, which are like it and stay."""
        others = action.shares_with
        assert "sharing" in self.parts and job.stages and job.name not in self.running
        group = self.together[others[0]]
        assert set(others) == group and len(others) < 3
        assert len(action.offsets) == len(others) + 1 == len(set(action.offsets))
        for name in others:
            other = self.jobs[name]
            assert name not in self.stopping and other.stages
            assert self.running[name] == list(action.pods)
            assert self.alike(other, job)
        group.add(job.name)
        self.together[job.name] = group

    def alike(self, first, other):
        """Whether two jobs may share."""
        fields = ["roles", "where", "priority", "guaranteed", "preemptible"]
        if {"quotas", "cells"} & set(self.parts):
            fields.append("tenant")
        return all(getattr(first, field) == getattr(other, field) for field in fields)

    def moved(self, moves):
        """All of these move at the same time."""
        places = {move.job: list(move.pods) for move in moves}
        assert len(places) == len(moves) and set(places) <= set(self.running) - set(self.stopping)
        for name, pods in places.items():
            assert self.jobs[name].preemptible
            assert self.in_order or (self.jobs[name].stages and pods != self.running[name])
            self.together[name].discard(name)
            self.running[name] = pods
        for move in moves:
            group = {move.job, *move.shares_with}
            assert not group & set(self.stopping) and len(group) <= 3
            assert len(move.offsets) == (len(group) if move.shares_with else 0)
            assert all(self.running[name] == list(move.pods) for name in group)
            for name in group:
                assert name in places or self.together[name] <= group
                assert self.alike(self.jobs[name], self.jobs[move.job])
            self.together.update(dict.fromkeys(group, group))
        self.check()

    def counted(self):
        """One job of each group on the same GPUs."""
        return {name for name in self.running if name == min(self.together[name])}

    def moved_away(self, step):
        """Some jobs stop together, and start elsewhere."""
        for move in step:
            assert move.job not in self.stopping and self.jobs[move.job].preemptible
            assert set(move.before) == set(self.running[move.job])
            self.running[move.job] = list(move.pods)
            assert {pod.node for pod in move.pods} & self.bad == set()
        self.check()

    def ended(self, name):
        """A job does not run any more; a victim's resources are held."""
        pods = self.running.pop(name, [])
        self.together.pop(name, set()).discard(name)
        self.lent.discard(name)
        self.unsure.discard(name)
        winner = self.stopping.pop(name, "")
        if winner:
            self.held[name], self.held_pods[name] = winner, pods
        self.io.pop(name, None)

    def let_go(self, winner):
        """No job has to stop for a job that has started or is gone."""
        self.promised.pop(winner, None)
        self.held = {name: other for name, other in self.held.items() if other != winner}
        stopping = self.stopping.items()
        self.stopping = {name: "" if other == winner else other for name, other in stopping}

    def failed(self, name, pod):
        """A pod has failed: alone, if it joined the job later."""
        role = next(role for role in self.jobs[name].roles if role.name == pod.role)
        if pod.index < role.min_pods or name in self.stopping:
            self.ended(name)
        else:
            self.running[name].remove(pod)

    def check(self):
        """Check the sums as they are, and as they will be when all victims have stopped."""
        waiting = (job for name, job in self.jobs.items() if name not in self.running)
        self.doomed.update(job.name for job in waiting if not self.is_possible(job))
        now = {name: self.running[name] for name in self.counted()}
        self.check_all(now)
        if self.promised:
            soon = {name: now[name] for name in now if self.stopping.get(name) not in self.promised}
            self.check_all(soon | self.promised)

    def check_all(self, running):
        gpus, nics, counted = {}, {}, dict.fromkeys(ALL_NODES, 0)
        for name, pods in running.items():
            job = self.jobs[name]
            for pod in pods:
                role = next(device for device in job.roles if device.name == pod.role)
                if pod.node:
                    counted[pod.node] += role.gpus
                mine = {device.minor for device in pod.devices if device.type == "gpu"}
                if pod.decision is None and "sharing" in self.parts:
                    mine = set(pod.gpus)  # after a restart it joined another job
                if "devices" in self.parts:
                    assert len(mine) == role.gpus
                    assert not pod.gpus or set(pod.gpus) == mine
                for minor in mine or pod.gpus:
                    assert gpus.setdefault((pod.node, minor), (name, pod)) == (name, pod)
                for held in pod.devices:
                    if held.type == "rdma":
                        assert nics.setdefault((pod.node, held.minor), (name, pod)) == (name, pod)
            nodes = {pod.node for pod in pods[: sum(role.min_pods for role in job.roles)]}
            if job.where.must and {"topology", "cells"} & set(self.parts):
                assert len({RACKS[node] for node in nodes}) == 1
        assert all(count <= GPUS for count in counted.values())
        if "quotas" in self.parts:
            for name, limit in self.limits().items():
                used = self.used(name, running)
                assert used <= max(limit, self.over.get(name, 0))
                if not self.promised:
                    self.over[name] = used  # what is given back does not come back

    def limits(self):
        most = self.most
        return {"a": most["a"], "b": most["b"], "all": min(most["all"], self.total)}

    def is_possible(self, job):
        """Whether a job would fit on the empty cluster, apart from cells."""
        least = {role.name: (role.min_pods, role.gpus) for role in job.roles if role.min_pods}
        gpus = sum(pods * size for pods, size in least.values())
        if "quotas" in self.parts:
            limits = [self.total, self.most["all"], self.most[job.tenant]]
            if gpus > min(limits if job.preemptible else [*limits, self.least[job.tenant]]):
                return False
        if "storage" in self.parts and job.data is not None and job.data.dataset not in DATASETS:
            return False
        # sizes are powers of two, so only sums matter
        if "devices" in self.parts and gpus > GPUS * len(self.machines):
            return False
        if "topology" in self.parts:
            racks = [RACKS[node] for node in self.nodes]
            room = max(map(racks.count, racks)) if job.where.must else len(racks)
            return gpus <= GPUS * room
        return True

    def set_limits(self, quota="", most=0, least=0, total=None):
        """Quotas have other limits; running jobs stay."""
        self.over = {name: self.used(name) for name in self.limits()}
        self.promised.clear()
        if quota:
            self.most[quota] = most
            if quota in self.least:
                self.least[quota] = least
        else:
            self.total = total

    def removed(self, node):
        """A node is removed: its pods have to stop, and no job waits for what is held there."""

        def is_there(pods):
            return any(pod.node == node for pod in pods)

        waited = {winner for name, winner in self.held.items() if is_there(self.held_pods[name])}
        waited |= {name for name, pods in self.promised.items() if is_there(pods)}
        affected = [name for name, pods in self.running.items() if is_there(pods)]
        for winner in waited | {self.stopping[name] for name in affected if name in self.stopping}:
            if winner:
                self.let_go(winner)
        for name in affected:
            pods = self.running[name]
            sizes = {role.name: role.min_pods for role in self.jobs[name].roles}
            first = [pod for pod in pods if pod.index < sizes[pod.role]]
            if name in self.stopping or is_there(first):
                self.stops.append((name, set(pods), node))
                self.ended(name)
            else:
                lost = [pod for pod in pods if pod.node == node]
                self.stops.append((name, set(lost), node))
                self.running[name] = [pod for pod in pods if pod.node != node]
        if self.only_cells:
            self.bad.add(node)
        else:
            self.machines.discard(node)
            self.bad.discard(node)

    def may_come(self, node):
        """Whether a node can be added: it does not exist, and the cells know it."""
        if self.only_cells:
            return node in self.cells & self.bad
        return node not in self.machines and ("cells" not in self.parts or node in self.cells)

    def added(self, node):
        """A node was added, and is healthy."""
        self.machines.add(node)
        self.bad.discard(node)

    def set_health(self, node, healthy):
        """A node failed or recovered."""
        (self.bad.discard if healthy else self.lose_node)(node)

    def reconfigured(self, spec):
        """Cells have other nodes, of which new ones are healthy; all jobs run on."""
        self.cells = {node for chain in spec.chains.values() for node in chain.nodes}
        if self.only_cells:
            self.bad &= self.cells
        self.unsure |= set(self.running)
        self.promised.clear()

    def used(self, tenant, running=None):
        """The usage of a tenant, or of "all"."""
        total = 0
        if running is None:
            running = {name: self.running[name] for name in self.counted()}
        for name, pods in running.items():
            job = self.jobs[name]
            if tenant in (job.tenant, "all"):
                sizes = {role.name: role.gpus for role in job.roles}
                total += sum(sizes[pod.role] for pod in pods)
        return total
