"""Muri as a scheduler made of cells and sharing: jobs take turns on the resources of the same GPUs.

An iteration reads data, computes, and synchronizes. A job that reads long and one that computes
long hardly slow each other, so they share GPUs if there are no others. The job that needs the least
GPU time comes first (SRSF); `order="2d-las"` is for unknown run times.
"""

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Scheduler, Sharing, Start

NODES = Chain(levels=["gpu", "node"], fanouts=[8], roots=2)

# hours that it runs; seconds of an iteration: reading, computing, synchronizing
JOBS = {
    "third": (9, (1.5, 1.5, 1.5)),
    "reads": (2, (3.0, 1.0, 0.5)),
    "computes": (1, (0.5, 3.0, 1.0)),
    "reads too": (3, (3.0, 1.0, 0.5)),
    "computes too": (4, (0.5, 3.0, 1.0)),
}


def main() -> None:
    """Submit jobs, and print which of them share GPUs."""
    owned = {"lab": {"A100": {"node": 2}}}
    scheduler = Scheduler(
        queues=TenantQueues(order="srsf"),
        cells=CellCluster(ClusterSpec({"A100": NODES}, owned)),
        sharing=Sharing(resources=3, max_group=2, min_gain=0.3),
    )
    for name, (hours, stages) in JOBS.items():
        scheduler.submit(Job(name, "lab", 8, run_time=3600.0 * hours, stages=stages), now=0.0)
    for action in scheduler.decide(now=0.0):
        if not isinstance(action, Start):
            print(f"{action.job} waits")
        elif action.shares_with:
            print(f"{action.job} joins {action.shares_with[0]} on {action.pods[0].node}")
        else:
            print(f"{action.job} starts on {action.pods[0].node}")


if __name__ == "__main__":
    main()
