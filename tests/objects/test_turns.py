"""Calls of threads take turns: a call that waits answers as if it had come later.

A look-up by name before the turn finds what was there before: a number that is another node's by
now, a tenant that is gone.
"""

import pickle
import sys
import threading

import numpy as np
import pytest

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import (
    Device,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.errors import StaleDecisionError
from hivecore.gangs import Coscheduler, GangSpec
from hivecore.interleaving import Grouper
from hivecore.interop.hived import HivedScheduler
from hivecore.matching import Matcher
from hivecore.queues import NamespaceQuota, QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Scheduler
from hivecore.topology import NetworkTopology, TopologyRequest


class Gate:
    """A lock that tells when another thread comes to it."""

    def __init__(self, lock):
        self.lock, self.owner = lock, threading.current_thread()
        self.someone_waits = threading.Event()

    def __enter__(self):
        if threading.current_thread() is not self.owner:
            self.someone_waits.set()
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def outcome(call, thing):
    """What a call returns or raises, so that it can be compared."""
    try:
        result = call(thing)
    except Exception as error:
        return type(error), str(error)
    return repr(result.tolist() if isinstance(result, np.ndarray) else result)


def meanwhile(thing, call, change):
    """What a call gives that another thread makes while this one has the object and changes it."""
    gate = thing._lock = Gate(thing._lock)
    results = []

    def run():
        results.append(outcome(call, thing))
        gate.someone_waits.set()  # for a call that takes no turn

    thread = threading.Thread(target=run)
    with gate:
        thread.start()
        gate.someone_waits.wait()
        change(thing)
    thread.join()
    thing._lock = gate.lock
    return results[0]


# --- a gang is never booked on another node than its decision says ------------------------------


def network(*nodes, room=("b", "c")):
    topology = NetworkTopology(["rack"], {node: {"rack": "r"} for node in nodes})
    topology.set_slots([1] * len(room), room)
    return topology


def test_a_gang_is_booked_on_its_node_though_the_nodes_were_renumbered_while_it_waited():
    nodes = network("a", "b", "c")
    decision = nodes.schedule(TopologyRequest("train", 1))
    assert [part.node for part in decision.placement] == ["b"]
    meanwhile(nodes, lambda it: it.commit(decision), lambda it: it.remove_node("a"))
    assert [part.node for part in nodes.placement("train")] == ["b"]
    assert nodes.slots() == {"b": 0, "c": 1}


def test_slots_are_set_on_the_nodes_that_were_named_though_a_node_came_before_them():
    nodes = NetworkTopology(["rack"], {"a": {"rack": "r"}, "z": {"rack": "s"}})
    meanwhile(
        nodes, lambda it: it.set_slots([3], ["z"]), lambda it: it.add_node("b", {"rack": "r"})
    )
    assert nodes.nodes == ("a", "b", "z")
    assert nodes.slots() == {"a": 0, "b": 0, "z": 3}


@pytest.mark.parametrize("again", [False, True], ids=["gone", "there again"])
@pytest.mark.parametrize("node", ["b", "c"], ids=["any node", "a named node"])
def test_a_decision_for_a_node_that_was_removed_is_stale(node, again):
    nodes = network("a", "b", "c")
    decision = nodes.schedule(TopologyRequest("train", 1), nodes=None if node == "b" else [node])
    nodes.remove_node(node)
    if again:
        nodes.add_node(node, {"rack": "r"}, {"slots": 1})
    with pytest.raises(StaleDecisionError, match=f"node '{node}' was removed"):
        nodes.commit(decision)
    assert nodes.owners == () and nodes.slots()["b" if node == "c" else "c"] == 1


def test_a_decision_for_a_node_that_was_removed_is_stale_on_a_branch_and_for_commit_many():
    nodes = network("a", "b", "c")
    decisions = nodes.schedule_many([TopologyRequest("x", 1), TopologyRequest("y", 1)])
    branch = nodes.copy()
    branch.commit(decisions[0])
    nodes.remove_node("c")
    nodes.add_node("c", {"rack": "r"}, {"slots": 1})
    with pytest.raises(StaleDecisionError, match="node 'c' was removed"):
        nodes.commit_many(decisions)
    assert nodes.owners == ()
    branch.commit(decisions[1])
    assert branch.owners == ("x", "y")


def test_a_decision_that_was_pickled_means_the_nodes_of_its_names():
    nodes = network("a", "b", "c")
    decision = pickle.loads(pickle.dumps(nodes.schedule(TopologyRequest("train", 1))))
    nodes.remove_node("a")
    nodes.commit(decision)
    assert [part.node for part in nodes.placement("train")] == ["b"]


@pytest.mark.parametrize("again", [(), ("x", "a"), ("a",)], ids=["gone", "moved", "same number"])
def test_a_decision_for_devices_of_a_node_that_was_removed_is_stale(again):
    inventory = NodeDevices.uniform(gpus=2)
    cluster = DeviceCluster({"a": inventory, "b": inventory})
    decision = cluster.schedule(DeviceRequest("train", gpus=1))
    assert decision.node == "a"
    cluster.remove_node("a")
    for name in again:
        cluster.add_node(name, inventory)
    with pytest.raises(StaleDecisionError, match="node 'a' is gone"):
        cluster.commit(decision)
    assert len(cluster) == 0
    cluster.commit(cluster.schedule(DeviceRequest("train", gpus=1)))


def test_the_placement_of_a_decision_is_that_of_its_node_though_the_node_is_gone():
    def node(bus_id):
        group = VirtualFunctionGroup([VirtualFunction(bus_id, minor=7)])
        return NodeDevices([Device("rdma", 0, {"share": 100}, vf_groups=[group])])

    cluster = DeviceCluster({"a": node("0000:1f:00.2")})
    request = DeviceRequest("train", nics=1, nic_wishes={"vf_selector": {}})
    seen, unseen = cluster.schedule(request), cluster.schedule(request)
    assert seen.placement[0].function.minor == 7
    cluster.remove_node("a")
    assert unseen.placement == seen.placement


# --- any call, while the state changes before its turn ------------------------------------------

INVENTORY = NodeDevices.uniform(gpus=2, nics=1)
TRAIN = TopologyRequest("train", 1)
CHAIN = Chain(["gpu", "node"], [2], nodes=["n1", "n2"], roots=2)
OWNED = {"A": {"V100": {"node": 1}}}


def racks():
    created = network("a", "b", "c")
    created.add_node("z", {"rack": "s"}, {"slots": 2})
    created.commit(created.schedule(TopologyRequest("first", 2)))
    return created


def devices():
    node = DeviceCluster({"a": INVENTORY, "b": INVENTORY, "c": NodeDevices.uniform(gpus=1)})
    node.commit(node.schedule(DeviceRequest("first", gpus=1), nodes=["b"]))
    return node


def quotas():
    names = ("x", "y")
    created = QuotaTree([Quota(name, max={"gpu": 8}) for name in names], total={"gpu": 8})
    created.commit(created.schedule(QuotaRequest("first", "y", {"gpu": 2})))
    return created


def queues():
    created = TenantQueues()
    created.push(QueuedJob("first", "x", 1), now=0)
    created.push(QueuedJob("second", "y", 1), now=0)
    return created


def namespaces():
    created = NamespaceQuota()
    created.set_quota("x", {"gpu": 4})
    created.pre_dequeue(QueuedJob("first", "x", 1, resources={"gpu": 3}, namespace="x"))
    return created


def gangs():
    created = Coscheduler()
    created.create_pod("p", GangSpec("x", 2), now=0)
    return created


def cells(nodes=("n1", "n2")):
    chain = Chain(["gpu", "node"], [2], nodes=list(nodes), roots=len(nodes))
    return CellCluster(ClusterSpec({"V100": chain}, OWNED))


def renamed(cluster):
    cluster.reconfigure(cells(["n2", "n3", "n4"]).spec)


def scheduler():
    nodes = {"n1": {"rack": "r"}, "n2": {"rack": "r"}}
    network = NetworkTopology(["rack"], nodes)
    network.set_slots([1, 1])
    created = Scheduler(topology=network, quotas=quotas())
    created.submit(Job("early", "x", 1), now=0.0)
    created.decide(now=0.0)
    return created


def fewer_nodes(created):
    created.remove_node("n1", now=1.0)
    created.submit(Job("late", "y", 1), now=1.0)


def hived(cells=("n1", "n2")):
    kinds = {"NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True}}
    physical = [{"cellType": "NODE", "cellAddress": name} for name in cells]
    return HivedScheduler(
        {
            "physicalCluster": {"cellTypes": kinds, "physicalCells": physical},
            "virtualClusters": {"A": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}},
        }
    )


def other_nodes(created):
    created.reconfigure(hived(["n2", "n3"]).config)


def grouper():
    created = Grouper(2, capacity=4)
    created.add("first", [1, 2], gpus=1)
    return created


SPEC = {"virtualCluster": "A", "leafCellNumber": 1}
GROUP = AffinityGroup("train", "A", [(1, 1)])

# By name: how an object is made, what changes it, and calls that wait meanwhile.
CASES = {
    "NetworkTopology": (
        racks,
        lambda it: (it.remove_node("a"), it.add_node("d", {"rack": "q"}, {"slots": 9})),
        {
            "layers": lambda it: it.layers,
            "nodes": lambda it: it.nodes,
            "domain": lambda it: it.domain("z"),
            "domain of one that is gone": lambda it: it.domain("a"),
            "domain of one that has come": lambda it: it.domain("d"),
            "domains": lambda it: it.domains("rack"),
            "add_node": lambda it: it.add_node("a", {"rack": "r"}),
            "remove_node": lambda it: it.remove_node("z"),
            "set_slots": lambda it: it.set_slots([1, 2, 3, 4]),
            "set_slots of some": lambda it: it.set_slots([5], ["b"]),
            "set_free": lambda it: it.set_free("c", {"gpu": 3, "slots": 1}),
            "free": lambda it: it.free("z"),
            "total_free": lambda it: it.total_free("slots"),
            "set_health": lambda it: it.set_health("z", False),
            "unhealthy": lambda it: it.unhealthy,
            "slots": lambda it: it.slots("rack"),
            "owners": lambda it: it.owners,
            "placement": lambda it: it.placement("first"),
            "fits": lambda it: it.fits(TopologyRequest("train", 9)),
            "schedule": lambda it: it.schedule(TRAIN),
            "schedule on some": lambda it: it.schedule(TRAIN, nodes=["b", "d"]),
            "schedule on one that is gone": lambda it: it.schedule(TRAIN, nodes=["a"]),
            "schedule by costs": lambda it: it.schedule(
                TopologyRequest("train", 1, cost={"z": 3, "b": 1, "c": 2})
            ),
            "commit": lambda it: it.commit(it.schedule(TRAIN)),
            "schedule_many": lambda it: it.schedule_many([TRAIN, TopologyRequest("tune", 9)]),
            "explain": lambda it: it.explain(TopologyRequest("train", 99)),
            "release": lambda it: it.release("first"),
            "rename": lambda it: it.rename("first", "other"),
            "verify": lambda it: it.schedule(TRAIN).verify(it),
        },
    ),
    "DeviceCluster": (
        devices,
        lambda it: (it.remove_node("a"), it.add_node("d", NodeDevices.uniform(gpus=4))),
        {
            "nodes": lambda it: it.nodes,
            "add_node": lambda it: it.add_node("a", INVENTORY),
            "remove_node": lambda it: it.remove_node("b"),
            "set_inventory": lambda it: it.set_inventory("c", INVENTORY),
            "set_health": lambda it: it.set_health("b", False, type="gpu", minor=0),
            "set_health of one that is gone": lambda it: it.set_health("a", False),
            "inventory": lambda it: it.inventory("d").devices,
            "unhealthy_nodes": lambda it: it.unhealthy_nodes(),
            "filter": lambda it: it.filter(DeviceRequest("train", gpus=2)).codes,
            "fits": lambda it: it.fits(DeviceRequest("train", gpus=4)),
            "schedule": lambda it: it.schedule(DeviceRequest("train", gpus=2)),
            "schedule on one that is gone": lambda it: it.schedule(
                DeviceRequest("train", gpus=2), nodes=["a"]
            ),
            "allocate": lambda it: it.allocate(DeviceRequest("train", gpus=2), "d"),
            "release": lambda it: it.release("first"),
            "rename": lambda it: it.rename("first", "other"),
            "in": lambda it: "first" in it,
            "len": len,
            "node_of": lambda it: it.node_of("first"),
            "allocations": lambda it: it.allocations("first"),
            "owners": lambda it: it.owners("b"),
            "fragmentation": lambda it: it.fragmentation(),
            "numa_hints": lambda it: it.numa_hints(DeviceRequest("train", gpus=1), "b"),
            "explain": lambda it: it.explain(DeviceRequest("train", gpus=9)),
            "reservations": lambda it: it.reservations,
        },
    ),
    "QuotaTree": (
        quotas,
        lambda it: (
            it.remove("x"),
            it.set_quota(Quota("a", max={"gpu": 4, "nic": 1})),
            it.submit(QuotaRequest("late", "a", {"gpu": 1})),
        ),
        {
            "limit": lambda it: it.limit,
            "check_ancestors": lambda it: it.check_ancestors,
            "quotas": lambda it: it.quotas,
            "quota": lambda it: it.quota("a"),
            "set_quota": lambda it: it.set_quota(Quota("b", max={"gpu": 4}, parent="a")),
            "move": lambda it: it.move("y", "x"),
            "remove": lambda it: it.remove("a"),
            "set_weights": lambda it: it.set_weights({"a": {"gpu": 3}}),
            "runtime": lambda it: it.runtime("y"),
            "runtimes": lambda it: it.runtimes(["gpu"]),
            "have_room": lambda it: it.have_room("max", [0, 1], [[4], [5]], ["gpu"]),
            "status": lambda it: it.status("a"),
            "total": lambda it: it.total(),
            "owners": lambda it: it.owners,
            "request": lambda it: it.request("late"),
            "members": lambda it: it.members("first"),
            "submit": lambda it: it.submit(QuotaRequest("new", "x", {"gpu": 1})),
            "fits": lambda it: it.fits(QuotaRequest("new", "x", {"gpu": 1})),
            "schedule": lambda it: it.schedule("late"),
            "commit": lambda it: it.commit(it.schedule("late")),
            "overused": lambda it: it.overused(),
            "explain": lambda it: it.explain(QuotaRequest("new", "a", {"gpu": 9})),
            "verify": lambda it: it.schedule("late").verify(it),
        },
    ),
    "TenantQueues": (
        queues,
        lambda it: (it.remove("first"), it.push(QueuedJob("third", "a", 1), now=1)),
        {
            "len": len,
            "in": lambda it: "first" in it,
            "jobs": list,
            "tenants": lambda it: it.tenants,
            "next": lambda it: it.next(now=1),
            "peek": lambda it: it.peek(now=1),
            "remove": lambda it: it.remove("first"),
            "take": lambda it: it.take("third"),
            "explain": lambda it: it.explain("third", now=1),
            "park": lambda it: it.park("a", 1),
            "set_weight": lambda it: it.set_weight("b", 3),
        },
    ),
    "NamespaceQuota": (
        namespaces,
        lambda it: (it.set_quota("x", {}), it.set_quota("y", {"gpu": 1}), it.advance(60)),
        {
            "filter": lambda it: it.filter(
                QueuedJob("new", "y", 1, resources={"gpu": 2}, namespace="y")
            ),
            "assumed": lambda it: it.assumed,
        },
    ),
    "Coscheduler": (
        gangs,
        lambda it: (it.create_pod("q", "x", now=1), it.report_pod("p", "failed", now=1)),
        {
            "len": len,
            "in": lambda it: "q" in it,
            "gangs": lambda it: it.gangs,
            "pods": lambda it: it.pods("x"),
            "pod": lambda it: it.pod("p"),
            "gang": lambda it: it.gang("x"),
            "assume_pod": lambda it: it.assume_pod("p", now=1),
            "deadline": lambda it: it.deadline,
        },
    ),
    "CellCluster": (
        cells,
        renamed,
        {
            "nodes": lambda it: it.nodes,
            "spec": lambda it: it.spec.chains["V100"].roots,
            "set_health": lambda it: it.set_health("n1", False),
            "set_health of one that has come": lambda it: it.set_health("n4", False),
            "bad_nodes": lambda it: it.bad_nodes(),
            "schedule": lambda it: it.schedule(GROUP, suggested_nodes=["n3"]).placement,
            "free_cells": lambda it: it.free_cells(),
            "idle_leaves": lambda it: it.idle_leaves("V100"),
        },
    ),
    "Scheduler": (
        scheduler,
        fewer_nodes,
        {
            "len": len,
            "in": lambda it: "late" in it,
            "jobs": list,
            "now": lambda it: it.now,
            "logged": lambda it: it.logged,
            "has_order": lambda it: it.has_order,
            "parts": lambda it: (it.topology.nodes, it.quotas.owners, len(it.queues)),
            "state": lambda it: it.state("early"),
            "status": lambda it: it.status("early"),
            "decide": lambda it: it.decide(now=1.0),
            "set_node": lambda it: it.set_node("n1", False, now=1.0),
            "summary": lambda it: it.summary(),
            "explain": lambda it: it.explain("late"),
            "forecast": lambda it: it.forecast("late"),
        },
    ),
    "HivedScheduler": (
        hived,
        other_nodes,
        {
            "config": lambda it: it.config.document,
            "leaf_cells_by_node": lambda it: it.leaf_cells_by_node(),
            "schedule": lambda it: it.schedule("default/train", SPEC),
            "free_cells": lambda it: it.free_cells(),
            "status_json": lambda it: it.status_json(),
            "unknown": lambda it: it.virtual_cluster_json("B"),
        },
    ),
    "Matcher": (
        lambda: Matcher(np.array([[0.0, 2.0], [2.0, 0.0]])),
        lambda it: it.add_vertex([3.0, 1.0]),
        {
            "n": lambda it: it.n,
            "vertices": lambda it: it.vertices,
            "solve": lambda it: it.solve().pairs,
            "add_vertex": lambda it: it.add_vertex([1.0, 1.0, 1.0]),
        },
    ),
    "Grouper": (
        grouper,
        lambda it: (it.remove("first"), it.add("second", [2, 1], gpus=1)),
        {
            "len": len,
            "in": lambda it: "second" in it,
            "remove": lambda it: it.remove("first"),
            "groups": lambda it: it.groups(),
        },
    ),
}
CALLS = [(name, call) for name, (_, _, calls) in CASES.items() for call in calls]
ALWAYS = {
    "sizeof": lambda it: sys.getsizeof(it) > 0,
    "check": lambda it: it.check(),
    "copy": lambda it: pickle.dumps(it.copy()),
    "pickle": lambda it: pickle.loads(pickle.dumps(it)).check(),
}


@pytest.mark.parametrize(
    ("name", "call"), CALLS + [(name, call) for name in CASES for call in ALWAYS]
)
def test_a_call_that_waits_answers_as_if_it_had_come_later(name, call):
    make, change, calls = CASES[name]
    waiting, later = make(), make()
    change(later)
    expected = outcome({**calls, **ALWAYS}[call], later)
    assert meanwhile(waiting, {**calls, **ALWAYS}[call], change) == expected
    assert pickle.dumps(waiting) == pickle.dumps(later)
    waiting.check()
