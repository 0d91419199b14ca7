"""HiveD's YAML in, decisions out: pods of two tenants, and the answers for each.

A pod brings HiveD's pod-scheduling-spec. The same calls sit behind `hivecore serve`, which answers
kube-scheduler. Needs the extra `hived` (PyYAML).
"""

from pathlib import Path

from hivecore.interop.hived import HivedConfig, HivedScheduler

PODS = [
    ("default/train-0", {"virtualCluster": "vision", "leafCellNumber": 2}),
    ("default/train-1", {"virtualCluster": "vision", "leafCellNumber": 2}),
    ("default/sweep-0", {"virtualCluster": "vision", "leafCellNumber": 4, "priority": -1}),
    ("default/train-2", {"virtualCluster": "vision", "leafCellNumber": 1}),
    ("default/asr-0", {"virtualCluster": "speech", "leafCellNumber": 4, "priority": 5}),
]


def main() -> None:
    """Ask for each pod and print the answer."""
    scheduler = HivedScheduler(HivedConfig.read(Path(__file__).with_name("hived.yaml")))
    for pod, spec in PODS:
        decision = scheduler.schedule(pod, spec)
        if decision.outcome == "bind":
            scheduler.allocate(pod)
            print(f"{pod}: bound to {decision.node}, GPUs {decision.leaf_cells}")
        elif decision.outcome == "preempt":
            print(f"{pod}: preempts {', '.join(decision.victims)}")
        else:
            print(f"{pod}: waits: {decision.reason}")

    scheduler.delete("default/sweep-0")  # kube-scheduler deletes the victims and asks again
    print("after the eviction:")
    pod, spec = PODS[-1]
    decision = scheduler.schedule(pod, spec)
    scheduler.allocate(pod)
    print(f"{pod}: bound to {decision.node}, GPUs {decision.leaf_cells}")
    print("its annotation:", scheduler.bind_info(pod))


if __name__ == "__main__":
    main()
