"""Pods on different nodes, even between racks, or at most so many in each."""

from collections import Counter

from hivecore.scheduler import Job, Role, Scheduler, Start, Where
from hivecore.topology import NetworkTopology

network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 2}"} for i in range(8)})
for node in network.nodes:
    network.set_free(node, {"gpu": 8})

jobs = [
    Job("usual", "vision", [Role("worker", 10, gpus=2)]),
    Job("even", "vision", [Role("worker", 10, gpus=2)], where=Where(balance="rack")),
    Job("ring", "speech", [Role("worker", 4, gpus=2, per_node=1)]),
    Job("serve", "speech", [Role("replica", 4, gpus=1)], where=Where(per_domain={"rack": 1})),
    Job("wide", "speech", [Role("worker", 9, gpus=1, per_node=1)]),
]
scheduler = Scheduler(topology=network)
for job in jobs:
    scheduler.submit(job, now=0.0)
    for action in scheduler.decide(now=0.0):
        if isinstance(action, Start):
            nodes = Counter(pod.node for pod in action.pods)
            racks = Counter(network.domain(pod.node)[0] for pod in action.pods)
            print(f"{job.name:6} racks {dict(racks)}  nodes {dict(nodes)}")
        else:
            print(f"{job.name:6} {action.reason}")
    if job.name in scheduler:
        scheduler.finish(job.name, now=0.0)
