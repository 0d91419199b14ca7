"""Muri as a scheduler made of cells and sharing: jobs take turns on the resources of the same GPUs.

An iteration reads data, computes, and synchronizes. Who reads long and who computes long hardly
hinder each other, so that they share GPUs when there are no others. Who needs the least GPU time
comes first (SRSF); where run times are not known, `order="2d-las"` goes by what jobs have had.
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
    """Let jobs come, and tell who runs beside whom."""
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
