"""An actor queues the gangs of several jobs on Ray: quotas, priorities, preemption, lost nodes."""

import os
import time
from typing import Any

from hivecore.devices import DeviceCluster
from hivecore.interop.ray import Gangs
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler
from hivecore.topology import NetworkTopology

SHARE = {"min": {"gpu": 16}, "max": {"gpu": 40}}  # promised to each tenant; and the most


class Queue:
    """All jobs, and the placement groups of those that run."""

    def __init__(self, nodes: Any, create: Any, remove: Any, ask_for: Any) -> None:
        self.nodes, self.ask_for = nodes, ask_for
        racks = NetworkTopology(["rack"], {})  # of nodes by their label "rack"
        quotas = QuotaTree([Quota(of, **SHARE, scales=False) for of in ("ads", "nlp")], total={})
        scheduler = Scheduler(
            topology=racks, devices=DeviceCluster({}), quotas=quotas, immediate=True, growing=True
        )
        self.gangs = Gangs(scheduler, create, remove)

    def submit(self, name: str, tenant: str, pods: int, priority: int = 0) -> Any:
        """The group of a new job, as of `group`."""
        job = Job(name, tenant, [Role("worker", pods, gpus=8)], priority=priority)
        self.gangs.submit(job, time.time())
        return self.group(name)

    def group(self, name: str) -> Any:
        """None: it waits, perhaps again. Each call lets other jobs start and stop as well."""
        actions = self.gangs.step(time.time(), self.nodes())
        self.ask_for(bundles=self.gangs.wanted)
        print(*(f"{type(action).__name__} {action.job}" for action in actions), sep=", ")
        return self.gangs.group(name)


JOBS = [("sweep", "ads", 3), ("train", "nlp", 2), ("large", "ads", 5), ("urgent", "ads", 1, 9)]
if "RAY_ADDRESS" in os.environ:
    import ray
    from ray import util
    from ray.autoscaler import sdk

    ray.init()
    actor = ray.remote(Queue).options(name="gangs", lifetime="detached", get_if_exists=True)
    create = lambda *of: util.placement_group(of[0], bundle_label_selector=of[1])  # noqa: E731
    queue = actor.remote(ray.nodes, create, util.remove_placement_group, sdk.request_resources)
    for job in JOBS:
        group = ray.get(queue.submit.remote(*job))
        print(job[0], group and ("is ready", ray.get(group.ready(), timeout=60)))
else:
    labels = [{"ray.io/node-id": f"n{i}", "rack": f"r{i // 2}"} for i in range(4)]
    rows = [{"Alive": True, "Resources": {"GPU": 8}, "Labels": its} for its in labels]
    queue = Queue(lambda: rows, lambda *group: group, lambda group: None, lambda bundles: None)
    for job in JOBS:
        print(job[0], queue.submit(*job))
