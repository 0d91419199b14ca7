"""Idle GPUs on two half-used nodes become a whole node, for which a job waits."""

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.scheduler import Fragments, Job, Move, Scheduler

node = NodeDevices.uniform(gpus=8)
scheduler = Scheduler(devices=DeviceCluster({"n0": node, "n1": node, "n2": node}))
goal = Fragments()  # the pods to come need whole nodes
for name, gpus in {"a": 4, "b": 4, "c": 6, "d": 2, "e": 3}.items():
    scheduler.submit(Job(name, "vision", gpus), now=0.0)
scheduler.decide(now=0.0)
for name in ("a", "c"):
    scheduler.finish(name, now=3600.0)
scheduler.submit(Job("train", "vision", 8), now=3600.0)
for action in scheduler.decide(now=3600.0):
    print(f"{action.job}: {type(action).__name__}")

# A GPU of a whole node is worth an hour; to stop and start a job takes two minutes of its GPUs.
scheduler.defragment(3600.0, goal, seconds=3600.0, restart_cost=120.0, most_moves=2)
for action in scheduler.decide(now=3600.0):
    (pod,) = action.pods
    if isinstance(action, Move):
        print(f"{action.job} moves from {action.before[0].node} to {pod.node}")
    else:
        print(f"{action.job} starts on {pod.node}")
