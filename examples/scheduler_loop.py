"""A small scheduler: a queue of jobs in front of a `CellCluster`.

Jobs are taken by priority, then in the order of the queue. What binds is committed; what needs an
opportunistic job's GPUs evicts it; waiting jobs are retried when another job comes or ends.
"""

import heapq

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec

NODES = Chain(levels=["gpu", "pair", "node"], fanouts=[2, 4], roots=3)
OWNED = {"vision": {"A100": {"node": 2}}, "speech": {"A100": {"node": 1}}}

# (hour of submission, hours of work, job)
JOBS = [
    (0, 9, AffinityGroup("sweep", "speech", [(2, 8)], priority=-1)),
    (1, 4, AffinityGroup("resnet", "vision", [(1, 8)])),
    (2, 3, AffinityGroup("bert", "vision", [(1, 8)])),
    (3, 2, AffinityGroup("vit", "vision", [(2, 8)])),
    (4, 5, AffinityGroup("asr", "speech", [(4, 2)])),
]


def main() -> None:
    """Run the jobs to their ends and tell what happens."""
    cluster = CellCluster(ClusterSpec(chains={"A100": NODES}, virtual_clusters=OWNED))
    work = {job.name: hours for _, hours, job in JOBS}
    coming = [(hour, job) for hour, _, job in JOBS]
    ends: list[tuple[int, str]] = []
    queue: list[AffinityGroup] = []
    runs: dict[str, AffinityGroup] = {}
    while coming or ends or queue:
        now = min(event[0] for event in (*coming[:1], *ends[:1]))
        while ends and ends[0][0] == now:
            _, name = heapq.heappop(ends)
            cluster.release(name)
            del runs[name]
            print(f"{now:>2} h  {name} ends")
        while coming and coming[0][0] == now:
            queue.append(coming.pop(0)[1])
        for job in sorted(queue, key=lambda job: -job.priority):
            for victim in cluster.schedule(job).victims:
                cluster.release(victim)
                queue.append(runs.pop(victim))
                ends = sorted(end for end in ends if end[1] != victim)
                print(f"{now:>2} h  {victim} is evicted by {job.name}")
            decision = cluster.schedule(job)
            if decision.outcome == "wait":
                print(f"{now:>2} h  {job.name} waits: {decision.reason}")
                continue
            cluster.commit(decision)
            queue.remove(job)
            runs[job.name] = job
            heapq.heappush(ends, (now + work[job.name], job.name))
            nodes = ", ".join(sorted({pod.node for pod in decision.placement}))
            print(f"{now:>2} h  {job.name} starts on {nodes}")


if __name__ == "__main__":
    main()
