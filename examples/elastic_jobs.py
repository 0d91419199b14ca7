"""An elastic job grows into idle GPUs of its rack, and shrinks when another job needs them."""

from hivecore.scheduler import Job, Role, Scheduler, Where
from hivecore.topology import NetworkTopology

network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 4}"} for i in range(8)})
for node in network.nodes:
    network.set_free(node, {"gpu": 8})
scheduler = Scheduler(topology=network, immediate=True)
near = Where(must="rack")
train = Job("train", "vision", [Role("worker", 2, gpus=8, min_pods=1, max_pods=6)], where=near)
batch = Job("batch", "vision", [Role("worker", 4, gpus=8)], where=near)
tune = Job("tune", "vision", [Role("worker", 2, gpus=8)], where=near)
for hour, job in enumerate((train, batch, tune)):
    scheduler.submit(job, now=3600.0 * hour)
    for action in scheduler.decide(now=3600.0 * hour):
        pods = [f"{pod.role}/{pod.index} on {pod.node}" for pod in getattr(action, "pods", ())]
        print(f"{hour} h  {action.job}: {type(action).__name__}", *pods)
scheduler.finish("tune", now=10800.0)
scheduler.decide(now=10800.0)
print(f"3 h  train runs with {len(scheduler.status('train').pods)} pods")
