"""Loops that place pods with shared GPUs without `replay_devices`, to measure its overhead.

`ByHand` calls the devices without a scheduler: the least cost of a placement. `WithQuotas` uses a
scheduler with ten tenants and quotas; the quotas are wide, so that every pod is placed as without
them.
"""

from collections.abc import Iterator

import numpy as np

from hivecore.devices import DeviceCluster, DeviceRequest, TaskMix
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.sim.devices import DeviceReplay, inventories, request_of
from hivecore.traces import GpuNodes, GpuPods

__all__ = ["ByHand", "WithQuotas"]

_TENANTS = [f"tenant-{number}" for number in range(10)]


class _Loop:
    """Places the pods of a replay again, and keeps the placements."""

    def __init__(self, run: DeviceReplay, nodes: GpuNodes, pods: GpuPods) -> None:
        self.run, self.nodes, self.pods = run, nodes, pods

    def __call__(self) -> None:
        run, pods = self.run, self.pods
        columns = (pods.gpus, pods.gpu_milli, pods.cpu_milli, pods.memory_mib)
        contents = list(zip(*(column.tolist() for column in columns), pods.models, strict=True))
        first = {content: row for row, content in reversed(list(enumerate(contents)))}
        self.requests = {content: request_of(pods, row, "pod") for content, row in first.items()}
        cluster = DeviceCluster(
            {
                str(at): inventory
                for at, inventory in enumerate(inventories(self.nodes.select(run.order)))
            },
            policy=run.policy,
            mix=TaskMix.of(self.requests[content] for content in contents),
            seed=run.seed,
        )
        sampled = set(run.sampled.tolist())
        come = [contents[row] for row in run.rows.tolist()]
        result, fragmented = [], []
        for arrival, place in enumerate(self.places(cluster, come)):
            result.append(place)
            if arrival in sampled:
                fragmented.append(cluster.fragmentation())
        places = np.array(result)
        self.node = np.where(places >= 0, run.order[places], -1).tolist()
        self.fragmented = fragmented

    def places(self, cluster: DeviceCluster, come: list[object]) -> Iterator[int]:
        raise NotImplementedError

    def check(self) -> None:
        """Check that every pod is where it was in the replay."""
        assert self.node == self.run.node.tolist()
        assert self.fragmented == self.run.fragmented.tolist()


class ByHand(_Loop):
    """Devices alone; pods have the names of their jobs."""

    def places(self, cluster: DeviceCluster, come: list[object]) -> Iterator[int]:
        requests: dict[object, DeviceRequest] = self.requests
        for arrival, content in enumerate(come):
            request = requests[content] = requests[content].replace(name=f"{arrival}/pod/0")
            decision = cluster.schedule(request)
            if decision.outcome == "bind":
                cluster.commit(decision)
            yield int(decision.node or -1)


class WithQuotas(_Loop):
    """A scheduler with quotas, too."""

    def places(self, cluster: DeviceCluster, come: list[object]) -> Iterator[int]:
        most = {"gpu": int(self.pods.gpus[self.run.rows].sum())}
        total = {"gpu": len(_TENANTS) * most["gpu"]}
        quotas = QuotaTree([Quota(name, max=most) for name in _TENANTS], total=total)
        scheduler = Scheduler(quotas=quotas, devices=cluster, preemption=False)
        roles = {
            content: (Role("pod", devices=request),) for content, request in self.requests.items()
        }
        for arrival, content in enumerate(come):
            job = Job(str(arrival), _TENANTS[arrival % len(_TENANTS)], roles[content])
            scheduler.submit(job, float(arrival))
            actions = scheduler.decide(float(arrival))
            started = [action for action in actions if isinstance(action, Start)]
            if not started:
                scheduler.cancel(job.name, float(arrival))
            yield int(started[0].pods[0].node) if started else -1
