"""Group training jobs so that those on the same GPUs take turns at storage, CPU, GPU and network.

Six jobs of eight GPUs want a cluster of two such sets. Each is known by how long an iteration keeps
each resource busy; the best groups waste the least.
"""

from hivecore.interleaving import group_jobs, interleave

RESOURCES = ("storage", "CPU", "GPU", "network")
JOBS = {  # seconds of an iteration on each resource
    "ShuffleNet": [0.9, 0.3, 0.2, 0.1],
    "ResNet-18": [0.6, 0.5, 0.4, 0.2],
    "A2C": [0.0, 1.2, 0.2, 0.1],
    "DQN": [0.1, 0.9, 0.3, 0.1],
    "GPT-2": [0.1, 0.1, 1.1, 0.5],
    "VGG-16": [0.2, 0.1, 0.5, 0.9],
}


def main() -> None:
    """Print the groups and how the jobs of each take turns."""
    names = list(JOBS)
    rows = list(JOBS.values())
    grouping = group_jobs(rows, gpus=[8] * len(rows), capacity=16)
    print(f"{len(rows)} jobs in {len(grouping.groups)} groups; gap to the best: {grouping.gap:.0%}")
    for group in grouping.groups:
        turns = interleave([rows[job] for job in group])
        alone = sum(sum(rows[job]) for job in group)
        print(
            f"{', '.join(names[job] for job in group)}: a round takes {turns.iteration_time:.1f} s,"
            f" one after another {alone:.1f} s; resources are busy {turns.efficiency:.0%}"
        )
        for job, offset in zip(group, turns.offsets, strict=True):
            print(f"    {names[job]:<10} begins with {RESOURCES[-offset % 4]}")


if __name__ == "__main__":
    main()
