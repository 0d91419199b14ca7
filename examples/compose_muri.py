"""Muri as a scheduler made of cells and sharing: jobs take turns on the resources of the same GPUs.

An iteration reads data, computes, and synchronizes. Who reads long and who computes long hardly
hinder each other, so that they share GPUs when there are no others.
"""

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Scheduler, Sharing, Start

NODES = Chain(levels=["gpu", "node"], fanouts=[8], roots=2)

# seconds of an iteration: reading, computing, synchronizing
JOBS = {
    "reads": (3.0, 1.0, 0.5),
    "computes": (0.5, 3.0, 1.0),
    "reads too": (3.0, 1.0, 0.5),
    "computes too": (0.5, 3.0, 1.0),
    "third": (1.5, 1.5, 1.5),
}


def main() -> None:
    """Let jobs come, and tell who runs beside whom."""
    owned = {"lab": {"A100": {"node": 2}}}
    scheduler = Scheduler(
        queues=TenantQueues(),
        cells=CellCluster(ClusterSpec({"A100": NODES}, owned)),
        sharing=Sharing(resources=3, max_group=2, min_gain=0.3),
    )
    for name, stages in JOBS.items():
        scheduler.submit(Job(name, "lab", 8, stages=stages), now=0.0)
    for action in scheduler.decide(now=0.0):
        if not isinstance(action, Start):
            print(f"{action.job} waits")
        elif action.shares_with:
            print(f"{action.job} joins {action.shares_with[0]} on {action.pods[0].node}")
        else:
            print(f"{action.job} starts on {action.pods[0].node}")


if __name__ == "__main__":
    main()
