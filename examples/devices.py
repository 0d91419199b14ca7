"""Pods on machines whose GPUs, NICs and switches are known: joint choice, shares, preemption.

Two machines of eight GPUs and four NICs, two GPUs and a NIC on each PCIe switch. If a pod does
not fit, sweeps are evicted, but only those whose end helps.
"""

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices

MACHINE = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
GIB = 1 << 30

PODS = [
    DeviceRequest("notebook", gpus=1, core=20, memory=10 * GIB),
    DeviceRequest("serving", gpus=1, core=50, memory_percent=50),
    *(
        DeviceRequest(f"sweep-{i}", gpus=4, nics=1, joint=("gpu", "nic"), priority=-1)
        for i in range(3)
    ),
    DeviceRequest("train", gpus=2, nics=1, joint=("gpu", "nic"), same_pcie=True),
    DeviceRequest("bert", gpus=8, nics=4, joint=("gpu", "nic"), same_pcie=True),
    DeviceRequest("huge", gpus=16),
]


def main() -> None:
    """Place the pods and tell what they got."""
    cluster = DeviceCluster({"n0": MACHINE, "n1": MACHINE})
    sweeps: list[str] = []
    for pod in PODS:
        decision = cluster.schedule(pod, preemptible=sweeps)
        for victim in decision.victims:
            cluster.release(victim)
            sweeps.remove(victim)
            print(f"{victim} leaves {decision.node} for {pod.name}")
        if decision.victims:
            decision = cluster.schedule(pod)
        if decision.outcome == "wait":
            print(f"{pod.name} waits: {decision.reason}")
            continue
        held = [
            allocation
            for name in cluster.owners(decision.node)
            for allocation in cluster.allocations(name)
        ]
        decision.verify(MACHINE, held)
        cluster.commit(decision)
        if pod.priority < 0:
            sweeps.append(pod.name)
        got = ", ".join(f"{device.type} {device.minor}" for device in decision.placement)
        print(f"{pod.name} on {decision.node}: {got}")


if __name__ == "__main__":
    main()
