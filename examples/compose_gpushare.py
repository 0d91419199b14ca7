"""gpushare as a scheduler made of devices alone: shares of GPUs, packed on few of them."""

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.scheduler import Job, Role, Scheduler, Start

GIB = 1 << 30
MACHINE = NodeDevices.uniform(gpus=2, gpu_memory=16 * GIB)


def share(name: str, gib: int) -> Job:
    """A pod that asks for a part of one GPU's memory."""
    return Job(name, "team", [Role("pod", devices=DeviceRequest("any", gpus=1, memory=gib * GIB))])


def main() -> None:
    """Let pods come, and tell where they go."""
    scheduler = Scheduler(devices=DeviceCluster({"n0": MACHINE, "n1": MACHINE}))
    sizes = {"notebook": 4, "serving": 10, "tuning": 12, "batch": 2, "large": 16, "whole": 15}
    for now, (name, gib) in enumerate(sizes.items()):
        scheduler.submit(share(name, gib), now)
        for action in scheduler.decide(now):
            if isinstance(action, Start):
                (pod,) = action.pods
                print(f"{action.job} ({sizes[action.job]} GiB) on GPU {pod.gpus[0]} of {pod.node}")
            else:
                print(f"{action.job} waits: {scheduler.explain(name).reason}")


if __name__ == "__main__":
    main()
