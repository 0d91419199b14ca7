"""Koordinator as a scheduler made of queues, quotas, a network and devices.

Ads may borrow what vision does not use, and has to give it back. Gangs are within one rack, and
each pod gets GPUs with a NIC on the same switch.
"""

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start, Where
from hivecore.topology import NetworkTopology

RACKS = {f"n{i}": {"rack": f"r{i // 2}"} for i in range(4)}
MACHINE = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
WITH_NIC = DeviceRequest("any", gpus=2, nics=1, joint=("gpu", "nic"), same_pcie=True)


def main() -> None:
    """Let jobs come, and tell what the scheduler says."""
    network = NetworkTopology(["rack"], RACKS)
    for node in RACKS:
        network.set_free(node, {"gpu": 8})
    quotas = [Quota(name, min={"gpu": 16}, max={"gpu": 32}) for name in ("vision", "ads")]
    scheduler = Scheduler(
        queues=TenantQueues(),
        quotas=QuotaTree(quotas, total={"gpu": 32}),
        topology=network,
        devices=DeviceCluster(dict.fromkeys(RACKS, MACHINE)),
        immediate=True,
    )
    rack = Where(must="rack")
    jobs = [Job(f"ads-{i}", "ads", 8) for i in range(3)]
    jobs.append(Job("train", "vision", [Role("worker", 8, devices=WITH_NIC)], where=rack))
    for hour, job in enumerate(jobs):
        scheduler.submit(job, now=3600.0 * hour)
        for action in scheduler.decide(now=3600.0 * hour):
            if isinstance(action, Preempt):
                print(f"{hour} h  {action.job} leaves for {action.for_job} ({action.why})")
            elif isinstance(action, Start):
                nodes = sorted({pod.node for pod in action.pods})
                print(f"{hour} h  {action.job} starts on {', '.join(nodes)}")
                for pod in action.pods[:1] if job.name == "train" else ():
                    print(f"     its first pod has {dict(pod.minors)}")


if __name__ == "__main__":
    main()
