"""hivecore decides where gangs run, and Ray's placement groups put them there."""

import os

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.ray import bundles
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.topology import NetworkTopology


def scheduler_of(nodes: dict[str, int]) -> Scheduler:
    """A scheduler that knows these nodes with their GPUs, two nodes to a rack."""
    network = NetworkTopology(["rack"], {n: {"rack": f"r{i // 2}"} for i, n in enumerate(nodes)})
    devices = DeviceCluster({node: NodeDevices.uniform(gpus) for node, gpus in nodes.items()})
    for node, gpus in nodes.items():
        network.set_free(node, {"gpu": gpus})
    return Scheduler(topology=network, devices=devices)


def run(start: Start) -> None:
    """Reserve what was decided. `group` goes to the actors' `PlacementGroupSchedulingStrategy`."""
    import ray
    from ray.util import placement_group

    parts, selectors = bundles(start)
    group = placement_group(parts, bundle_label_selector=selectors)
    print(start.job, "is ready:", ray.get(group.ready(), timeout=60) is not None)


nodes = {f"node{i}": 8 for i in range(4)}
has_cluster = "RAY_ADDRESS" in os.environ  # without a cluster of Ray the bundles are shown
if has_cluster:
    import ray

    ray.init()
    alive = [node for node in ray.nodes() if node["Alive"]]
    gpus = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in alive}
    nodes = {node: count for node, count in gpus.items() if count}

scheduler = scheduler_of(nodes)
for name, pods in (("train", 2), ("tune", 1), ("large", 9)):
    scheduler.submit(Job(name, "research", [Role("worker", pods, gpus=8)]), now=0.0)
for action in scheduler.decide(now=0.0):
    if not isinstance(action, Start):
        print(action.job, "cannot run:", action.reason)
    elif has_cluster:
        run(action)
    else:
        print(action.job, *bundles(action))
