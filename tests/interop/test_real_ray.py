"""Gangs on a real Ray of several raylets with emulated GPUs: `make test-ray`.

Ray listens on all addresses of the machine, so it runs in a network of its own only.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.ray import Gangs, bundles
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.topology import NetworkTopology

pytestmark = [
    pytest.mark.skipif(
        [name for _, name in socket.if_nameindex()] != ["lo"],
        reason="needs a network of its own: make test-ray",
    ),
    pytest.mark.slow,
]
NODES, GPUS = 4, 8
EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_gangs.py"


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    memory = {"object_store_memory": 80_000_000}
    head = {"num_cpus": 1, "include_dashboard": False, **memory}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        for number in range(NODES):
            cluster.add_node(
                num_cpus=1, num_gpus=GPUS, labels={"host": f"n{number}"}, wait=False, **memory
            )
        cluster.wait_for_nodes()
        ray.init(address=cluster.address)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def ids_by_host():
    import ray

    alive = [node for node in ray.nodes() if node["Alive"] and "host" in node["Labels"]]
    return {node["Labels"]["host"]: node["NodeID"] for node in alive}


def scheduler_of(nodes):
    """A scheduler of these nodes, two of them to a rack, and of two tenants that lend."""
    network = NetworkTopology(["rack"], {n: {"rack": f"r{i // 2}"} for i, n in enumerate(nodes)})
    for node in nodes:
        network.set_free(node, {"gpu": GPUS})
    half = {"gpu": NODES * GPUS // 2}
    quotas = [Quota(name, max={"gpu": 24}, min=half) for name in ("vision", "speech")]
    return Scheduler(
        topology=network,
        devices=DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(GPUS))),
        quotas=QuotaTree(quotas, total={"gpu": NODES * GPUS}),
    )


def create(start):
    from ray.util import placement_group

    parts, selectors = bundles(start)
    return placement_group(parts, bundle_label_selector=selectors)


def places(group, seconds=60):
    """The nodes of a group's bundles, by rank, once it is ready."""
    import ray
    from ray.util import placement_group_table

    ray.get(group.ready(), timeout=seconds)
    by_rank = placement_group_table(group)["bundles_to_node_id"]
    return [by_rank[rank] for rank in sorted(by_rank)]


def state(group):
    from ray.util import placement_group_table

    return placement_group_table(group)["state"]


def until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.2)


def test_every_bundle_is_on_the_node_that_was_decided(cluster):
    from ray.util import remove_placement_group

    scheduler, random = scheduler_of(list(ids_by_host().values())), Random(4)
    for number in range(20):
        pods, gpus = random.choice([(1, 2), (2, 4), (2, 8), (3, 1), (16, 1), (1, 8), (4, 2)])
        tenant = random.choice(["vision", "speech"])
        role = Role("worker", pods, gpus=gpus)
        scheduler.submit(Job(f"j{number}", tenant, [role], priority=number % 3), 0.0)
    started = {}
    for now in range(1, 40):
        groups = {}
        for action in scheduler.decide(now):
            if isinstance(action, Start):
                groups[action.job] = action, create(action)
        for name, (start, group) in groups.items():
            assert places(group) == [pod.node for pod in start.pods]
            started[name] = group
        running = [name for name in scheduler if scheduler.state(name) == "running"]
        for name in random.sample(running, (len(running) + 1) // 2):
            scheduler.finish(name, now)
            remove_placement_group(started[name])
            until(lambda name=name: state(started[name]) == "REMOVED")
        if not len(scheduler):
            break
    assert len(started) == 20


def test_a_gang_gives_way_and_is_made_again_elsewhere_when_its_node_is_lost(cluster):
    import ray
    from ray.util import placement_group, remove_placement_group

    def make(parts, selectors):
        return placement_group(parts, bundle_label_selector=selectors)

    half = {"gpu": NODES * GPUS // 2}
    quotas = [Quota(name, max={"gpu": 32}, min=half, scales=False) for name in ("vision", "speech")]
    scheduler = Scheduler(
        devices=DeviceCluster({}), quotas=QuotaTree(quotas, total={}), immediate=True, growing=True
    )
    gangs, hosts = Gangs(scheduler, make, remove_placement_group, label="host"), ids_by_host()

    def decided(now, name):
        gangs.step(now, ray.nodes())
        if gangs.group(name) is None:
            return None
        assert places(gangs.group(name)) == [hosts[pod.node] for pod in scheduler.status(name).pods]
        return [pod.node for pod in scheduler.status(name).pods]

    gangs.submit(Job("sweep", "speech", [Role("worker", 4, gpus=8)]), 0.0)
    assert len(decided(0.0, "sweep")) == 4
    borrowed = gangs.group("sweep")
    gangs.submit(Job("train", "vision", [Role("worker", 2, gpus=8)]), 1.0)
    _, lost = decided(1.0, "train")
    assert decided(1.0, "sweep") is None and state(borrowed) == "REMOVED"
    group = gangs.group("train")
    (node,) = [each for each in cluster.list_all_nodes() if each.node_id == hosts[lost]]
    cluster.remove_node(node)
    until(lambda: state(group) == "RESCHEDULING")
    assert lost not in decided(2.0, "train") and len(gangs.wanted) == 6
    for name in ("train", "sweep"):
        gangs.end(name, 3.0)


def test_the_example_runs_on_the_cluster(cluster):
    given = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    for name, says in (("sweep", "('is ready'"), ("train", "('is ready'"), ("large", "None")):
        assert f"{name} {says}" in done.stdout
