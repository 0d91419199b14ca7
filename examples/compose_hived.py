"""HiveD as a scheduler made of queues and cells: what is promised is kept, what is idle is used.

Vision is promised two nodes, speech one. A sweep of speech's uses what is idle, and leaves when
vision comes for what it is promised; vision's third job waits for its own cells.
"""

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start, Wait

NODES = Chain(levels=["gpu", "node"], fanouts=[8], roots=3)
OWNED = {"vision": {"A100": {"node": 2}}, "speech": {"A100": {"node": 1}}}


def main() -> None:
    """Let jobs come, and tell what the scheduler says."""
    cells = CellCluster(ClusterSpec({"A100": NODES}, OWNED), evictions="private")
    scheduler = Scheduler(queues=TenantQueues(), cells=cells, immediate=True)
    jobs = [
        Job("sweep", "speech", [Role("worker", 2, gpus=8)], guaranteed=False),
        Job("resnet", "vision", 8),
        Job("bert", "vision", 8),
        Job("vit", "vision", 4),
    ]
    for hour, job in enumerate(jobs):
        scheduler.submit(job, now=3600.0 * hour)
        for action in scheduler.decide(now=3600.0 * hour):
            tell(hour, action)
    print("vit would start", scheduler.explain("vit").changes[0].text)


def tell(hour: int, action: object) -> None:
    """What is to be done, in a line."""
    if isinstance(action, Start):
        print(f"{hour} h  {action.job} starts on {', '.join(pod.node for pod in action.pods)}")
    elif isinstance(action, Preempt):
        print(f"{hour} h  {action.job} leaves for {action.for_job} ({action.why})")
    elif isinstance(action, Wait):
        print(f"{hour} h  {action.job} waits: {action.reason}")


if __name__ == "__main__":
    main()
