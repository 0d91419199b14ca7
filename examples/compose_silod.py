"""SiloD as a scheduler made of a network and storage: cache and remote IO are given to jobs.

Three jobs read more than the remote link carries. What is cached goes where a GB of cache saves
most, and the link is divided among the others.
"""

from hivecore.queues import TenantQueues
from hivecore.scheduler import Data, Job, Scheduler, SetCache, SetRemoteIO, Start, StoragePool
from hivecore.topology import NetworkTopology

NODES = {f"n{i}": {"rack": "r0"} for i in range(3)}
DATASETS_GB = {"images": 150.0, "video": 1000.0, "text": 50.0}

JOBS = [
    Job("resnet", "vision", 8, data=Data("images", rate_mbps=900.0)),
    Job("clips", "vision", 8, data=Data("video", rate_mbps=400.0)),
    Job("bert", "speech", 8, data=Data("text", rate_mbps=50.0)),
]


def main() -> None:
    """Let jobs come, and tell what they get."""
    network = NetworkTopology(["rack"], NODES)
    for node in NODES:
        network.set_free(node, {"gpu": 8})
    pool = StoragePool(DATASETS_GB, cache_gb=200.0, bandwidth_mbps=500.0)
    scheduler = Scheduler(queues=TenantQueues(), topology=network, storage=pool)
    for hour, job in enumerate(JOBS):
        scheduler.submit(job, now=3600.0 * hour)
        for action in scheduler.decide(now=3600.0 * hour):
            if isinstance(action, Start):
                print(f"{hour} h  {action.job} starts on {action.pods[0].node}")
            elif isinstance(action, SetCache):
                print(f"{hour} h  cache {action.size / 1e9:.0f} GB of {action.dataset}")
            elif isinstance(action, SetRemoteIO):
                print(f"{hour} h  {action.job} may read {action.rate_mbps:.0f} MB/s from remote")


if __name__ == "__main__":
    main()
