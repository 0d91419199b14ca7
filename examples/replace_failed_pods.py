"""Nodes of a gang are lost: a spare takes the rank of a pod, then pods wait for room nearby."""

from hivecore.scheduler import Job, Role, Scheduler, Where
from hivecore.topology import NetworkTopology

network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 4}"} for i in range(8)})
for node in network.nodes:
    network.set_free(node, {"gpu": 8})
scheduler = Scheduler(topology=network)
workers = Role("worker", 2, gpus=8, spares=1)
job = Job("train", "vision", [workers], where=Where(must="rack"), on_failure="pod")
scheduler.submit(job, now=0.0)
print("train starts on", *[pod.node for pod in scheduler.decide(now=0.0)[0].pods])
for now, node in ((60.0, "n0"), (120.0, "n1"), (180.0, "n3")):
    scheduler.remove_node(node, now)
    print(f"{now:3.0f} s: {node} is lost")
    for action in scheduler.decide(now):
        pods = [f"{pod.role}/{pod.index} on {pod.node}" for pod in getattr(action, "pods", ())]
        print(f"  {type(action).__name__}:", *pods, getattr(action, "reason", ""))
status = scheduler.status("train")
print(f"train is {status.state} on", *[pod.node for pod in status.pods])
