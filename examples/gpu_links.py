"""Jobs on a machine whose links between GPUs were read from what `nvidia-smi topo -m` printed."""

from hivecore.devices import DeviceCluster, DeviceRequest
from hivecore.interop.gpu_topology import read_nvidia_topology
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.verify import verify_actions

PRINTED = """
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    CPU Affinity
GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS     0-19,40-59
GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS     0-19,40-59
GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS     0-19,40-59
GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1     0-19,40-59
GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2     20-39,60-79
GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1     20-39,60-79
GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2     20-39,60-79
GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X      20-39,60-79
"""


def main() -> None:
    """Submit jobs of four GPUs of which each two have a link."""
    node = read_nvidia_topology(PRINTED, gpu_memory=32 << 30, model="V100")
    scheduler = Scheduler(devices=DeviceCluster({"n0": node}))
    linked = Role("worker", devices=DeviceRequest("any", gpus=4, links="all"))
    jobs = {name: Job(name, "vision", [linked]) for name in ("first", "second", "third")}
    for job in jobs.values():
        scheduler.submit(job, now=0.0)
    before = scheduler.copy()
    actions = scheduler.decide(now=0.0)
    verify_actions(actions, jobs, before)  # plain Python, apart from the kernel
    for action in actions:
        if isinstance(action, Start):
            gpus = dict(action.pods[0].minors)["gpu"]
            print(f"{action.job}: GPUs {gpus} with {node.links.between(gpus)} links")


if __name__ == "__main__":
    main()
