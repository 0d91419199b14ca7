"""All parts at once: queues, quotas, cells, devices, sharing and storage decide together.

A lab with two tenants. A job starts when its quota lets it in, its tenant's cells have a place for
it, GPUs and NICs are on one switch, and its data come in time; else it may share GPUs, or others
leave.
"""

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Data, Job, Role, Scheduler, Sharing, Start, StoragePool, Wait

NODES = Chain(levels=["gpu", "switch", "node"], fanouts=[4, 2], roots=2)
OWNED = {"vision": {"H100": {"node": 1}}, "speech": {"H100": {"node": 1}}}
NICS = DeviceRequest("any", gpus=4, nics=1, joint=("gpu", "nic"), same_pcie=True)
READS, COMPUTES = (3.0, 1.0, 0.5), (0.5, 3.0, 1.0)  # seconds of an iteration

JOBS = [
    Job("resnet", "vision", 8, stages=READS, data=Data("images", rate_mbps=300.0)),
    Job("probe", "speech", 8, guaranteed=False),
    Job("bert", "speech", [Role("worker", 2, devices=NICS)], data=Data("text", rate_mbps=50.0)),
    Job("vit", "vision", 8, stages=COMPUTES),
    Job("asr", "speech", [Role("worker", 1, devices=NICS)]),
]


def main() -> None:
    """Let a job come every hour, and tell what follows."""
    cells = CellCluster(ClusterSpec({"H100": NODES}, OWNED))
    machine = NodeDevices.uniform(gpus=8, nics=2, switches=2)
    share = {"max": {"gpu": 16}, "min": {"gpu": 8}}
    scheduler = Scheduler(
        queues=TenantQueues(),
        quotas=QuotaTree([Quota(of, **share) for of in OWNED], total={"gpu": 16}),
        cells=cells,
        devices=DeviceCluster(dict.fromkeys(cells.nodes, machine)),
        sharing=Sharing(resources=3, max_group=2, min_gain=0.3),
        storage=StoragePool({"images": 200.0, "text": 50.0}, cache_gb=100.0, bandwidth_mbps=200.0),
        immediate=True,
    )
    for hour, job in enumerate(JOBS):
        scheduler.submit(job, now=3600.0 * hour)
        for action in scheduler.decide(now=3600.0 * hour):
            if isinstance(action, Start):
                how = f"starts beside {action.shares_with}" if action.shares_with else "starts"
                print(f"{hour} h  {action.job} {how} on {[pod.node for pod in action.pods]}")
            elif isinstance(action, Wait):
                print(f"{hour} h  {action.job} waits: {action.reason}")
            else:
                print(f"{hour} h  {action}")


if __name__ == "__main__":
    main()
