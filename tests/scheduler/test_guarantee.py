"""With cells alone, guaranteed jobs run as in a private cluster of their tenant."""

import random

import pytest
from profiles import seeds

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Role, Scheduler, Where

CHAIN = Chain(["gpu", "pair", "node", "rack"], [2, 2, 3], 4)
OWNED = {"a": {"rack": 1, "node": 2}, "b": {"rack": 1}, "c": {"node": 4}}


def scheduler(*tenants):
    owned = {tenant: {"c": OWNED[tenant]} for tenant in tenants}
    cells = CellCluster(ClusterSpec({"c": CHAIN}, owned), evictions="private")
    return Scheduler(queues=TenantQueues(), cells=cells, immediate=True)


def some_job(rng, name, tenant, *, guest):
    pods, gpus = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2, 3, 4, 4])
    within = rng.choice(["", "", "", "rack"]) if pods > 1 else ""
    where = Where(within=within)
    return Job(name, tenant, [Role("w", pods, gpus=gpus)], guaranteed=not guest, where=where)


@pytest.mark.parametrize("seed", seeds(20))
def test_guaranteed_jobs_run_exactly_when_they_would_in_a_private_cluster(seed):
    rng = random.Random(seed)
    shared = scheduler(*OWNED)
    private = {tenant: scheduler(tenant) for tenant in OWNED}
    owner = {}  # of guaranteed jobs that have not ended
    preempted = 0
    for step in range(300):
        now = float(step)
        running = [name for name in shared if shared.state(name) == "running"]
        if running and rng.random() < 0.4:
            name = rng.choice(running)
            shared.finish(name, now)
            if name in owner:
                private[owner.pop(name)].finish(name, now)
        else:
            name, tenant, guest = f"j{step}", rng.choice(sorted(OWNED)), rng.random() < 0.4
            job = some_job(rng, name, tenant, guest=guest)
            shared.submit(job, now)
            if not guest:
                owner[name] = tenant
                private[tenant].submit(job, now)
        preempted += sum(type(cluster).__name__ == "Preempt" for cluster in shared.decide(now))
        for cluster in private.values():
            cluster.decide(now)
        for name in [*owner]:
            cluster = private[owner[name]]
            if name not in cluster:  # it could never run
                assert name not in shared
                del owner[name]
            else:
                assert shared.state(name) == cluster.state(name), (step, name)
    shared.check()
    assert preempted
